package tasks

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestBeginRecordsTheAttemptBeforeTheRequest(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		before := time.Now().Add(-time.Second)

		require.Equal(t, Begun{Answer: Go, Attempt: 1, Counted: 1}, s.begin(s.attempting("a")))

		record := s.record()
		require.Equal(t, s.push, record.Push)
		require.Empty(t, record.End)
		require.Len(t, record.Attempts, 1)
		attempt := record.Attempts[0]
		require.WithinRange(t, attempt.StartedAt.Time(), before, time.Now().Add(time.Second))
		require.Equal(t, Attempt{Token: "a", Status: AttemptInProcess, StartedAt: attempt.StartedAt}, attempt)
	})
}

func TestBeginAgainWithTheSameTokenChangesNothing(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", "")
		for _, last := range []bool{false, true} {
			attempting := s.attempting("b")
			if last {
				attempting.MaxAttempts = 2
			}
			first := s.begin(attempting)
			require.Equal(t, Begun{Answer: Go, Attempt: 2, Counted: 2, Last: last}, first)
			record := s.record()
			require.Equal(t, first, s.begin(attempting))
			require.Equal(t, record, s.record())
		}
	})
}

func TestBeginWithTheTokenOfAnAttemptThatIsOverIsBusy(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", "")
		require.Equal(t, Begun{Answer: Busy}, s.begin(s.attempting("a")))
		s.begun("b")
		require.Equal(t, Begun{Answer: Busy}, s.begin(s.attempting("a")))
	})
}

func TestBeginIsBusyWhileAnotherRunHasAnAttempt(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.interrupt("a", 20*time.Second)
		before := s.record()

		other := s.attempting("b")
		other.Interrupted = 25 * time.Second
		require.Equal(t, Begun{Answer: Busy}, s.begin(other))
		require.Equal(t, before, s.record())
	})
}

func TestBeginClosesAnAttemptWhoseWorkerDied(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.interrupt("a", 26*time.Second)
		startedAt := s.record().Attempts[0].StartedAt

		other := s.attempting("b")
		other.Interrupted = 25 * time.Second
		require.Equal(t, Begun{Answer: Go, Attempt: 2, Counted: 2, Interrupted: 1}, s.begin(other))

		attempts := s.record().Attempts
		require.Len(t, attempts, 2)
		require.Contains(t, attempts[0].ErrorMessage, "interrupted")
		require.Equal(t, Attempt{
			Token: "a", Status: AttemptError, StartedAt: startedAt,
			ErrorType: ErrorOther, ErrorMessage: attempts[0].ErrorMessage, MaybeDelivered: true,
		}, attempts[0])
		require.Equal(t, AttemptInProcess, attempts[1].Status)
	})
}

func TestBeginAfterDelivery(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.succeed("a")
		record := s.record()
		again := s.attempting("b")
		again.Again = true
		for _, attempting := range []Attempting{s.attempting("a"), s.attempting("b"), again} {
			require.Equal(t, Begun{Answer: AlreadySent, End: Sent}, s.begin(attempting))
		}
		require.Equal(t, record, s.record())
	})
}

func TestBeginOfACancelledPush(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.end(Cancelled)
		record := s.record()
		again := s.attempting("a")
		again.Again = true
		for _, attempting := range []Attempting{s.attempting("a"), again} {
			require.Equal(t, Begun{Answer: AlreadyCancelled, End: Cancelled}, s.begin(attempting))
		}
		require.Equal(t, record, s.record())
		require.True(t, s.dead())
	})
}

func TestBeginAtTheEnd(t *testing.T) {
	for _, end := range []State{Failed, GivenUp} {
		t.Run(string(end), func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				s := newStory(t, client)
				s.begun("a")
				s.fail("a", end)
				record := s.record()
				require.Equal(t, Begun{Answer: AlreadyEnded, End: end}, s.begin(s.attempting("b")))
				require.Equal(t, record, s.record())
				require.True(t, s.dead())
			})
		})
	}
}

