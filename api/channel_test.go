package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

// notifyMany stores notifications and returns their ids.
func (s *testService) notifyMany(count int) (ids []string) {
	s.t.Helper()
	for number := range count {
		got := s.notify(strings.Replace(notification, "notif_1", fmt.Sprintf("notif_%d", number), 1))
		require.Equal(s.t, http.StatusAccepted, got.status, got.body)
		ids = append(ids, strings.TrimPrefix(got.header.Get("Location"), "/push/"))
	}
	return ids
}

// listed returns the ids of a page, and the cursor of the next.
func (s *testService) listed(query string) (ids []string, next string) {
	s.t.Helper()
	got := s.get("/push?" + query)
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	var page struct {
		Items []struct{ ID string }
		Next  string
	}
	require.NoError(s.t, json.Unmarshal([]byte(got.body), &page))
	for _, item := range page.Items {
		ids = append(ids, item.ID)
	}
	return ids, page.Next
}

func TestAChannelHasItsOwnPages(t *testing.T) {
	t.Parallel()
	s := startNotifications(t)
	swrve := []string{s.accept(push()), s.accept(push())}
	fcm := s.notifyMany(2)
	for query, all := range map[string][]string{"": swrve, "&channel=swrve": swrve, "&channel=fcm": fcm} {
		first, next := s.listed("status=PENDING&limit=1" + query)
		require.Equal(t, all[:1], first, query)
		second, _ := s.listed("status=PENDING&limit=1&cursor=" + next + query)
		require.Equal(t, all[1:], second, query)
		other := "&channel=fcm"
		if query == other {
			other = ""
		}
		s.get("/push?status=PENDING&cursor="+next+other).requireMistakes(t, "cursor is not one that a listing of this channel and status")
	}
	s.get("/push?status=PENDING&channel=FCM").requireMistakes(t, "channel must be one of [swrve fcm]")
}

func TestBulkActionsOfAChannel(t *testing.T) {
	t.Parallel()
	s := startNotifications(t)
	swrve, fcm := s.accept(push()), s.notifyMany(3)
	cancel := func(query, body string) bulkAnswer { return s.bulk("cancel"+query, body) }

	first := cancel("?channel=fcm", `{"status":"PENDING","limit":1}`)
	require.Equal(t, 1, first.Done)
	goOn := fmt.Sprintf(`{"status":"PENDING","cursor":%q}`, first.Next)
	s.postBulk("cancel", goOn).requireMistakes(t, "cursor is not one that")
	s.postBulk("cancel?channel=swrve", goOn).requireMistakes(t, "cursor is not one that")
	require.Equal(t, "PENDING", s.state(swrve), "it belongs to the other channel")
	require.Equal(t, bulkAnswer{Matched: 2, Done: 2}, cancel("?channel=fcm", goOn))
	for _, id := range fcm {
		require.Equal(t, "CANCELLED", s.state(id))
	}
	require.Equal(t, bulkAnswer{Matched: 1, Done: 1}, cancel("", `{"status":"PENDING"}`))
	require.Equal(t, bulkAnswer{Matched: 3, Done: 3}, s.bulk("retry?channel=fcm", `{"status":"CANCELLED"}`))
	require.Equal(t, "CANCELLED", s.state(swrve))
	require.Contains(t, s.log.String(), "msg=operator action=retry status=CANCELLED channel=fcm matched=3 done=3")
	for _, action := range []string{"retry", "cancel"} {
		s.postBulk(action+"?channel=fcm", `{"status":"RETRY","messagePrototypeKey":"Hello"}`).
			requireMistakes(t, "messagePrototypeKey has no meaning for the channel fcm")
	}

	for query, mistakes := range map[string][]string{
		"?channel=other":            {"channel must be one of [swrve fcm]"},
		"?channel=":                 {"channel must be one of [swrve fcm]"},
		"?channel=fcm&channel=fcm":  {"channel is there twice"},
		"?chanel=fcm":               {"chanel is not a parameter of this action"},
		"?channel=other&limit=1":    {"channel must be", "limit is not a parameter"},
		"?channel=%zz":              {"query"},
		"?status=PENDING;channel=x": {"query"},
	} {
		for _, action := range []string{"cancel", "retry"} {
			s.postBulk(action+query, `{"status":"SCHEDULED"}`).requireMistakes(t, mistakes...)
		}
	}
}

func TestAChannelThatIsNotServed(t *testing.T) {
	t.Parallel()
	s := startService(t)
	s.postBulk("retry?channel=fcm", `{"status":"FAILED"}`).requireMistakes(t, "channel must be one of [swrve]")
}

// After a push has failed, its key may have been given to another one.
func TestARetryOfASupersededPush(t *testing.T) {
	t.Parallel()
	s := startNotifications(t)
	first := s.notifyMany(1)[0]
	require.Equal(t, http.StatusNoContent, s.cancel(first).status)
	second := s.notifyMany(1)[0]
	require.NotEqual(t, first, second)
	got := s.retry(first)
	require.Equal(t, http.StatusConflict, got.status)
	require.Equal(t, "superseded", got.kind())
	require.Equal(t, string(tasks.Cancelled), got.problem.State)
	require.Contains(t, got.problem.Detail, second)
	sum := s.bulk("retry?channel=fcm", `{"status":"CANCELLED"}`)
	require.Equal(t, 1, sum.Skipped.Moved)
}
