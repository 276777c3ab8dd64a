package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Everything that can go wrong does, at random and much of it at once: processes are killed
// and frozen, Redis and RabbitMQ are restarted, connections cut, providers answer badly, and
// operators act on what they see. Afterwards each push is accounted for by its id: none is
// lost, none is stuck, none was sent more often than its attempts tell or its budget allows.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("the seed of the random choices is %d", seed)
	c := startChaos(t, rand.New(rand.NewPCG(seed, 0)))
	stop := c.accept()
	c.publish()
	for until := time.Now().Add(length(20*time.Second, 5*time.Minute)); time.Now().Before(until); {
		name := c.pick(slices.Sorted(maps.Keys(chaosDamages)))
		t.Logf("%s: %s", time.Now().Format(time.TimeOnly), name)
		chaosDamages[name](c)
		c.last(100*time.Millisecond, 2*time.Second)
	}
	stop()
	c.mendAll()
	c.settle()
	c.account()
}

const (
	chaosAttempts = 3
	// chaosEnd is how long the last push may need: two dead workers' leases one after the
	// other, and what a busy machine adds.
	chaosEnd = 5 * time.Minute
)

// A chaos is everything that takes part. Its methods are for the test's own goroutine,
// except those of the callers.
type chaos struct {
	*fcmWorld
	random   *rand.Rand
	rabbit   *testenv.RabbitMQ
	settings []string
	balancer string // address of what passes callers on to one of the APIs
	apis     [2]*testenv.Process
	workers  [2]*testenv.Process
	urls     [2]atomic.Pointer[url.URL] // of the APIs

	swrve, fcm *callers
	published  []string // devices, by RabbitMQ

	retried   map[string]int // how often somebody has put a push into the queue again, by id
	cancelled map[string]bool
	retryAlls int // calls that may have done so to any push
}

func startChaos(t *testing.T, random *rand.Rand) *chaos {
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(50 * time.Millisecond)}, "--appendonly", "yes", "--appendfsync", "always")
	c := &chaos{
		fcmWorld: &fcmWorld{w, testenv.StartFCM(t, fcmsim.Config{Latency: 50 * time.Millisecond})}, random: random,
		rabbit: testenv.StartRabbitMQ(t), swrve: newCallers(t), fcm: newNotifiers(t),
		retried: make(map[string]int), cancelled: make(map[string]bool),
	}
	c.swrve.insistent, c.fcm.insistent = true, true
	c.rabbit.Declare(t, messagesQueue, failuresQueue)
	attempts := strconv.Itoa(chaosAttempts)
	c.settings = []string{
		"RABBITMQ_URL=" + c.rabbit.URL(),
		"PUSH_RETRY_MAXATTEMPTS=" + attempts, "FCM_RETRY_MAXATTEMPTS=" + attempts,
		"SWRVE_TIMEOUTMILLIS=2000", "FCM_TIMEOUTMILLIS=2000", "SWRVE_AVERAGEPROCESSINGMILLIS=1000", "SWRVE_MAXRETRYAFTER=2s", "FCM_MAXRETRYAFTER=2s",
		"FCM_RETRY_FIRST=1s", "FCM_RETRY_FLOOR=1s", "FCM_RETRY_CAP=4s", "FCM_BREAKER_OPENFOR=1s",
	}
	for place := range c.apis {
		c.startAPI(place)
		c.startWorker(place)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(c.urls[rand.IntN(len(c.urls))].Load()) },
		// The caller cannot tell what became of its request.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	t.Cleanup(server.Close)
	c.balancer = server.URL
	return c
}

func (c *chaos) startAPI(place int) {
	c.apis[place] = c.start("api", c.settings...)
	address, err := url.Parse(c.apis[place].URL())
	require.NoError(c.t, err)
	c.urls[place].Store(address)
}

func (c *chaos) startWorker(place int) { c.workers[place] = c.start("worker", c.settings...) }

func (c *chaos) pick(names []string) string { return names[c.random.IntN(len(names))] }

func (c *chaos) between(shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(c.random.Int64N(int64(longest-shortest)))
}

// accept has callers post to both channels until stop is called. Every second one asks the
// simulator for trouble by its name.
func (c *chaos) accept() (stop func()) {
	stopped := make(chan struct{})
	var all sync.WaitGroup
	for _, channel := range []struct {
		callers  *callers
		troubles []string
	}{{c.swrve, swrveTroubles}, {c.fcm, firebaseTroubles}} {
		for caller := range 3 {
			all.Go(func() {
				for number := 0; ; number++ {
					select {
					case <-stopped:
						return
					case <-time.After(50 * time.Millisecond):
					}
					user := fmt.Sprintf("caller-%d-%d", caller, number)
					if number%2 == 1 {
						user = channel.troubles[number/2%len(channel.troubles)] + user
					}
					var more []string
					if channel.callers == c.swrve && number%5 == 0 {
						more = []string{`"cronExpression":"* * * * * ?"`} // the other queue
					}
					channel.callers.postAs(user, c.balancer, more...)
				}
			})
		}
	}
	return func() {
		close(stopped)
		all.Wait()
	}
}