// A push requeued with asynq's tools gets one more attempt, not a fresh budget.
func TestBeginAgainAtTheEndGivesOneAttempt(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", Failed) // with two attempts left
		for round, token := range []string{"b", "c"} {
			again := s.attempting(token)
			again.Again = true
			require.Equal(t, Begun{Answer: Go, Attempt: round + 2, Counted: 1, Last: true}, s.begin(again))
			require.Empty(t, s.record().End)
			require.Zero(t, s.record().EndedAt)
			require.False(t, s.dead())
			s.requireLifetime(testRetention.Dead)
			require.Equal(t, Begun{Answer: Go, Attempt: round + 2, Counted: 1, Last: true}, s.begin(again), "repeated")

			s.fail(token, "")
			require.Equal(t, Begun{Answer: Spent}, s.begin(s.attempting("x")))
			s.end(GivenUp)
			require.True(t, s.dead())
		}
	})
}

// A push requeued with asynq's tools may have to wait: its end is taken back before, as Begin
// would have done.
func TestReopen(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		reopen := func() {
			reopened, err := s.records.Reopen(t.Context(), s.push)
			require.NoError(t, err)
			require.True(t, reopened)
		}
		reopen()
		require.Nil(t, s.record(), "there is no end to take back")

		for round, end := range []State{GivenUp, Failed} {
			token := []string{"a", "b"}[round]
			s.begun(token)
			s.fail(token, end)
			for range 2 {
				reopen()
				record := s.record()
				require.Empty(t, record.End)
				require.Zero(t, record.EndedAt)
				require.Len(t, record.Attempts, round+1)
				require.False(t, s.dead())
				s.requireLifetime(testRetention.Dead)
			}
		}
		require.Equal(t, Begun{Answer: Go, Attempt: 3, Counted: 1, Last: true}, s.begin(s.attempting("c")))
		s.fail("c", "")
		reopen()
		require.Equal(t, Begun{Answer: Spent}, s.begin(s.attempting("d")), "a push that is under way stays as it is")
		for _, end := range []State{Cancelled, Sent} {
			s.end(end)
			record := s.record()
			reopen()
			require.Equal(t, record, s.record())
			s.push = newPush()
		}
	})
}

func TestBeginAgainAfterAnEndWithoutAttempts(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.end(Failed)
		again := s.attempting("a")
		again.Again = true
		require.Equal(t, Begun{Answer: Go, Attempt: 1, Counted: 1, Last: true}, s.begin(again))
	})
}

func TestBeginAgainOfAPushUnderWayIsAnOrdinaryAttempt(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", "")
		again := s.attempting("b")
		again.Again = true
		require.Equal(t, Begun{Answer: Go, Attempt: 2, Counted: 2}, s.begin(again))
		require.Zero(t, s.record().Budget)
	})
}

func TestBeginSpendsThreeFailedAttempts(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		for number, token := range []string{"a", "b", "c"} {
			require.Equal(t, Begun{Answer: Go, Attempt: number + 1, Counted: number + 1, Last: number == 2}, s.begin(s.attempting(token)))
			s.fail(token, "")
		}
		require.Equal(t, Begun{Answer: Spent}, s.begin(s.attempting("d")))
		require.Len(t, s.record().Attempts, 3)
	})
}

// A push whose process died in each of its attempts must not go on for ever.
func TestBeginSpendsInterruptedAttempts(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		for number, token := range []string{"a", "b", "c"} {
			attempting := s.attempting(token)
			attempting.Interrupted = 0
			require.Equal(t, Begun{Answer: Go, Attempt: number + 1, Counted: number + 1, Last: number == 2, Interrupted: number}, s.begin(attempting))
		}
		fourth := s.attempting("d")
		fourth.Interrupted = 0
		require.Equal(t, Begun{Answer: Spent, Interrupted: 3}, s.begin(fourth))
		require.Equal(t, []AttemptStatus{AttemptError, AttemptError, AttemptError}, s.attempts())
		for _, attempt := range s.record().Attempts {
			require.True(t, attempt.MaybeDelivered)
			require.Equal(t, ErrorOther, attempt.ErrorType)
		}
		s.requireLifetime(testRetention.Dead)
		require.Equal(t, Begun{Answer: Spent}, s.begin(fourth), "repeated")
	})
}

