package tasks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushq/internal/testenv"
)

func TestFinishRecordsSuccess(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		startedAt := s.record().Attempts[0].StartedAt
		s.succeed("a")

		record := s.record()
		millis := int64(12)
		require.Equal(t, []Attempt{{Token: "a", Status: AttemptOK, StartedAt: startedAt, Millis: &millis}}, record.Attempts)
		require.Equal(t, Sent, record.End)
		require.WithinDuration(t, time.Now(), record.EndedAt.Time(), time.Minute)
		require.Equal(t, s.push, record.Push)
		require.False(t, s.dead())
		s.requireLifetime(testRetention.Sent)
	})
}

func TestFinishRecordsTheTokenThatReplacesTheRecipients(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for _, attempts := range []int{1, 2} { // the first is written as text
			s := newStory(t, client)
			for number := range attempts - 1 {
				s.begun(fmt.Sprint(number))
				s.fail(fmt.Sprint(number), "")
			}
			s.begun("last")
			millis := int64(12)
			require.NoError(t, errorOf(s.records.Finish(t.Context(), s.push, Attempt{
				Token: "last", Status: AttemptOK, Millis: &millis, StartedAt: MillisOf(time.Now()), Replacement: `new"token-é`,
			}, Sent)))
			require.Equal(t, `new"token-é`, s.record().Attempts[attempts-1].Replacement)
		}
	})
}

func TestFinishRecordsAnErrorAfterWhichThePushGoesOn(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		millis := int64(15000)
		attempt := Attempt{
			Token: "a", Status: AttemptError, StartedAt: MillisOf(time.Now().Add(-15 * time.Second)), Millis: &millis,
			ErrorType: ErrorOther, ErrorMessage: "no answer", StackTrace: "main.go:1", MaybeDelivered: true,
		}
		require.NoError(t, errorOf(s.records.Finish(t.Context(), s.push, attempt, "")))
		require.Equal(t, &Record{Push: s.push, Attempts: []Attempt{attempt}}, s.record())
		require.False(t, s.dead())
		s.requireLifetime(testRetention.Dead)
	})
}

func TestFinishIndexesTheDead(t *testing.T) {
	for _, end := range []State{Failed, GivenUp, Cancelled} {
		t.Run(string(end), func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				s := newStory(t, client)
				s.push = newWindowedPush(time.Now().Add(100 * 24 * time.Hour))
				s.begun("a")
				s.fail("a", end)

				record := s.record()
				require.Equal(t, end, record.End)
				score, err := client.ZScore(t.Context(), Swrve.DeadKey(), s.push.ID).Result()
				require.NoError(t, err)
				require.Equal(t, record.EndedAt, Millis(score))
				s.requireLifetime(testRetention.Dead)
			})
		})
	}
}

func TestTheIndexOfDeadPushesIsTrimmedByAge(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		forgotten := float64(time.Now().Add(-testRetention.Dead - time.Minute).UnixMilli())
		known := float64(time.Now().Add(-testRetention.Dead + time.Minute).UnixMilli())
		require.NoError(t, client.ZAdd(t.Context(), Swrve.DeadKey(),
			redis.Z{Score: forgotten, Member: "forgotten"}, redis.Z{Score: known, Member: "known"}).Err())
		s.end(Failed)
		members, err := client.ZRange(t.Context(), Swrve.DeadKey(), 0, -1).Result()
		require.NoError(t, err)
		require.Equal(t, []string{"known", s.push.ID}, members)
	})
}

func TestFinishMayBeRepeated(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for name, finish := range map[string]func(*story){
			"sent":      func(s *story) { s.succeed("a") },
			"failed":    func(s *story) { s.fail("a", Failed) },
			"given up":  func(s *story) { s.fail("a", GivenUp) },
			"retry":     func(s *story) { s.fail("a", "") },
			"withdrawn": func(s *story) { s.withdraw("a") },
			"ended":     func(s *story) { s.end(GivenUp) },
		} {
			s := newStory(t, client)
			s.begun("a")
			finish(s)
			record := s.record()
			s.waitForNextMillisecond() // a repeat that wrote its own time would show
			finish(s)
			require.Equal(t, record, s.record(), name)
		}
	})
}

