package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// postBatch posts lines of pushes that must all be accepted, and returns their ids. Each has
// an idempotency key, and those that Redis has not taken are posted again.
func postBatch(t *testing.T, process *testenv.Process, lines []string) []string {
	t.Helper()
	keyed := make([]string, len(lines))
	for number, line := range lines {
		keyed[number] = fmt.Sprintf(`{"idempotencyKey":%q,%s`, tasks.NewID(), strings.TrimPrefix(line, "{"))
	}
	var ids []string
	testenv.EventuallyNoError(t, time.Minute, func() error {
		ids = ids[:0]
		for _, item := range tryBatch(t, process, keyed) {
			if item.ID == "" {
				return fmt.Errorf("push %d was not accepted: %s", len(ids), item.Error)
			}
			ids = append(ids, item.ID)
		}
		return nil
	})
	return ids
}

type batchItem struct {
	ID    string          `json:"id"`
	Error json.RawMessage `json:"error"`
}

func tryBatch(t *testing.T, process *testenv.Process, lines []string) (items []batchItem) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, process.URL()+"/push/batch", strings.NewReader(strings.Join(lines, "\n")))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.NewDecoder(response.Body).Decode(&items))
	require.Len(t, items, len(lines))
	return items
}

func pushLines(prefix string, count int) []string {
	lines := make([]string, count)
	for number := range lines {
		lines[number] = pushBody(fmt.Sprint(prefix, number))
	}
	return lines
}

// listAll follows the listing of a state to its end and returns the ids.
func listAll(t *testing.T, process *testenv.Process, state tasks.State) []string {
	t.Helper()
	output, err := execute("push", "list", "--status", string(state), "--limit", "1000000", "--json", "--server", process.URL())
	require.NoError(t, err)
	ids := []string{}
	for line := range strings.Lines(output) {
		var push pushAnswer
		require.NoError(t, json.Unmarshal([]byte(line), &push))
		ids = append(ids, push.ID)
	}
	return ids
}

// requireNoGhosts wants as many task hashes in Redis as asynq's queues say they
// have tasks: asynq's own archive loses hashes when it overflows.
func (w *world) requireNoGhosts() {
	w.t.Helper()
	client := w.Redis.Client(w.t)
	testenv.EventuallyNoError(w.t, 10*time.Second, func() error {
		hashes, sizes := 0, int64(0)
		for _, queue := range tasks.Swrve.Queues() {
			keys := client.Scan(context.Background(), 0, "asynq:{"+queue+"}:t:*", 10_000).Iterator()
			for keys.Next(context.Background()) {
				hashes++
			}
			if err := keys.Err(); err != nil {
				return err
			}
			for _, state := range []string{"pending", "active"} {
				sizes += client.LLen(context.Background(), "asynq:{"+queue+"}:"+state).Val()
			}
			for _, state := range []string{"scheduled", "retry", "archived", "completed"} {
				sizes += client.ZCard(context.Background(), "asynq:{"+queue+"}:"+state).Val()
			}
		}
		if int64(hashes) != sizes {
			return fmt.Errorf("%d hashes of tasks, %d tasks in the queues", hashes, sizes)
		}
		return nil
	})
}

// startQuick is startReady for tests with many pushes, without the race detector.
func (w *world) startQuick(subcommand string, settings ...string) *testenv.Process {
	w.t.Helper()
	process := testenv.StartProgram(w.t, testenv.BinaryWithoutRace(w.t),
		[]string{subcommand, "--listen", "127.0.0.1:0"}, w.Environment(settings...)...)
	process.WaitReady()
	return process
}

