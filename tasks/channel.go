package tasks

// A Channel names everything that belongs to one destination of pushes: its
// asynq queues, its task type, and its keys in Redis.
//
// Every key carries the channel's name as its hash tag, or for what belongs to one queue
// the queue's, as asynq's keys do: no script touches two slots of a Redis Cluster.
type Channel struct {
	// Name is shown in logs and metrics and is part of every key: "swrve".
	Name string
}

// The channels.
var (
	Swrve = Channel{Name: "swrve"}
	FCM   = Channel{Name: "fcm"} // Firebase Cloud Messaging, with templates
)

// Channels returns every channel that pushq knows, Swrve first.
func Channels() []Channel { return []Channel{Swrve, FCM} }

// TaskType is the asynq task type of the channel's pushes.
func (c Channel) TaskType() string { return "push:" + c.Name }

// ImmediateQueue holds the pushes that may be sent at any time.
func (c Channel) ImmediateQueue() string { return c.Name }

// WindowQueue holds the pushes that wait for a window: a herd that becomes due
// at one instant must not hold up the immediate ones.
func (c Channel) WindowQueue() string { return c.Name + "-window" }

// Queues returns both queues, the immediate one first.
func (c Channel) Queues() []string { return []string{c.ImmediateQueue(), c.WindowQueue()} }

// queue is where the push waits.
func (c Channel) queue(push Push) string {
	if push.Windowed() {
		return c.WindowQueue()
	}
	return c.ImmediateQueue()
}

// RecordKey holds the record of one push.
func (c Channel) RecordKey(id string) string { return c.key("push:" + id) }

// ClaimKey holds the claim that an idempotency key has on a push.
func (c Channel) ClaimKey(id string) string { return c.key("idem:" + id) }

// DeadKey indexes the pushes that ended FAILED, GIVEN_UP or CANCELLED by the
// time of their end, in milliseconds.
func (c Channel) DeadKey() string { return c.key("dead") }

// PaceKey holds the state of the channel's rate limiter.
func (c Channel) PaceKey() string { return c.key("pace") }

// BrakeKey exists while the provider has asked every sender to wait.
func (c Channel) BrakeKey() string { return c.key("brake") }

// ProbeKeys are written to see whether Redis takes writes: one beside each
// queue, because a cluster may keep the two on different servers.
func (c Channel) ProbeKeys() []string {
	var keys []string
	for _, queue := range c.Queues() {
		keys = append(keys, queueKey(queue, "probe"))
	}
	return keys
}

// PaceOverrideKey exists while an operator wants the channel to send slower.
func (c Channel) PaceOverrideKey() string { return c.key("pace:override") }

// BreakerKey holds the circuit breaker of a service that the channel needs.
func (c Channel) BreakerKey(service string) string { return c.key("breaker:" + service) }

// BreakerFailingKey holds what that service fails for.
func (c Channel) BreakerFailingKey(service string) string { return c.BreakerKey(service) + ":failing" }

// UnusedKey is never written: what must do nothing is tried with it.
func (c Channel) UnusedKey() string { return c.key("unused") }

// UnusedKeysOfOthers are keys like those that the channel shares with others, for the same.
func (c Channel) UnusedKeysOfOthers() []string {
	keys := []string{"asynq:unused"}
	if c == FCM {
		keys = append(keys, IdempotencyStateKey("unused"), "circuit:unused")
	}
	return keys
}

// FollowersKey holds the names of those who follow the channel, and what each is told
// (Followers).
func (c Channel) FollowersKey() string { return c.key("follow") }

// FollowKey is the stream in which somebody who follows the channel is told of its
// pushes (Followers).
func (c Channel) FollowKey(follower string) string { return c.FollowersKey() + ":" + follower }

func (c Channel) key(name string) string { return queueKey(c.Name, name) }

// queueKey is a key of pushq in the slot of a queue or, by its name, a channel.
func queueKey(tag, name string) string { return "pushq:{" + tag + "}:" + name }