func TestALateSuccessOfAnInterruptedAttempt(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for _, end := range []State{"", Failed, GivenUp, Cancelled} {
			s := newStory(t, client)
			s.begun("a")
			s.interrupt("a", 2*time.Hour)
			require.Equal(t, 1, s.begun("b").Interrupted)
			s.fail("b", end)

			s.succeed("a")
			require.Equal(t, []AttemptStatus{AttemptOK, AttemptError}, s.attempts())
			require.False(t, s.record().Attempts[0].MaybeDelivered)
			require.Empty(t, s.record().Attempts[0].ErrorMessage)
			require.Equal(t, Sent, s.record().End)
			require.False(t, s.dead())
			s.requireLifetime(testRetention.Sent)
			require.Equal(t, AlreadySent, s.begin(s.attempting("c")).Answer)
		}
	})
}

// The next attempt, in process already, may still fail and must not undo SENT.
func TestALateSuccessWhileTheNextAttemptIsInProcess(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.interrupt("a", 2*time.Hour)
		s.begun("b")
		s.succeed("a")
		endedAt := s.record().EndedAt
		s.fail("b", GivenUp)
		require.Equal(t, []AttemptStatus{AttemptOK, AttemptError}, s.attempts())
		require.Equal(t, Sent, s.record().End)
		require.Equal(t, endedAt, s.record().EndedAt)
		require.False(t, s.dead())
		s.requireLifetime(testRetention.Sent)
	})
}

func TestALateErrorEndsNothing(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.interrupt("a", 2*time.Hour)
		s.begun("b")
		s.fail("a", GivenUp)
		require.Empty(t, s.record().End)
		require.False(t, s.dead())
		require.Equal(t, []AttemptStatus{AttemptError, AttemptInProcess}, s.attempts())
		require.Equal(t, 503, s.record().Attempts[0].ErrorCode)
		s.succeed("b")
		require.Equal(t, Sent, s.record().End)
	})
}

func TestSuccessIsNeverOverwritten(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.succeed("a")
		record := s.record()
		s.fail("a", Failed)
		s.withdraw("a")
		s.end(GivenUp)
		s.end(Cancelled)
		require.Equal(t, record, s.record())
		require.False(t, s.dead())
	})
}

func TestTheFirstEndStays(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.end(Cancelled)
		record := s.record()
		s.end(Failed)
		require.Equal(t, record, s.record())
	})
}

func TestWithdrawClosesTheAttemptUncounted(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		startedAt := s.record().Attempts[0].StartedAt
		s.withdraw("a")
		none := int64(0)
		require.Equal(t, []Attempt{{
			Token: "a", Status: AttemptError, StartedAt: startedAt, Millis: &none,
			ErrorType: ErrorOther, ErrorMessage: "not sent: shutdown", Uncounted: true,
		}}, s.record().Attempts)
		require.Empty(t, s.record().End)
		s.requireLifetime(testRetention.Dead)
	})
}

func TestWithdrawOfAnAttemptThatWasNeverRecorded(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.withdraw("a")
		keys, err := client.Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		require.Empty(t, keys)

		s.begun("a")
		record := s.record()
		s.withdraw("b")
		require.Equal(t, record, s.record())
	})
}

func TestFinishWritesTheRecordThatIsGone(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		require.NoError(t, client.Del(t.Context(), Swrve.RecordKey(s.push.ID)).Err())
		s.fail("a", Failed)

		record := s.record()
		require.Equal(t, s.push, record.Push)
		require.Equal(t, Failed, record.End)
		require.Equal(t, []AttemptStatus{AttemptError}, s.attempts())
		require.WithinDuration(t, time.Now(), record.Attempts[0].StartedAt.Time(), time.Minute)
		require.True(t, s.dead())
		s.requireLifetime(testRetention.Dead)
	})
}

