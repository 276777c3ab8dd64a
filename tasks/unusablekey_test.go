package tasks

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A key that something else than pushq has written costs the message that needs it, with
// an error that names the key: nobody is to wait for it to mend itself.
func TestAMessageWhoseKeysAreUnusable(t *testing.T) {
	for name, poison := range map[string]func(n *notifier) (key string){
		"the state is a hash": func(n *notifier) string {
			return n.poison(IdempotencyStateKey(n.key))
		},
		"the claim is a hash": func(n *notifier) string {
			return n.poison(FCM.ClaimKey(notificationClaimID(n.key)))
		},
		"the claim names no push": func(n *notifier) string {
			claim := FCM.ClaimKey(notificationClaimID(n.key))
			require.NoError(n.t, n.client.Set(n.t.Context(), claim, "a text of others", time.Hour).Err())
			return claim
		},
		"the record of the ended push is a hash": func(n *notifier) string {
			id, _ := n.post()
			n.end(id, Sent)
			return n.poison(FCM.RecordKey(id))
		},
		"the record of the ended push is no JSON": func(n *notifier) string {
			id, _ := n.post()
			n.end(id, Sent)
			require.NoError(n.t, n.client.Set(n.t.Context(), FCM.RecordKey(id), "{", time.Hour).Err())
			return FCM.RecordKey(id)
		},
		"the record of the push under way is a hash": func(n *notifier) string {
			id, _ := n.post()
			return n.poison(FCM.RecordKey(id))
		},
		"the task of the push under way is a list": func(n *notifier) string {
			id, _ := n.post()
			key := asynqTaskKey(FCM.ImmediateQueue(), id)
			require.NoError(n.t, n.client.Del(n.t.Context(), key).Err())
			require.NoError(n.t, n.client.LPush(n.t.Context(), key, "x").Err())
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				n := newNotifier(t, client)
				key := poison(n)
				for range 2 {
					_, _, err := n.intake.Notify(t.Context(), mustParse(t, n.message), n.message, time.Now())
					require.ErrorIs(t, err, ErrUnusableKey)
					require.ErrorContains(t, err, key)
					require.NotErrorIs(t, err, ErrOutcomeUnknown, "it is known: nothing is stored")
				}
				// Others go on.
				n.key = "another"
				_, replayed, err := n.retell()
				require.NoError(t, err)
				require.False(t, replayed)
			})
		})
	}
}

// poison puts something of another type under a key.
func (n *notifier) poison(key string) string {
	n.t.Helper()
	require.NoError(n.t, n.client.Del(n.t.Context(), key).Err())
	require.NoError(n.t, n.client.HSet(n.t.Context(), key, "of", "others").Err())
	return key
}

func TestAPushWhoseClaimIsUnusable(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		intake := NewIntake(client, Swrve, testRetention)
		t.Cleanup(intake.Close)
		push := newPush()
		require.NoError(t, client.HSet(t.Context(), Swrve.ClaimKey(push.ID), "of", "others").Err())
		_, err := intake.Accept(t.Context(), push, true)
		require.ErrorIs(t, err, ErrUnusableKey)
		require.ErrorContains(t, err, Swrve.ClaimKey(push.ID))
		_, err = intake.Claim(t.Context(), push)
		require.ErrorIs(t, err, ErrUnusableKey)
		_, err = intake.Accept(t.Context(), newPush(), true)
		require.NoError(t, err)
	})
}

