package main

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/repeats"
	"pushq/internal/swrvesim"
)

var repeatedLines = regexp.MustCompile(` ` + repeats.Attribute + `=(\d+)`)

// While Redis is away every request fails. The log says so once a second, with their number.
func TestRefusedPushesAreCountedInTheLog(t *testing.T) {
	t.Parallel()
	const callers, each = 20, 60
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	w.Redis.Stop()
	started := time.Now()
	statuses := make(chan int, callers*each)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				status, _, _, _ := tryPost(api.URL(), pushBody("user"))
				statuses <- status
			}
		})
	}
	all.Wait()
	for range callers * each {
		require.Equal(t, http.StatusServiceUnavailable, <-statuses)
	}
	api.Terminate()
	require.Zero(t, api.Wait(30*time.Second))
	took := time.Since(started)

	lines, total := 0, 0
	for _, line := range api.Stderr() {
		if !strings.Contains(line, `msg="request failed"`) {
			continue
		}
		lines++
		count := 1
		if found := repeatedLines.FindStringSubmatch(line); found != nil {
			var err error
			count, err = strconv.Atoi(found[1])
			require.NoError(t, err)
		}
		total += count
	}
	require.Equal(t, callers*each, total, "every one is counted")
	const kinds = 8 // of errors, at most: refused, reset, not answered in time
	require.LessOrEqual(t, lines, kinds*(2+int(took/time.Second)))
}