func TestRaisingMaxAttemptsReachesPushesUnderWay(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		for _, token := range []string{"a", "b", "c"} {
			s.begun(token)
			s.fail(token, "")
		}
		require.Equal(t, Spent, s.begin(s.attempting("d")).Answer)
		for number, token := range []string{"d", "e"} {
			raised := s.attempting(token)
			raised.MaxAttempts = 5
			require.Equal(t, Begun{Answer: Go, Attempt: number + 4, Counted: number + 4, Last: number == 1}, s.begin(raised))
			s.fail(token, "")
		}
		raised := s.attempting("f")
		raised.MaxAttempts = 5
		require.Equal(t, Spent, s.begin(raised).Answer)
	})
}

func TestWithdrawnAttemptsDoNotCount(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		for _, token := range []string{"a", "b", "c", "d"} {
			require.False(t, s.begun(token).Last)
			s.withdraw(token)
		}
		require.Len(t, s.record().Attempts, 1, "only the last of a series is kept")
		for number, token := range []string{"e", "f", "g"} {
			require.Equal(t, Begun{Answer: Go, Attempt: number + 2, Counted: number + 1, Last: number == 2}, s.begin(s.attempting(token)))
			s.fail(token, "")
		}
		require.Equal(t, Spent, s.begin(s.attempting("h")).Answer)
	})
}

func TestAttemptsBeforeBudgetFromDoNotCount(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		for _, token := range []string{"a", "b", "c"} {
			s.begun(token)
			s.fail(token, "")
		}
		record := s.record()
		record.BudgetFrom = 3
		s.write(record)
		for number, token := range []string{"d", "e", "f"} {
			require.Equal(t, Begun{Answer: Go, Attempt: number + 4, Counted: number + 1, Last: number == 2}, s.begin(s.attempting(token)))
			s.fail(token, "")
		}
		require.Equal(t, Spent, s.begin(s.attempting("g")).Answer)
		require.Equal(t, 3, s.record().BudgetFrom)
	})
}

// The script and those who read the record count alike.
func TestWhatCounts(t *testing.T) {
	failed := Attempt{Token: "failed", Status: AttemptError, ErrorType: ErrorSwrve, ErrorCode: 503}
	withdrawn := Attempt{Token: "withdrawn", Status: AttemptError, ErrorType: ErrorOther, Uncounted: true}
	probe := Attempt{Token: "probe", Status: AttemptError, ErrorType: ErrorOther, MaybeDelivered: true, Probe: true}
	for name, test := range map[string]struct {
		attempts   []Attempt
		budgetFrom int
		counted    int
	}{
		"failed twice":             {[]Attempt{failed, failed}, 0, 2},
		"withdrawn in between":     {[]Attempt{failed, withdrawn, failed}, 0, 2},
		"probes":                   {[]Attempt{failed, probe, probe, probe}, 0, 1},
		"nothing that counts":      {[]Attempt{withdrawn, probe}, 0, 0},
		"retried":                  {[]Attempt{failed, probe, failed, failed}, 4, 0},
		"retried and failed since": {[]Attempt{failed, failed, failed, withdrawn, failed, probe}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				s := newStory(t, client)
				record := &Record{Push: s.push, Attempts: test.attempts, BudgetFrom: test.budgetFrom}
				require.Equal(t, test.counted, record.Counted())
				s.write(record)
				require.Equal(t, Begun{
					Answer: Go, Attempt: len(test.attempts) + 1, Counted: test.counted + 1, Last: test.counted == 2,
				}, s.begin(s.attempting("next")))
				require.Equal(t, test.attempts, s.record().Attempts[:len(test.attempts)])
			})
		})
	}
}