// More pushes have failed than asynq's archive holds.
func TestTwelveThousandFailedPushesAreAllRetried(t *testing.T) {
	t.Parallel()
	const count = 12_000
	sim := testenv.StartProgram(t, testenv.BinaryWithoutRace(t), []string{"sim", "swrve", "--listen", "127.0.0.1:0"})
	redis := testenv.StartRedis(t)
	w := &world{testenv.World{Pushq: testenv.Pushq{RedisURL: redis.URL(), SwrveURL: sim.URL() + "/push"}, Redis: redis}, t}
	api := w.startQuick("api")
	started := time.Now()
	lines := pushLines("user-", count)
	ids := append(postBatch(t, api, lines[:count/2]), postBatch(t, api, lines[count/2:])...)
	w.failWaiting(ids)
	client := w.Redis.Client(t)
	archived := func() int64 { return client.ZCard(t.Context(), "asynq:{swrve}:archived").Val() }
	require.EqualValues(t, count, archived())
	w.startQuick("worker", "SWRVE_DELAYMILLIS=0.3", "SWRVE_CONCURRENCY=300")
	testenv.Eventually(t, 20*time.Second, "the caretaker to take the oldest out of the archive", func() bool { return archived() <= 7000 })
	t.Logf("%d FAILED and cared for after %s", count, time.Since(started))

	listed := listAll(t, api, tasks.Failed)
	require.Equal(t, slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(listed)))
	for number := 0; number < count; number += 100 {
		require.Equal(t, tasks.Failed, lookUp(t, api, ids[number]).Status)
	}
	t.Logf("listed after %s", time.Since(started))
	retrying := time.Now()
	output, err := execute("push", "retry", "--status", "FAILED", "--json", "--server", api.URL())
	require.NoError(t, err)
	t.Logf("%d retried in %s", count, time.Since(retrying))
	sums := strings.Split(strings.TrimSpace(output), "\n") // after lines of progress, if it took long
	require.JSONEq(t, fmt.Sprintf(`{"matched":%d,"done":%d}`, count, count), sums[len(sums)-1])
	testenv.Eventually(t, 100*time.Second, "all pushes to be SENT", func() bool {
		return client.ZCard(t.Context(), "asynq:{swrve}:completed").Val() == count
	})
	t.Logf("%d SENT after %s", count, time.Since(started))
	require.Zero(t, client.ZCard(t.Context(), tasks.Swrve.DeadKey()).Val())
	require.Empty(t, listAll(t, api, tasks.Failed))
	for number := 0; number < count; number += 100 {
		push := lookUp(t, api, ids[number])
		require.Equal(t, tasks.Sent, push.Status)
		require.Len(t, push.Attempts, 2)
	}
	require.Equal(t, count, simulatorStats(t, sim).Requests, "each is sent once")
	w.requireNoGhosts()
}

// failWaiting makes pushes that wait in the queue look as if each had failed.
func (w *world) failWaiting(ids []string) {
	client := w.Redis.Client(w.t)
	require.NoError(w.t, client.Del(w.t.Context(), "asynq:{swrve}:pending").Err())
	now := time.Now()
	w.storeFailed(len(ids), func(pipe redis.Pipeliner, number int) string {
		pipe.HSet(w.t.Context(), "asynq:{swrve}:t:"+ids[number], "state", "archived")
		pipe.ZAdd(w.t.Context(), "asynq:{swrve}:archived", redis.Z{Score: float64(now.Unix()), Member: ids[number]})
		return ids[number]
	})
}

// seedFailed stores pushes that have FAILED, and that asynq has forgotten.
func (w *world) seedFailed(count int) {
	w.storeFailed(count, func(redis.Pipeliner, int) string { return tasks.NewID() })
}