// settle waits until every push and every message has come to its end.
func (c *chaos) settle() {
	client := c.Redis.Client(c.t)
	for _, callers := range []*callers{c.swrve, c.fcm} {
		c.waitUntilEnded(callers, c.apis[0], chaosEnd)
	}
	testenv.Eventually(c.t, chaosEnd, "all messages to be taken, and all failures to be in RabbitMQ", func() bool {
		return c.rabbit.Depth(c.t, messagesQueue) == 0 && client.XLen(c.t.Context(), tasks.FCM.FollowKey("failed")).Val() == 0
	})
	inspector := asynq.NewInspectorFromRedisClient(client)
	testenv.EventuallyNoError(c.t, chaosEnd, func() error {
		for _, channel := range tasks.Channels() {
			for _, queue := range channel.Queues() {
				info, err := inspector.GetQueueInfo(queue)
				if err != nil {
					return err
				}
				if left := info.Pending + info.Active + info.Scheduled + info.Retry; left > 0 {
					return fmt.Errorf("%d tasks are left in queue %s", left, queue)
				}
			}
		}
		return nil
	})
}

// account wants each push to have come to an end that is its own, and no device or user to
// have got it more often than attempts and budget allow.
func (c *chaos) account() {
	c.accountFor("swrve", c.swrve, c.Deliveries())
	delivered := c.Delivered()
	c.accountFor("fcm", c.fcm, delivered)

	failures := make(map[string]int)
	for _, body := range c.rabbit.Take(c.t, failuresQueue) {
		var message struct {
			Original struct {
				Recipient string `json:"recipient"`
			} `json:"original_message"`
		}
		require.NoError(c.t, json.Unmarshal([]byte(body), &message))
		failures[message.Original.Recipient]++
	}
	for _, device := range c.published {
		require.True(c.t, delivered[device] > 0 || failures[device] > 0, "the message to %s is lost", device)
		// RabbitMQ hands a message out again whose acknowledgement was lost. If its push has
		// failed by then, its key is free, and it is another push.
		require.LessOrEqual(c.t, delivered[device], chaosAttempts*(1+c.retryAlls+failures[device]), device)
	}
	c.t.Logf("%d messages from RabbitMQ were delivered or told as failures", len(c.published))
	c.nothingIsWrong()
}

func (c *chaos) accountFor(channel string, callers *callers, deliveries map[string]int) {
	pushes := callers.readInTheEnd(c.t, c.apis[0])
	states, refused := make(map[tasks.State]int), 0
	for _, posting := range callers.all() {
		delivered := deliveries[posting.user]
		if posting.status != http.StatusAccepted {
			require.False(c.t, posting.unknown, "the caller of %s asked until it was told", posting.user)
			require.Zero(c.t, delivered, "%s was refused", posting.user)
			refused++
			continue
		}
		push, found := pushes[posting.id]
		require.True(c.t, found, "%s was accepted as %s, and is lost", posting.user, posting.id)
		states[push.Status]++
		require.LessOrEqual(c.t, delivered, push.explained(), "%s (%s) got it more often than its attempts tell: %+v", posting.user, posting.id, push.Attempts)
		require.LessOrEqual(c.t, delivered, chaosAttempts*(1+c.retried[posting.id]+c.retryAlls), "%s (%s)", posting.user, posting.id)
		switch push.Status {
		case tasks.Sent:
			require.Positive(c.t, delivered, "%s (%s) is said to be SENT", posting.user, posting.id)
		case tasks.Cancelled:
			require.True(c.t, c.cancelled[posting.id], "nobody has cancelled %s (%s)", posting.user, posting.id)
		}
	}
	c.t.Logf("%s: accepted %d, refused %d, %v", channel, len(pushes), refused, states)
	require.Positive(c.t, states[tasks.Sent], channel)
}

// nothingIsWrong asks the doctor, which may say that pushes have failed, or that a provider
// whose last answer was a 429 has asked everybody to wait. It may also find
// the idempotency key of a caller who was refused between the claim of the key and the
// storing of the push, and frees that one.
func (c *chaos) nothingIsWrong() {
	allowed := []string{"many-failed", "leading-error", "braked"}
	require.Subset(c.t, append(allowed, "stranded-claim"), c.findings("--fix"))
	require.Subset(c.t, allowed, c.findings())
}

// findings are the names of the faults that the doctor finds.
func (c *chaos) findings(flags ...string) (names []string) {
	doctor := testenv.StartPushq(c.t, append([]string{"doctor", "--json"}, flags...), c.Environment(append(slices.Clone(c.Settings), c.settings...)...)...)
	exitCode := doctor.Wait(time.Minute)
	for _, line := range doctor.Stdout() {
		c.t.Log(line)
		var finding struct{ Fault string }
		require.NoError(c.t, json.NewDecoder(bytes.NewReader([]byte(line))).Decode(&finding), line)
		names = append(names, finding.Fault)
	}
	require.Contains(c.t, []int{0, 2}, exitCode, "it could look at everything")
	return names
}