func TestAnOpenRecordLivesUntilLongAfterItsDueTime(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.requireLifetime(testRetention.Dead)

		s = newStory(t, client)
		s.push = newWindowedPush(time.Now().Add(100 * 24 * time.Hour))
		s.begun("a")
		s.requireLifetime(100*24*time.Hour + testRetention.Dead)
		s.fail("a", "")
		s.requireLifetime(100*24*time.Hour + testRetention.Dead)

		// A push that has waited long for its turn lives no shorter.
		s = newStory(t, client)
		s.push.CreatedAt = MillisOf(time.Now().Add(-29 * 24 * time.Hour))
		s.begun("a")
		s.requireLifetime(testRetention.Dead)
	})
}

func TestBeginWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()}) // repeats, as go-redis does by default
	t.Cleanup(func() { _ = client.Close() })
	s := newStory(t, client)
	require.NoError(t, beginScript.Load(t.Context(), client).Err())

	proxy.CutReplyTo(beginScript.Hash(), 1)
	require.Equal(t, Begun{Answer: Go, Attempt: 1, Counted: 1}, s.begin(s.attempting("a")))
	require.Equal(t, 1, proxy.Cut())
	require.Equal(t, []AttemptStatus{AttemptInProcess}, s.attempts())

	s.fail("a", Failed)
	again := s.attempting("b")
	again.Again = true
	proxy.CutReplyTo(beginScript.Hash(), 1)
	require.Equal(t, Begun{Answer: Go, Attempt: 2, Counted: 1, Last: true}, s.begin(again))
	require.Equal(t, 2, proxy.Cut())
	require.Equal(t, []AttemptStatus{AttemptError, AttemptInProcess}, s.attempts())
}

func TestRecordsSayThatRedisIsGone(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	s := newStory(t, client)
	s.begun("a")
	server.Stop()

	_, err := s.records.Begin(t.Context(), s.attempting("b"))
	require.ErrorContains(t, err, "begin an attempt of push "+s.push.ID)
	require.ErrorContains(t, s.records.End(t.Context(), s.push, Failed), "of push "+s.push.ID)
	_, err = s.records.Get(t.Context(), s.push.ID)
	require.ErrorIs(t, err, ErrUnreadable)
}

func TestBeginUnderTheBrakeRecordsNothing(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		require.NoError(t, client.Set(t.Context(), Swrve.BrakeKey(), "429", time.Minute).Err())
		before := s.record()

		attempting := s.attempting("b")
		attempting.Request = true
		requireBraked(t, s.begin(attempting))
		// Neither may go on what has begun and was late for its slot.
		again := s.attempting("a")
		again.Request = true
		requireBraked(t, s.begin(again))
		require.Equal(t, before, s.record())

		// Without a request there is nothing to brake.
		again.Request = false
		require.Equal(t, Begun{Answer: Go, Attempt: 1, Counted: 1}, s.begin(again))
		require.NoError(t, client.Del(t.Context(), Swrve.BrakeKey()).Err())
		again.Request = true
		require.Equal(t, Begun{Answer: Go, Attempt: 1, Counted: 1}, s.begin(again))
	})
}

func requireBraked(t *testing.T, begun Begun) {
	t.Helper()
	require.Equal(t, Braked, begun.Answer)
	require.Zero(t, begun.Attempt)
	require.Greater(t, begun.Brake, 50*time.Second)
	require.LessOrEqual(t, begun.Brake, time.Minute)
}

func TestBeginUnderTheBrakeLeavesTheEndOfARequeuedPush(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		s := newStory(t, client)
		s.begun("a")
		s.fail("a", Failed)
		require.NoError(t, client.Set(t.Context(), Swrve.BrakeKey(), "429", time.Minute).Err())
		before := s.record()
		attempting := s.attempting("b")
		attempting.Again, attempting.Request = true, true
		requireBraked(t, s.begin(attempting))
		require.Equal(t, before, s.record())
		require.EqualValues(t, 1, client.ZCard(t.Context(), Swrve.DeadKey()).Val())
	})
}