func TestEndWithoutAnAttempt(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.end(GivenUp)
		record := s.record()
		require.Equal(t, &Record{Push: s.push, End: GivenUp, EndedAt: record.EndedAt}, record)
		require.NotZero(t, record.EndedAt)
		require.True(t, s.dead())
	})
}

func TestABigErrorMessageIsKept(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		message := strings.Repeat(`<"\Ошибка 💥/>`+"\n", 5_000)
		require.NoError(t, errorOf(s.records.Finish(t.Context(), s.push, Attempt{
			Token: "a", Status: AttemptError, ErrorType: ErrorOther, ErrorMessage: message,
		}, "")))
		require.Equal(t, message, s.record().Attempts[0].ErrorMessage)
	})
}

func TestFinishWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()}) // repeats, as go-redis does by default
	t.Cleanup(func() { _ = client.Close() })
	require.NoError(t, finishScript.Load(t.Context(), client).Err())

	s := newStory(t, client)
	s.begun("a")
	proxy.CutReplyTo(finishScript.Hash(), 1)
	s.fail("a", GivenUp)
	require.Equal(t, 1, proxy.Cut())
	require.Equal(t, []AttemptStatus{AttemptError}, s.attempts())
	require.Equal(t, GivenUp, s.record().End)

	// The record is gone: only the first of the two calls may write a new attempt.
	s = newStory(t, client)
	proxy.CutReplyTo(finishScript.Hash(), 1)
	s.succeed("a")
	require.Equal(t, 2, proxy.Cut())
	require.Equal(t, []AttemptStatus{AttemptOK}, s.attempts())
}

func TestFinishTellsTheEndThatIsRecorded(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		finish := func(token string, status AttemptStatus, end State) State {
			recorded, err := s.records.Finish(t.Context(), s.push, Attempt{Token: token, Status: status}, end)
			require.NoError(t, err)
			return recorded
		}
		s.begun("a")
		require.Empty(t, finish("a", AttemptError, ""))
		s.begun("b")
		// An answer to the first attempt comes late, but before the second one's.
		require.Equal(t, Sent, finish("a", AttemptOK, Sent))
		require.Equal(t, Sent, finish("b", AttemptError, GivenUp), "the push has been delivered")
	})
}

func TestKeepMakesTheRecordOutliveAWait(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		require.NoError(t, s.records.Keep(t.Context(), s.push, time.Now().Add(time.Hour)), "nothing to keep")
		require.Nil(t, s.record())
		s.begun("a")
		s.fail("a", "")
		require.NoError(t, s.records.Keep(t.Context(), s.push, time.Now().Add(time.Minute)))
		s.requireLifetime(testRetention.Dead)
		require.NoError(t, s.records.Keep(t.Context(), s.push, time.Now().Add(1000*time.Hour)))
		s.requireLifetime(1000*time.Hour + testRetention.Dead)
		claim := Swrve.ClaimKey(s.push.ID)
		require.Zero(t, client.Exists(t.Context(), claim).Val(), "the push has no key")
		require.NoError(t, client.Set(t.Context(), claim, "hash", time.Minute).Err())
		require.NoError(t, s.records.Keep(t.Context(), s.push, time.Now().Add(1000*time.Hour)))
		require.Greater(t, client.TTL(t.Context(), claim).Val(), 1000*time.Hour, "else the key can be used for another push meanwhile")
		s.push.CreatedAt = MillisOf(time.Now().Add(-testRetention.Dead * 2 / 3)) // it has waited for long
		require.NoError(t, s.records.Keep(t.Context(), s.push, time.Now().Add(time.Minute)))
		s.requireLifetime(testRetention.Dead)
	})
}

