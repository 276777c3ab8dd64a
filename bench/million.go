package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"pushq/internal/testenv"
)

func (b *bench) million() []result {
	const once = 1
	found := b.sideBySide("million", once, measureMillion, pushq)
	text := fmt.Sprintf("%d scheduled pushes", b.sizes.millionPushes)
	return []result{
		b.judge(found, promise{text: text + ": Redis memory", value: "megabytes", unit: "MB"}, contender{}),
		b.judge(found, promise{text: text + ": accepted within", value: "accepting", unit: "s"}, contender{}),
		b.judge(found, promise{text: text + ": GET /push/{id} p99 < 10 ms", value: "get", unit: "ms", rule: atMost(10)}, contender{}),
		b.judge(found, promise{text: text + ": GET /push?status=SCHEDULED p99 < 50 ms", value: "list", unit: "ms", rule: atMost(50)}, contender{}),
		b.judge(found, promise{text: text + ", all due at once: first one sent after", value: "first", unit: "s"}, contender{}),
		b.judge(found, promise{text: text + ", all due at once: 1,000 or all sent after", value: "thousand", unit: "s"}, contender{}),
	}
}

func measureMillion(t *stage, c contender) measurement {
	sizes := t.bench.sizes
	w := newWorld(t, provider{latency: "original", rate: providerLimit}, 0)
	s := settings{concurrency: inWork, perSecond: providerLimit}
	api := c.startReady(t, w, "api", s)
	c.startReady(t, w, "worker", s)
	before := w.usedMemory(t)
	due := time.Now().Add(sizes.millionWait).Truncate(time.Second)
	report := post(t, api, loadOrder{Pushes: sizes.millionPushes, Prefix: "million-", Cron: instant(due)})
	values := map[string]float64{
		"accepting": report.Seconds,
		"megabytes": (w.usedMemory(t) - before) / 1e6,
	}
	values["list"], values["get"] = lookUpSome(t, api, sizes.millionLookups)
	if time.Now().After(due) {
		t.Fatalf("the pushes were due before they had been looked at: accepting took %.0f s", report.Seconds)
	}
	w.swrve.await(t, min(1000, sizes.millionPushes), time.Until(due)+2*time.Minute)
	requests := w.swrve.requests(t)
	values["first"] = requests[0].ArrivedAt.Sub(due).Seconds()
	values["thousand"] = requests[min(1000, sizes.millionPushes)-1].ArrivedAt.Sub(due).Seconds()
	return measurement{values: values}
}

// lookUpSome walks through the list of scheduled pushes, and reads pushes that
// it has seen in random order. It returns the p99 of both in milliseconds.
func lookUpSome(t *stage, api *testenv.Process, lookups int) (list, get float64) {
	var listMillis, getMillis []float64
	var ids []string
	cursor := ""
	for len(listMillis) < lookups/10+1 {
		var page struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
			Next string `json:"next"`
		}
		began := time.Now()
		getJSON(t, api.URL()+"/push?status=SCHEDULED&limit=50&cursor="+cursor, &page)
		listMillis = append(listMillis, millisSince(began))
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		cursor = page.Next
	}
	for range lookups {
		began := time.Now()
		response, err := http.Get(api.URL() + "/push/" + ids[rand.N(len(ids))])
		t.check(err)
		getMillis = append(getMillis, millisSince(began))
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("GET /push/{id}: %d", response.StatusCode)
		}
	}
	return percentile(listMillis, 99), percentile(getMillis, 99)
}

func millisSince(began time.Time) float64 { return float64(time.Since(began).Microseconds()) / 1000 }