// storeFailed writes the records of FAILED pushes, and whatever prepare adds for
// each, which returns its id.
func (w *world) storeFailed(count int, prepare func(pipe redis.Pipeliner, number int) (id string)) {
	client, ctx := w.Redis.Client(w.t), w.t.Context()
	now, millis := tasks.MillisOf(time.Now()), int64(5)
	for start := 0; start < count; start += 1000 {
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for number := start; number < min(start+1000, count); number++ {
				id, endedAt := prepare(pipe, number), now-tasks.Millis(count-number)
				text, err := json.Marshal(tasks.Record{
					Push: tasks.Push{Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: fmt.Sprint("user-", number),
						Message: "Hello client!", CreatedAt: now},
					End: tasks.Failed, EndedAt: endedAt,
					Attempts: []tasks.Attempt{{Status: tasks.AttemptError, StartedAt: now, Millis: &millis,
						ErrorType: tasks.ErrorSwrve, ErrorCode: 400, ErrorMessage: "Rejected"}},
				})
				require.NoError(w.t, err)
				pipe.Set(ctx, tasks.Swrve.RecordKey(id), text, time.Hour)
				pipe.ZAdd(ctx, tasks.Swrve.DeadKey(), redis.Z{Score: float64(endedAt), Member: id})
			}
			return nil
		})
		require.NoError(w.t, err)
	}
}

// Not parallel: it logs how long they took.
func TestPostsAreTakenWhileManyAreRequeued(t *testing.T) {
	const count = 20_000
	w := newWorld(t, swrvesim.Config{})
	serve := w.startQuick("serve")
	w.seedFailed(count)
	retried := make(chan error, 1)
	var ended atomic.Bool
	started := time.Now()
	go func() {
		output, err := execute("push", "retry", "--status", "FAILED", "--json", "--server", serve.URL())
		if err == nil && !strings.Contains(output, fmt.Sprintf(`"done":%d`, count)) {
			err = fmt.Errorf("not all are done: %s", output)
		}
		ended.Store(true)
		retried <- err
	}()
	var times []time.Duration
	for !ended.Load() {
		before := time.Now()
		accept(t, serve, "other")
		times = append(times, time.Since(before))
		time.Sleep(2 * time.Millisecond) // some 400 pushes a second
	}
	require.NoError(t, <-retried)
	slices.Sort(times)
	p50, p99 := times[len(times)/2], times[len(times)*99/100]
	t.Logf("%d requeued in %s; %d POST /push meanwhile: p50 %s, p99 %s, longest %s", count, time.Since(started), len(times), p50, p99, times[len(times)-1])
	require.Greater(t, len(times), 2*count/tasks.MaxBulk, "they come between the parts of a bulk retry")
	require.Zero(t, w.Redis.Client(t).ZCard(t.Context(), tasks.Swrve.DeadKey()).Val())
}

func TestBulkCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	call := func(arguments ...string) (string, error) {
		return execute(append(append([]string{"push"}, arguments...), "--server", api.URL())...)
	}
	ids := postBatch(t, api, pushLines("user-", 1500))
	output, err := call("cancel", "--status", "PENDING", "--prototype", "Other")
	require.NoError(t, err)
	require.Equal(t, "0 matched, 0 done\n", output)
	output, err = call("cancel", "--status", "PENDING", "--prototype", "Hello", "--since", "1h")
	require.NoError(t, err)
	require.Equal(t, "1500 matched, 1500 done\n", output)
	require.Len(t, listAll(t, api, tasks.Cancelled), 1500)
	w.requireNoGhosts()

	output, err = call("retry", "--status", "CANCELLED", "--since", time.Now().Add(time.Hour).Format(time.RFC3339), "--json")
	require.NoError(t, err)
	require.JSONEq(t, `{"matched":0,"done":0}`, output)
	output, err = call("retry", "--status", "CANCELLED", "--error-type", "OTHER")
	require.NoError(t, err)
	require.Equal(t, "0 matched, 0 done\n", output, "they have no attempt")

	accept(t, api, "later", `"cronExpression":"0 0 9 1 1 ?"`)
	for _, flags := range [][]string{nil, {"--json"}} {
		output, err = call(append([]string{"retry", "--status", "SCHEDULED"}, flags...)...)
		require.EqualError(t, err, "nothing was done: none of the pushes that matched could be retried")
	}
	require.JSONEq(t, `{"matched":1,"done":0,"skipped":{"closed":1,"moved":0,"failed":0}}`, output)
	output, err = call("cancel", "--status", "SCHEDULED")
	require.NoError(t, err)
	require.Equal(t, "1 matched, 1 done\n", output)
	output, err = call("retry", "--status", "CANCELLED", "--since", "1h", "--prototype", "Hello")
	require.NoError(t, err)
	require.Equal(t, "1501 matched, 1501 done\n", output, "one of them waits for its window again")
	require.Len(t, listAll(t, api, tasks.Scheduled), 1)
	output, err = call("cancel", "--status", "PENDING")
	require.NoError(t, err)
	require.Equal(t, "1500 matched, 1500 done\n", output)

	// Asked to stop, it says after a page how to go on.
	stopped, stop := context.WithCancel(context.Background())
	stop()
	root := newRootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"push", "retry", "--status", "CANCELLED", "--since", "1h", "--server", api.URL()})
	err = root.ExecuteContext(stopped)
	require.ErrorContains(t, err, " done. Go on with:\npushq push retry --status CANCELLED --since ")
	var matched, done int
	_, scanErr := fmt.Sscanf(err.Error(), "stopped after %d matched, %d done.", &matched, &done)
	require.NoError(t, scanErr, err)
	require.Equal(t, matched, done)
	// A page has 1,000, or what a call gets done in two seconds.
	require.Positive(t, done)
	require.LessOrEqual(t, done, 1000)
	words := strings.Fields(err.Error()[strings.Index(err.Error(), "push retry"):])
	output, err = call(words[1:]...)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d matched, %[1]d done\n", 1500-done), output)
	require.Equal(t, tasks.Pending, lookUp(t, api, ids[0]).Status)

	_, err = call("retry", "--status", "PENDING")
	require.ErrorContains(t, err, "status must be one of")
	_, err = call("retry", "--status", "FAILED", "--cursor", "garbage")
	require.ErrorContains(t, err, "cursor is not one")
	w.Redis.Stop()
	_, err = call("retry", "--status", "FAILED")
	require.ErrorContains(t, err, "(503)")
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	require.Equal(t, "2026-11-27T09:00:00Z", shellWord("2026-11-27T09:00:00Z"))
	require.Equal(t, `'Good bye'`, shellWord("Good bye"))
	require.Equal(t, `'it'\''s $HOME'`, shellWord("it's $HOME"))
}

func TestSendABatchFromAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	file := filepath.Join(t.TempDir(), "pushes.ndjson")
	lines := pushLines("user-", 2500)
	lines[1200] = "{broken"
	lines[7] = pushBody("keyed", `"idempotencyKey":"key"`)
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\r\n\r\n")), 0o600))
	output, err := execute("push", "send", "--batch", file, "--server", api.URL())
	require.ErrorContains(t, err, "1 of 2500 pushes were not accepted")
	results := strings.Split(strings.TrimSpace(output), "\n")
	require.Len(t, results, 2500)
	for place, result := range results {
		require.Equal(t, place == 1200, strings.HasPrefix(result, `{"error":`), result)
	}
	require.Len(t, listAll(t, api, tasks.Pending), 2499)

	root := newRootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(strings.NewReader(lines[7]))
	root.SetArgs([]string{"push", "send", "--batch", "-", "--server", api.URL()})
	require.NoError(t, root.Execute())
	require.Equal(t, strings.Replace(results[7], "}", `,"replayed":true}`, 1)+"\n", out.String())

	w.Redis.Stop()
	_, err = execute("push", "send", "--batch", file, "--server", api.URL())
	require.ErrorContains(t, err, "(503)")
	require.ErrorContains(t, err, "No push has a result; repeating is safe for those with an idempotencyKey")
}

func TestDryRunsAndCountsOfTheCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	w.seedFailed(1200)
	accept(t, api, "user")
	call := func(arguments ...string) (string, error) {
		return execute(append(append([]string{"push"}, arguments...), "--server", api.URL())...)
	}
	output, err := call("retry", "--status", "FAILED", "--dry-run")
	require.NoError(t, err)
	require.Equal(t, "dry run: 1200 matched, 1200 would be done\n", output)
	output, err = call("retry", "--status", "FAILED", "--error-code", "503", "--dry-run", "--json")
	require.NoError(t, err)
	require.JSONEq(t, `{"dryRun":true,"matched":0,"done":0}`, output)
	output, err = call("cancel", "--status", "PENDING", "--dry-run")
	require.NoError(t, err)
	require.Equal(t, "dry run: 1 matched, 1 would be done\n", output)
	require.Len(t, listAll(t, api, tasks.Failed), 1200)
	require.Len(t, listAll(t, api, tasks.Pending), 1)

	output, err = call("count")
	require.NoError(t, err)
	require.Regexp(t, `swrve +PENDING +1\n`, output)
	require.Regexp(t, `swrve +FAILED +~1200\n`, output, "all of the sample were FAILED")
	output, err = call("count", "--json", "--channel", "swrve")
	require.NoError(t, err)
	require.Contains(t, output, `{"channel":"swrve","status":"PENDING","count":1,"exact":true}`+"\n")
	_, err = call("count", "--channel", "other")
	require.ErrorContains(t, err, "channel must be one of [swrve]")
}

// A command that cannot do better is not advised again.
func TestABadCursorIsNotAdvisedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	_, err := execute("push", "retry", "--status", "FAILED", "--cursor", "garbage", "--server", api.URL())
	require.ErrorContains(t, err, "cursor is not one that")
	require.ErrorContains(t, err, "Begin again without --cursor")
	require.NotContains(t, err.Error(), "garbage")
	require.NotContains(t, err.Error(), "Go on with")

	w.seedFailed(1)
	require.NoError(t, w.Redis.Client(t).ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err = execute("push", "retry", "--status", "FAILED", "--server", api.URL())
	require.ErrorContains(t, err, "Not done (503): The queue has no room to do this")
}

// Nothing is said of results before the server has been asked.
func TestAFileThatIsNoBatch(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	for _, content := range []string{"[{}]", "\n [\n{}\n]\n", "\ufeff[{}]"} {
		file := filepath.Join(directory, "pushes.json")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := execute("push", "send", "--batch", file, "--server", "http://127.0.0.1:1")
		require.EqualError(t, err, "--batch: this is a JSON array: write one push a line, each a JSON object, without brackets around and commas between them")
	}
	_, err := execute("push", "send", "--batch", directory, "--server", "http://127.0.0.1:1")
	require.ErrorContains(t, err, "is a directory")
	require.NotContains(t, err.Error(), "result")
}

func TestABatchWithoutPushesIsAMistake(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pushes.ndjson")
	for _, content := range []string{"", "\n \n", "\r\n"} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := execute("push", "send", "--batch", file)
		require.ErrorContains(t, err, "holds no pushes: one a line is wanted, as JSON")
	}
	// One byte order mark is not a part of the first push.
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	require.NoError(t, os.WriteFile(file, []byte("\uFEFF"+pushBody("first")+"\n"+pushBody("second")+"\n"), 0o600))
	output, err := execute("push", "send", "--batch", file, "--server", api.URL())
	require.NoError(t, err, output)
	require.Equal(t, 2, strings.Count(output, `{"id":"`))
}

func TestListSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	w.seedFailed(450)
	list := func(since string) int {
		output, err := execute("push", "list", "--status", "FAILED", "--limit", "1000", "--since", since, "--json", "--server", api.URL())
		require.NoError(t, err)
		return strings.Count(output, "\n")
	}
	require.Equal(t, 450, list("1h"))
	require.Zero(t, list(time.Now().Add(time.Hour).Format(time.RFC3339)))
	_, err := execute("push", "list", "--status", "FAILED", "--since", "yesterday")
	require.ErrorContains(t, err, "--since")
}