// A service that is dead for a weekend adds a row with each probe.
func TestARunOfFailedProbesKeepsItsFirstAndLatest(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		probe := func(name string) {
			s.begun(name)
			for range 2 { // the second time because no answer came
				require.NoError(t, errorOf(s.records.Finish(t.Context(), s.push, Attempt{Token: name, Status: AttemptError, ErrorType: ErrorOther, Probe: true}, "")))
			}
		}
		tokens := func() (tokens []string) {
			for _, attempt := range s.record().Attempts {
				tokens = append(tokens, attempt.Token)
			}
			return tokens
		}
		s.begun("failed")
		s.fail("failed", "")
		for number := range 30 {
			probe(fmt.Sprint(number))
		}
		const kept = "failed 0 21 22 23 24 25 26 27 28 29"
		require.Equal(t, kept, strings.Join(tokens(), " "))
		require.Equal(t, 1, s.record().Counted())

		record := s.record()
		record.BudgetFrom = len(record.Attempts) // somebody has retried it
		s.write(record)
		for number := range 9 {
			probe("next " + fmt.Sprint(number))
		}
		require.Equal(t, kept+" next 0 next 1 next 2 next 3 next 4 next 5 next 6 next 7 next 8", strings.Join(tokens(), " "))
		probe("next 9")
		probe("next 10")
		require.Equal(t, kept+" next 0 next 2 next 3 next 4 next 5 next 6 next 7 next 8 next 9 next 10", strings.Join(tokens(), " "))
	})
}

// The way of most records, as text, ends where the long way does.
func TestAFirstAttemptThatDeliversIsWrittenAsText(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		rapid.Check(t, func(check *rapid.T) {
			s := newStory(t, client)
			s.t = check
			s.push.Message, s.push.PushKey = anyText().Draw(check, "message"), anyText().Draw(check, "pushKey")
			require.NoError(check, client.ZAdd(s.ctx, Swrve.DeadKey(), redis.Z{Score: float64(time.Now().UnixMilli()), Member: s.push.ID}).Err())
			keyed := rapid.Bool().Draw(check, "keyed")
			if keyed {
				require.NoError(check, client.Set(s.ctx, Swrve.ClaimKey(s.push.ID), "hash", time.Minute).Err())
			}
			s.begun("a")
			long := rapid.Bool().Draw(check, "the long way")
			if long {
				record := s.record()
				record.Budget = 3
				s.write(record)
			}
			attempt := sent("a")
			s.finishSent(attempt)

			record := s.record()
			record.Budget = 0
			require.WithinDuration(check, time.Now(), record.EndedAt.Time(), time.Minute)
			require.Equal(check, &Record{Push: s.push, Attempts: []Attempt{attempt}, End: Sent, EndedAt: record.EndedAt}, record)
			s.requireLifetime(testRetention.Sent)
			require.False(check, s.dead())
			if keyed {
				require.Equal(check, "hash ended", client.Get(s.ctx, Swrve.ClaimKey(s.push.ID)).Val())
			}
			text := client.Get(s.ctx, Swrve.RecordKey(s.push.ID)).Val()
			content, err := json.Marshal(attempt)
			require.NoError(check, err)
			require.Equal(check, !long, strings.HasSuffix(text, fmt.Sprintf(`,"attempts":[%s],"end":"SENT","endedAt":%d}`, content, record.EndedAt)), text)
		})
	})
}

// One attempt more, or another run's, and the record is decoded.
func TestOtherAttemptsAreNotTakenForTheFirst(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.finishSent(sent("b"))
		require.Equal(t, []AttemptStatus{AttemptInProcess, AttemptOK}, s.attempts())

		s = newStory(t, client)
		s.begun("a")
		s.fail("a", "")
		s.begun("b")
		s.finishSent(sent("b"))
		require.Equal(t, []AttemptStatus{AttemptError, AttemptOK}, s.attempts())
		require.Equal(t, Sent, s.record().End)
	})
}