// A worker writes the outcome of an attempt until Redis takes it, so no key may make that
// impossible for ever.
func TestAPushIsDeliveredWhateverItsKeysHold(t *testing.T) {
	for _, poisoned := range []string{"claim", "record"} {
		for _, end := range []State{Sent, Failed, ""} {
			t.Run(poisoned+" "+string(end), func(t *testing.T) {
				onEachRedis(t, func(t *testing.T, client *redis.Client) {
					n := newNotifier(t, client)
					s := newStory(t, client)
					s.push = newNotificationPush(mustParse(t, n.message), n.message, NewID())
					s.push.CreatedAt = MillisOf(time.Now())
					poison := func() {
						if poisoned == "claim" {
							n.poison(FCM.ClaimKey(s.push.ClaimID))
						} else {
							n.poison(FCM.RecordKey(s.push.ID))
						}
					}
					s.records = NewRecords(client, FCM, testRetention)
					poison()
					s.begun("a")
					poison()
					attempt := Attempt{Token: "a", Status: AttemptError, ErrorType: ErrorOther}
					if end == Sent {
						attempt = Attempt{Token: "a", Status: AttemptOK, StartedAt: MillisOf(time.Now())}
					}
					require.NoError(t, errorOf(s.records.Finish(t.Context(), s.push, attempt, end)))
					record, err := s.records.Get(t.Context(), s.push.ID)
					require.NoError(t, err)
					require.Equal(t, end, record.End)
					require.Len(t, record.Attempts, 1)
				})
			})
		}
	}
}

// The outcome of an attempt is recorded before the followers are told: a worker would repeat
// that for ever.
func TestEndsAreToldWhateverTheKeysOfFollowersHold(t *testing.T) {
	for name, key := range map[string]string{"followers": Swrve.FollowersKey(), "stream": Swrve.FollowKey("ends")} {
		t.Run(name, func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				followers := Followers{Ends: []string{"ends"}}
				told := func() int64 { return client.XLen(t.Context(), Swrve.FollowKey("ends")).Val() }
				for end, what := range map[string]func(s *story){
					"failed": func(s *story) { s.begun("a"); s.fail("a", Failed) },
					"sent at once": func(s *story) {
						s.begun("a")
						require.NoError(t, errorOf(s.records.Finish(t.Context(), s.push, sent("a"), Sent)))
					},
				} {
					require.NoError(t, client.Set(t.Context(), key, "of others", 0).Err())
					s := newStory(t, client)
					s.records.Followers = followers
					what(s)
					require.EqualValues(t, 1, told(), end)
					known, err := ReadFollowers(t.Context(), client, Swrve)
					require.NoError(t, err)
					require.Equal(t, followers, known, end)
					require.NoError(t, client.Del(t.Context(), Swrve.FollowKey("ends")).Err())
				}

				require.NoError(t, client.Set(t.Context(), key, "of others", 0).Err())
				s := newStory(t, client)
				if key == Swrve.FollowersKey() {
					require.Equal(t, string(Cancelled), s.cancelRecord(0), "without followers of its own")
					require.NoError(t, client.Set(t.Context(), key, "of others", 0).Err())
				} else {
					require.Equal(t, string(Cancelled), s.cancelRecord(0))
					require.EqualValues(t, 1, told())
				}
				require.NoError(t, AddFollowers(t.Context(), client, Swrve, followers))
				known, err := ReadFollowers(t.Context(), client, Swrve)
				require.NoError(t, err)
				require.Equal(t, followers, known)
			})
		})
	}
}

func TestARecordThatIsNoneIsWrittenAnew(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for _, stored := range []string{
			"{", "5", `{"push":`, "", "[]",
			`{"attempts":"x"}`, `{"attempts":{"a":{"status":"OK"}}}`, `{"attempts":[1,2]}`, `{"attempts":[null]}`, `{"attempts":[{}]}`, `{"attempts":[{"status":"NO"}]}`,
			`{"attempts":[{"status":"IN_PROCESS","startedAt":"zz"}]}`, `{"attempts":[{"status":"IN_PROCESS"}]}`, `{"attempts":[{"status":"OK","millis":"x"}]}`,
			`{"attempts":[{"status":"ERROR","startedAt":1e999}]}`, `{"attempts":[{"status":"ERROR","token":5}]}`,
			`{"budget":"x","attempts":[{"status":"ERROR"}]}`, `{"budgetFrom":-5,"attempts":[{"status":"ERROR"}]}`,
			`{"budgetFrom":0.5,"attempts":[{"status":"ERROR"}]}`, `{"budgetFrom":5,"attempts":[{"status":"ERROR"}]}`,
			`{"end":"BOGUS"}`, `{"end":5}`, `{"end":"FAILED","endedAt":"x"}`,
		} {
			s := newStory(t, client)
			require.NoError(t, client.Set(t.Context(), Swrve.RecordKey(s.push.ID), stored, time.Hour).Err())
			_, err := s.records.Get(t.Context(), s.push.ID)
			require.ErrorIs(t, err, ErrUnusableKey, stored)
			s.begun("a")
			require.Len(t, s.record().Attempts, 1)
			require.NoError(t, client.Set(t.Context(), Swrve.RecordKey(s.push.ID), stored, time.Hour).Err())
			s.fail("a", Failed)
			require.Equal(t, Failed, s.record().End, stored)
			require.NoError(t, client.Set(t.Context(), Swrve.RecordKey(s.push.ID), stored, time.Hour).Err())
			require.Equal(t, string(Cancelled), s.cancelRecord(0), stored)
			require.Equal(t, Cancelled, s.record().End)
		}
	})
}

