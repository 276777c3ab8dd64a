package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

func TestListInPages(t *testing.T) {
	t.Parallel()
	s := startService(t)
	var accepted []string
	for number := range 5 {
		accepted = append(accepted, s.accept(push("message", fmt.Sprintf(`"%s %d"`, canaryMessage, number))))
	}
	var listed []string
	cursor := ""
	for range 5 {
		got := s.get("/push?status=PENDING&limit=2&cursor=" + url.QueryEscape(cursor))
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		var page struct {
			Items []struct{ ID, Status, Message string }
			Next  string
		}
		require.NoError(t, json.Unmarshal([]byte(got.body), &page))
		require.LessOrEqual(t, len(page.Items), 2)
		for _, item := range page.Items {
			require.Equal(t, "PENDING", item.Status)
			require.Contains(t, item.Message, canaryMessage)
			listed = append(listed, item.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Empty(t, cursor, "the listing has no end")
	require.Equal(t, accepted, listed)
}

func TestItemsOfAListAreWholePushes(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push("message", `"<b> & 👋"`))
	one := s.get("/push/" + id).body
	require.Equal(t, `{"items":[`+one[:len(one)-1]+"]}\n", s.get("/push?status=PENDING").body)
}

func TestEmptyList(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, state := range tasks.States() {
		got := s.get("/push?status=" + string(state) + "&limit=200&cursor=")
		require.Equal(t, http.StatusOK, got.status, state)
		require.Equal(t, `{"items":[]}`+"\n", got.body, state)
	}
}

func TestBadParametersOfAList(t *testing.T) {
	t.Parallel()
	s := startService(t)
	forged := base64.RawURLEncoding.EncodeToString
	for query, mistakes := range map[string][]string{
		"":                           {"status must be one of [SCHEDULED PENDING"},
		"?":                          {"status must be one of"},
		"?status=":                   {"status must be one of"},
		"?status=pending":            {"status must be one of"},
		"?status=DONE":               {"status must be one of"},
		"?status=PENDING%20":         {"status must be one of"},
		"?status=SENT&status=SENT":   {"status is there twice"},
		"?STATUS=SENT":               {"STATUS is not a parameter", "status must be one of"},
		"?status=SENT&limit=0":       {"limit must be a number from 1 to 200"},
		"?status=SENT&limit=-1":      {"limit must be a number from 1 to 200"},
		"?status=SENT&limit=201":     {"limit must be a number from 1 to 200"},
		"?status=SENT&limit=100000":  {"limit must be a number from 1 to 200"},
		"?status=SENT&limit=abc":     {"limit must be a number from 1 to 200"},
		"?status=SENT&limit=1.5":     {"limit must be a number from 1 to 200"},
		"?status=SENT&limit=":        {"limit must be a number from 1 to 200"},
		"?status=SENT&limit=1&limit": {"limit is there twice"},
		"?status=SENT&limit=99999999999999999999":     {"limit must be a number from 1 to 200"},
		"?status=SENT&page=2":                         {"page is not a parameter"},
		"?status=SENT&channel=fcm":                    {"channel must be one of [swrve]"},
		"?status=SENT&channel=":                       {"channel must be one of [swrve]"},
		"?status=SENT&channel=swrve&channel=swrve":    {"channel is there twice"},
		"?status=sent&limit=0&page=2":                 {"limit must be", "page is not", "status must be"},
		"?status=SENT&cursor=x":                       {"cursor is not one that"},
		"?status=SENT&cursor=%00":                     {"cursor is not one that"},
		"?status=SENT&cursor=" + forged([]byte("{}")): {"cursor is not one that"},
		"?status=SENT&cursor=" + forged([]byte(`{"channel":"swrve","state":"SENT","positions":[]}`)):                            {"cursor is not one that"},
		"?status=SENT&cursor=" + forged([]byte(`{"channel":"swrve","state":"PENDING","positions":[{},{}]}`)):                    {"cursor is not one that"},
		"?status=SENT&cursor=" + forged([]byte(`{"channel":"swrve","state":"SENT","positions":[{"skip":-1},{}]}`)):              {"cursor is not one that"},
		"?status=SENT&cursor=" + forged([]byte(`{"channel":"swrve","state":"SENT","positions":[{"skip":9999999999},{}]}`)):      {"cursor is not one that"},
		"?status=SENT&cursor=" + forged([]byte(`{"channel":"swrve","state":"SENT","positions":[{"score":"(1"},{}],"key":"x"}`)): {"cursor is not one that"},
		"?status=SENT&limit=%zz":  {"query"},
		"?status=SENT;limit=1":    {"query"},
		"?status=SENT&%zz=1":      {"query"},
		"?status=SENT&cursor=a;b": {"query"},
	} {
		t.Run(query, func(t *testing.T) { s.get("/push"+query).requireMistakes(t, mistakes...) })
	}
}
