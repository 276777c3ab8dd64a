package tasks

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// failed stores pushes of the channel whose last attempt, made so long ago, ended them.
func (w *ward) failed(count int, end State, ago time.Duration, kind ErrorType, code int) {
	w.t.Helper()
	at := MillisOf(time.Now().Add(-ago))
	_, err := w.client.Pipelined(w.t.Context(), func(pipe redis.Pipeliner) error {
		for range count {
			push := w.own(newPush())
			text, err := json.Marshal(Record{
				Push: push, End: end, EndedAt: at,
				Attempts: []Attempt{{Status: AttemptError, ErrorType: ErrorOther}, {Status: AttemptError, ErrorType: kind, ErrorCode: code}},
			})
			require.NoError(w.t, err)
			pipe.Set(w.t.Context(), w.channel.RecordKey(push.ID), text, time.Hour)
			pipe.ZAdd(w.t.Context(), w.channel.DeadKey(), redis.Z{Score: float64(at), Member: push.ID})
		}
		return nil
	})
	require.NoError(w.t, err)
}

// sent leaves what asynq keeps of pushes that were sent so long ago. They have no task, so a
// doctor would take them for ghosts: only what looks at ends is asked.
func (w *ward) sent(queue string, count int, ago time.Duration) {
	w.t.Helper()
	if count == 0 {
		return
	}
	members := make([]redis.Z, count)
	for place := range members {
		members[place] = redis.Z{
			Score: float64(time.Now().Add(testRetention.Completed - ago).Unix()), Member: newPush().ID + strconv.Itoa(place),
		}
	}
	require.NoError(w.t, w.client.ZAdd(w.t.Context(), asynqStateKey(queue, asynq.TaskStateCompleted), members...).Err())
}

// failures are the findings on what pushes have come to, by their names.
func (w *ward) failures() map[string]Finding {
	w.t.Helper()
	findings, err := w.doctor.examineFailures(w.t.Context())
	require.NoError(w.t, err)
	byName := make(map[string]Finding)
	for _, finding := range findings {
		require.Equal(w.t, w.channel.Name, finding.Queue)
		require.NotContains(w.t, byName, finding.Fault)
		byName[finding.Fault] = finding
	}
	return byName
}

func TestEveryPushFails(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		w := newWardOf(t, channel)
		w.failed(120, Failed, time.Minute, ErrorSwrve, 403)
		w.failed(30, Failed, time.Minute, ErrorSwrve, 400)
		found := w.examine(false)
		require.Len(t, found, 2)
		require.Equal(t, 120, found["leading-error "+channel.Name].Count, "the other one is not the most")

		many := found["many-failed "+channel.Name]
		require.Equal(t, 150, many.Count)
		require.Len(t, many.Examples, maxExamples)
		require.Contains(t, many.Meaning, "100 % of the pushes that have ended within 15m are FAILED, most of all with SWRVE 403")
		require.Contains(t, many.Repair, "pushq push retry --status FAILED --since 15m --error-type SWRVE --error-code 403"+w.doctor.named())
	})
}

// Those given up are not retried with the FAILED ones, so their error is not named.
func TestTheErrorThatIsNamedIsOneOfTheFailed(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.failed(20, Failed, time.Minute, ErrorSwrve, 403)
	w.failed(30, GivenUp, time.Minute, ErrorSwrve, 503)
	found := w.failures()
	require.Contains(t, found["many-failed"].Meaning, "most of all with SWRVE 403")
	require.Contains(t, found["many-failed"].Repair, "--status FAILED --since 15m --error-type SWRVE --error-code 403")
	require.Contains(t, found["leading-error"].Meaning, "SWRVE 503")
}

func TestAShareOfFailures(t *testing.T) {
	t.Parallel()
	for name, picture := range map[string]struct {
		failed, givenUp, sent int
		many                  bool
	}{
		"a quarter":                             {failed: 25, sent: 75, many: true},
		"less than a quarter":                   {failed: 24, sent: 76},
		"those given up have ended, too":        {failed: 25, givenUp: 40, sent: 36},
		"a few in the night":                    {failed: 9},
		"none":                                  {sent: 10},
		"nothing at all":                        {},
		"given up have an alert of their own":   {givenUp: 200},
		"the limit of what is told of so few":   {failed: 10, sent: 30, many: true},
		"so few among many more that were sent": {failed: 10, sent: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			w.failed(picture.failed, Failed, time.Minute, ErrorSwrve, 400)
			w.failed(picture.givenUp, GivenUp, time.Minute, ErrorSwrve, 503)
			w.sent("swrve", picture.sent-picture.sent/2, time.Minute)
			w.sent("swrve-window", picture.sent/2, 14*time.Minute)
			// What was long ago counts for neither.
			w.failed(50, Failed, 16*time.Minute, ErrorSwrve, 400)
			w.sent("swrve", 500, 16*time.Minute)
			_, many := w.failures()["many-failed"]
			require.Equal(t, picture.many, many)
		})
	}
}

func TestAnErrorTakesTheLead(t *testing.T) {
	t.Parallel()
	for name, picture := range map[string]struct {
		before, recent int // with the error, in the 24 hours before and in the last 15 minutes
		sent           int // in those minutes
		leads          bool
	}{
		"new":                      {recent: 12, leads: true},
		"five times as often":      {before: 96 * 3, recent: 15, leads: true},
		"not much more often":      {before: 96 * 4, recent: 15},
		"no more often":            {before: 96 * 12, recent: 12},
		"a few":                    {recent: 9},
		"before, and not any more": {before: 500},
		"less than a tenth":        {recent: 10, sent: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			w.failed(picture.recent, GivenUp, time.Minute, ErrorSwrve, 500)
			w.failed(picture.before, GivenUp, 3*time.Hour, ErrorSwrve, 500)
			w.failed(1000, GivenUp, 25*time.Hour, ErrorSwrve, 500) // longer ago than what is compared
			w.sent("swrve", max(picture.sent, 60), time.Minute)
			found := w.failures()
			lead, leads := found["leading-error"]
			require.Equal(t, picture.leads, leads, "%v", found)
			if leads {
				require.Equal(t, picture.recent, lead.Count)
				require.Contains(t, lead.Meaning, "SWRVE 500 has ended")
				require.Contains(t, lead.Repair, "--error-type SWRVE --error-code 500")
			}
			require.NotContains(t, found, "many-failed")
		})
	}
}

// Only part of what failed is read, and the shares are right all the same.
func TestMoreFailuresThanAreRead(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.failed(maxSuspects+2000, Failed, time.Minute, ErrorSwrve, 403)
	w.sent("swrve", 12_000, time.Minute)
	many := w.failures()["many-failed"]
	require.Equal(t, maxSuspects, many.Count)
	require.True(t, many.More)
	require.Contains(t, many.Meaning, "50 % of the pushes")
}

func TestRecordsThatCannotBeReadCostTheRestNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.failed(20, Failed, time.Minute, ErrorSwrve, 403)
	at := float64(time.Now().Add(-time.Minute).UnixMilli())
	for id, write := range map[string]func(key string) error{
		"01JBADTYPE": func(key string) error { return w.client.LPush(t.Context(), key, "x").Err() },
		"01JBADJSON": func(key string) error { return w.client.Set(t.Context(), key, "{", 0).Err() },
		"01JGONE":    func(string) error { return nil },
	} {
		require.NoError(t, write(w.channel.RecordKey(id)))
		require.NoError(t, w.client.ZAdd(t.Context(), w.channel.DeadKey(), redis.Z{Score: at, Member: id}).Err())
	}
	require.Equal(t, 20, w.failures()["many-failed"].Count)
}