// The follower of ends must not stand still for one key.
func TestOtherKeysAreToldOfBesideAnUnusableClaim(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		first, _ := n.post()
		n.end(first, Sent)
		n.poison(FCM.ClaimKey(notificationClaimID(n.key)))
		record, err := n.records.Get(t.Context(), first)
		require.NoError(t, err)
		require.NoError(t, WriteIdempotencyStates(t.Context(), client, FCM, []Record{*record}))
		require.Equal(t, IdempotencySent, n.state())
	})
}

// Retry is an operator's word: it writes over what is unusable.
func TestRetryBesideUnusableKeys(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id, _ := n.post()
		n.end(id, Failed)
		n.poison(FCM.ClaimKey(notificationClaimID(n.key)))
		n.poison(IdempotencyStateKey(n.key))
		require.NoError(t, n.retry(id))
		require.Equal(t, id, client.Get(t.Context(), FCM.ClaimKey(notificationClaimID(n.key))).Val())
		require.Equal(t, IdempotencyProcessing, n.state())
	})
}

func TestAPushWhoseRecordIsOfAnotherTypeHidesNoOthers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	good, bad := d.inState(Failed), d.inState(Failed)
	require.NoError(t, d.client.Del(t.Context(), d.channel.RecordKey(bad.ID)).Err())
	require.NoError(t, d.client.HSet(t.Context(), d.channel.RecordKey(bad.ID), "of", "others").Err())
	_, err := d.reader.Get(t.Context(), bad.ID)
	require.ErrorIs(t, err, ErrUnusableKey)
	require.ErrorContains(t, err, d.channel.RecordKey(bad.ID))
	require.NotErrorIs(t, err, ErrUnreadable, "to try again would not help")
	require.True(t, d.listed(Failed, good.ID))
	require.False(t, d.listed(Failed, bad.ID))
}

func TestTheDoctorLooksPastAnUnusableClaim(t *testing.T) {
	t.Parallel()
	w := newWardOf(t, FCM)
	require.NoError(t, w.client.HSet(t.Context(), FCM.ClaimKey(NewID()), "of", "others").Err())
	stranded := notificationClaimID("stranded")
	require.NoError(t, w.client.Set(t.Context(), FCM.ClaimKey(stranded), NewID(), time.Hour).Err())
	w.requireFaultMended("stranded-claim", stranded)
}

// An end must not wait for what somebody else has put where the dead pushes are listed.
func TestTheIndexOfDeadPushesOfAnotherTypeIsWrittenOver(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		for _, end := range []State{Failed, Sent} {
			s := newStory(t, client)
			s.begun("a")
			require.NoError(t, client.Del(t.Context(), Swrve.DeadKey()).Err())
			require.NoError(t, client.Set(t.Context(), Swrve.DeadKey(), "x", 0).Err())
			if end == Sent {
				require.NoError(t, errorOf(s.records.Finish(t.Context(), s.push, sent("a"), Sent)))
			} else {
				s.fail("a", Failed)
			}
			require.Equal(t, end, s.record().End)
			require.Equal(t, end == Failed, s.dead())
		}
	})
}
