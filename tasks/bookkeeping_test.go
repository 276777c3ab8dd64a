package tasks

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A conclusion is what a run has made of its attempt. It stays the same, but
// may be written again at any time.
type conclusion struct {
	withdrawn bool
	status    AttemptStatus
	end       State
}

// Whatever the order in which runs begin, die, finish late and repeat
// themselves, the books stay true.
func TestBookkeepingUnderAnyOrderOfEvents(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		rapid.Check(t, func(check *rapid.T) {
			s := newStory(t, client)
			s.t = check
			maxAttempts := rapid.IntRange(1, 4).Draw(check, "max attempts")
			begun := map[string]Begun{}
			concluded := map[string]conclusion{}
			requeues := 0
			before := &Record{}

			write := func(token string, conclusion conclusion) {
				switch {
				case conclusion.withdrawn:
					s.withdraw(token)
				case conclusion.status == AttemptOK:
					s.succeed(token)
				default:
					s.fail(token, conclusion.end)
				}
			}
			token := rapid.Map(rapid.IntRange(1, 6), func(run int) string { return fmt.Sprint("run ", run) })

			check.Repeat(map[string]func(*rapid.T){
				"begin": func(check *rapid.T) {
					attempting := s.attempting(token.Draw(check, "token"))
					attempting.MaxAttempts = maxAttempts
					if rapid.Bool().Draw(check, "others have died") {
						attempting.Interrupted = 0
					}
					attempting.Again = rapid.IntRange(0, 3).Draw(check, "requeued") == 0
					ended := before.End
					answer := s.begin(attempting)
					if answer.Answer == Go {
						begun[attempting.Token] = answer
						if ended != "" {
							requeues++
						}
					}
				},
				"conclude": func(check *rapid.T) {
					token := token.Draw(check, "token")
					run, ok := begun[token]
					if !ok {
						check.Skip("has not begun")
					}
					if _, ok := concluded[token]; !ok {
						made := conclusion{status: AttemptError}
						switch rapid.IntRange(0, 3).Draw(check, "conclusion") {
						case 0:
							made = conclusion{status: AttemptOK, end: Sent}
						case 1:
							made = conclusion{withdrawn: true}
						case 2:
							made.end = Failed
						default:
							if run.Last {
								made.end = GivenUp
							}
						}
						concluded[token] = made
					}
					write(token, concluded[token])
				},
				"withdraw what never began": func(check *rapid.T) { s.withdraw("nobody") },
				"end": func(check *rapid.T) {
					s.end(rapid.SampledFrom([]State{GivenUp, Cancelled}).Draw(check, "end"))
				},
				"": func(check *rapid.T) {
					record := s.record()
					if record == nil {
						require.Empty(check, before.Attempts)
						return
					}
					now := make(map[string]Attempt)
					for _, attempt := range record.Attempts {
						now[attempt.Token] = attempt
					}
					for _, attempt := range before.Attempts {
						if attempt.Uncounted {
							continue // of a series of these, only the last is kept
						}
						require.Contains(check, now, attempt.Token, "no attempt is lost")
						if attempt.Status == AttemptOK {
							require.Equal(check, attempt, now[attempt.Token], "an OK stays")
						}
					}
					counted, delivered := 0, false
					for place, attempt := range record.Attempts {
						delivered = delivered || attempt.Status == AttemptOK
						if attempt.Status == AttemptInProcess {
							require.Equal(check, len(record.Attempts)-1, place, "only the last attempt is in process")
						}
						if !attempt.Uncounted {
							counted++
						}
					}
					require.LessOrEqual(check, counted, maxAttempts+requeues, "a requeue gives one attempt")
					require.Equal(check, delivered, record.End == Sent, "SENT if and only if delivered")
					require.Equal(check, record.End != "", record.EndedAt != 0)
					require.Equal(check, record.End != "" && record.End != Sent, s.dead(), "indexed if and only if dead")
					switch record.End {
					case "", Failed, GivenUp, Cancelled:
						s.requireLifetime(testRetention.Dead)
					default:
						s.requireLifetime(testRetention.Sent)
					}
					require.Equal(check, s.push, record.Push)
					before = record
				},
			})
		})
	})
}
