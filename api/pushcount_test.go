package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

func TestPushesAreCounted(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Channels = tasks.Channels()
	s.start()
	s.accept(push())
	s.ended(tasks.Failed)
	s.ended(tasks.Failed)
	counts := func(query string) map[string]int64 {
		got := s.get("/push/count" + query)
		require.Equal(t, http.StatusOK, got.status, got.body)
		var view countListView
		require.NoError(t, json.Unmarshal([]byte(got.body), &view))
		found := make(map[string]int64)
		for _, item := range view.Items {
			require.True(t, item.Exact)
			found[item.Channel+" "+string(item.Status)] = item.Count
		}
		return found
	}
	all := counts("")
	require.Len(t, all, 2*len(tasks.States()))
	require.EqualValues(t, 1, all["swrve PENDING"])
	require.EqualValues(t, 2, all["swrve FAILED"])
	require.Zero(t, all["fcm FAILED"])
	require.Len(t, counts("?channel=fcm"), len(tasks.States()))
	s.get("/push/count?channel=other").requireMistakes(t, "channel must be one of [swrve fcm]")
	s.get("/push/count?status=FAILED").requireMistakes(t, "status is not a parameter")
	s.redis.Stop()
	require.Equal(t, http.StatusServiceUnavailable, s.get("/push/count").status)
}
