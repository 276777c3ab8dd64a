package faults

import (
	"net/http"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// What users ask the simulators for by their names. With x1 the second attempt succeeds.
var (
	swrveTroubles = []string{
		"503x1-", "500x2-", "503-", "400-", "403-", "302-", "429x1-", "429after1-", "html502x1-", "html200x1-", "body400-", "body503x1-",
		"error200x1-", "cut200x1-", "empty200-", "text500x1-", "echo400-", "401-", "hangx1-", "hang-", "resetx1-", "reset-", "ok-then-resetx1-", "ok-then-reset-",
	}
	firebaseTroubles = []string{
		"UNAVAILABLEx1-", "INTERNALx2-", "UNREGISTERED-", "INVALID_ARGUMENT-", "MALFORMED_TOKEN-", "APNS_UNREGISTERED-", "SENDER_ID_MISMATCH-",
		"UNREGISTERED_ODD-", "QUOTA_EXCEEDEDx1-", "THIRD_PARTY_AUTH_ERRORx1-", "401x1-", "403x1-", "404x1-", "html502x1-", "html200x1-", "429after1-",
		"hangx1-", "resetx1-", "ok-then-resetx1-", "ok-then-reset-",
	}
	// For every push that arrives meanwhile.
	swrveOutages    = []string{"503-", "hang-", "reset-", "html502-", "html200-", "403-", "429after1-"}
	firebaseOutages = []string{"503-", "hang-", "reset-", "html502-", "html200-", "401-", "html404-", "ok-then-reset-"}
	templateOutages = []string{"unavailable-", "html-", "shape-", "cut-", "html404-", "hang-", "reset-", "401-", "429-"}
)

// chaosDamages are what may happen, by name. Each returns when the damage is done, or over
// if others could not go on beside it.
var chaosDamages = map[string]func(*chaos){
	"a worker is killed": func(c *chaos) {
		place := c.random.IntN(len(c.workers))
		c.workers[place].Kill()
		if !*full {
			expireLeases(c.t, c.Redis.Client(c.t))
		}
		c.startWorker(place)
	},
	"a worker is replaced": func(c *chaos) {
		place := c.random.IntN(len(c.workers))
		c.workers[place].Terminate()
		c.workers[place].Wait(time.Minute)
		c.startWorker(place)
	},
	"an api is killed": func(c *chaos) {
		place := c.random.IntN(len(c.apis))
		c.apis[place].Kill()
		c.startAPI(place)
	},
	"a worker is frozen": func(c *chaos) {
		worker := c.workers[c.random.IntN(len(c.workers))]
		worker.Freeze()
		c.last(time.Second, length(4*time.Second, 45*time.Second))
		worker.Thaw()
	},
	"an api is frozen": func(c *chaos) {
		api := c.apis[c.random.IntN(len(c.apis))]
		api.Freeze()
		c.last(time.Second, 4*time.Second)
		api.Thaw()
	},
	"redis cuts all connections": func(c *chaos) {
		c.Redis.Client(c.t).Do(c.t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	},
	"redis pauses": func(c *chaos) {
		pause := c.between(100*time.Millisecond, 3*time.Second)
		c.Redis.Client(c.t).Do(c.t.Context(), "CLIENT", "PAUSE", pause.Milliseconds(), "ALL")
	},
	"redis is restarted": func(c *chaos) {
		c.Redis.Stop()
		c.last(0, 2*time.Second)
		c.Redis.Start()
	},
	"rabbitmq is killed": func(c *chaos) {
		c.rabbit.Kill()
		c.rabbit.Start()
	},
	"messages come from rabbitmq": (*chaos).publish,
	"swrve does not work": func(c *chaos) {
		c.check(c.Swrve.SetOutcome(c.pick(swrveOutages)))
		c.last(time.Second, 3*time.Second)
		c.check(c.Swrve.SetOutcome(""))
	},
	"firebase does not work": func(c *chaos) {
		c.check(c.Firebase.SetOutcome(c.pick(firebaseOutages)))
		c.last(time.Second, 3*time.Second)
		c.check(c.Firebase.SetOutcome(""))
	},
	"templates are not to be had": func(c *chaos) {
		c.check(c.Templates.SetTrouble(c.pick(templateOutages)))
		c.last(time.Second, 3*time.Second)
		c.check(c.Templates.SetTrouble(""))
	},
	"access tokens are revoked": func(c *chaos) { c.Firebase.Revoke() },
	"a push is cancelled": func(c *chaos) {
		if id := c.anyID(); id != "" && c.call(http.MethodDelete, "/push/"+id, "") {
			c.cancelled[id] = true
		}
	},
	"a push is retried": func(c *chaos) {
		if id := c.anyID(); id != "" && c.call(http.MethodPost, "/push/"+id+"/retry", "") {
			c.retried[id]++
		}
	},
	"what failed is retried": func(c *chaos) {
		if c.call(http.MethodPost, "/push/retry?channel="+c.pick([]string{"swrve", "fcm"}), `{"status":"GIVEN_UP","limit":20}`) {
			c.retryAlls++
		}
	},
	"asynq's tools run and archive pushes": func(c *chaos) {
		inspector := asynq.NewInspectorFromRedisClient(c.Redis.Client(c.t))
		for range 5 {
			id := c.anyID()
			for _, queue := range append(tasks.Swrve.Queues(), tasks.FCM.Queues()...) {
				if inspector.ArchiveTask(queue, id) == nil {
					c.cancelled[id] = true
				}
				if id = c.anyID(); inspector.RunTask(queue, id) == nil {
					c.retried[id]++
				}
			}
		}
	},
	"a channel is paused": func(c *chaos) {
		channel := tasks.Channels()[c.random.IntN(2)]
		_, err := tasks.Pause(c.t.Context(), c.Redis.Client(c.t), channel, byChaos("pause"), 0)
		c.check(err)
		c.last(time.Second, 3*time.Second)
		c.resume(c.Redis.Client(c.t), channel)
	},
}

// last lets damage last for a while. Its length is chosen, there is nothing to wait for.
func (c *chaos) last(shortest, longest time.Duration) { time.Sleep(c.between(shortest, longest)) }

// publish has messages for both kinds of devices come from RabbitMQ.
func (c *chaos) publish() {
	var bodies []string
	for range 20 {
		device := "published-" + tasks.NewID()
		if c.random.IntN(2) == 0 {
			device = c.pick(firebaseTroubles) + device
		}
		c.published = append(c.published, device)
		bodies = append(bodies, testenv.NotificationTo(device))
	}
	c.rabbit.Publish(c.t, messagesQueue, bodies...)
}

// mendAll leaves nothing broken that needs somebody to mend it.
func (c *chaos) mendAll() {
	c.check(c.Swrve.SetOutcome(""))
	c.check(c.Firebase.SetOutcome(""))
	c.check(c.Templates.SetTrouble(""))
	for _, channel := range tasks.Channels() {
		c.resume(c.Redis.Client(c.t), channel)
	}
}

func (c *chaos) resume(client *redis.Client, channel tasks.Channel) {
	_, err := tasks.Resume(c.t.Context(), client, channel, byChaos("resume"))
	c.check(err)
}

func (c *chaos) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// anyID is the id of any push that was accepted, "" if there is none.
func (c *chaos) anyID() string {
	callers := c.swrve
	if c.random.IntN(2) == 0 {
		callers = c.fcm
	}
	accepted := callers.accepted()
	if len(accepted) == 0 {
		return ""
	}
	// Rather one of the latest, which is under way.
	latest := accepted[max(0, len(accepted)-100):]
	return latest[c.random.IntN(len(latest))].id
}

// call asks an API for something, and reports whether it may have been done.
func (c *chaos) call(method, path, body string) bool {
	request, err := http.NewRequest(method, c.balancer+path, strings.NewReader(body))
	c.check(err)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.swrve.client.Do(request)
	if err != nil {
		return true
	}
	_ = response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotFound, http.StatusConflict:
		return false
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusServiceUnavailable:
		return true
	default:
		c.t.Fatalf("%s %s was answered %d", method, path, response.StatusCode)
		return false
	}
}

func byChaos(action string) tasks.OperatorNote {
	return tasks.OperatorNote{Action: action, By: "chaos", At: tasks.MillisOf(time.Now())}
}
