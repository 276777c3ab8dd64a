package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"pushq/internal/testenv"
)

// loadCommand makes this program the load generator: a process of its own, the
// same for all contenders.
const loadCommand = "load"

// callers is how many connections post at the same time.
const callers = 64

// A loadOrder says what the load generator posts: for a time, or so many pushes.
type loadOrder struct {
	Address  string        `json:"address"`  // host:port
	Callers  int           `json:"callers"`  // each posts again as soon as it has its answer
	Warmup   time.Duration `json:"warmup"`   // posts before it counts
	Duration time.Duration `json:"duration"` // or
	Pushes   int           `json:"pushes"`
	// PerSecond, unless 0, is when the next request is due; a caller that is late
	// counts from then.
	PerSecond int `json:"perSecond"`

	Batch  int    `json:"batch"`  // pushes in a POST /push/batch; 0 for POST /push
	Prefix string `json:"prefix"` // of the users' names
	Cron   string `json:"cron"`   // cronExpression, none if empty
}

// A loadReport is what it measured, after the warm-up.
type loadReport struct {
	Pushes    int     `json:"pushes"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"perSecond"` // pushes
	P50       float64 `json:"p50Millis"` // of a request
	P99       float64 `json:"p99Millis"`
}

// post runs the load generator against a process of a contender.
func post(t *stage, process *testenv.Process, order loadOrder) loadReport {
	order.Address = process.HTTPAddress()
	if order.Callers == 0 {
		order.Callers = callers
	}
	argument, err := json.Marshal(order)
	t.check(err)
	self, err := os.Executable()
	t.check(err)
	generator := testenv.StartProgram(t, self, []string{loadCommand, string(argument)})
	if code := generator.Wait(30 * time.Minute); code != 0 {
		t.Fatalf("the load generator: %s", strings.Join(generator.Stderr(), "\n"))
	}
	var report loadReport
	t.check(json.Unmarshal([]byte(strings.Join(generator.Stdout(), "")), &report))
	return report
}

// runLoad is the load generator.
func runLoad(argument string) error {
	var order loadOrder
	if err := json.Unmarshal([]byte(argument), &order); err != nil {
		return err
	}
	client := &fasthttp.HostClient{
		Addr: order.Address, MaxConns: order.Callers, ReadTimeout: 30 * time.Second,
		RetryIfErr: func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
	}
	if order.Warmup > 0 {
		warmup := order
		warmup.Duration, warmup.Pushes, warmup.Prefix = order.Warmup, 0, "warm-"+order.Prefix
		if _, err := warmup.run(client); err != nil {
			return err
		}
	}
	report, err := order.run(client)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (o loadOrder) run(client *fasthttp.HostClient) (loadReport, error) {
	var next atomic.Int64 // number of the next push
	perRequest := int64(max(o.Batch, 1))
	millis := make([][]float64, o.Callers)
	failures := make([]error, o.Callers)
	began := time.Now()
	end := began.Add(o.Duration)
	var all sync.WaitGroup
	for caller := range o.Callers {
		all.Go(func() {
			request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			request.SetRequestURI("http://" + o.Address + o.path())
			request.Header.SetMethod(fasthttp.MethodPost)
			request.Header.SetContentType("application/json")
			var body []byte
			for o.Pushes > 0 || time.Now().Before(end) {
				first := next.Add(perRequest) - perRequest
				count := perRequest
				if o.Pushes > 0 {
					count = min(count, int64(o.Pushes)-first)
				}
				if count <= 0 {
					return
				}
				body = o.appendBody(body[:0], first, count)
				request.SetBodyRaw(body)
				sent := time.Now()
				if o.PerSecond > 0 {
					sent = began.Add(time.Duration(first) * time.Second / time.Duration(o.PerSecond))
					time.Sleep(time.Until(sent))
				}
				if err := client.Do(request, response); err != nil {
					failures[caller] = err
					return
				}
				millis[caller] = append(millis[caller], float64(time.Since(sent).Microseconds())/1000)
				// A batch has an error for each push that was not accepted.
				if response.StatusCode() != o.wanted() || bytes.Contains(response.Body(), []byte(`"error"`)) {
					failures[caller] = fmt.Errorf("answered %d: %.200s", response.StatusCode(), response.Body())
					return
				}
			}
		})
	}
	all.Wait()
	seconds := time.Since(began).Seconds()
	for _, err := range failures {
		if err != nil {
			return loadReport{}, err
		}
	}
	var requests []float64
	for _, of := range millis {
		requests = append(requests, of...)
	}
	pushes := len(requests) * int(perRequest)
	if o.Pushes > 0 {
		pushes = o.Pushes
	}
	return loadReport{
		Pushes: pushes, Seconds: seconds, PerSecond: float64(pushes) / seconds,
		P50: percentile(requests, 50), P99: percentile(requests, 99),
	}, nil
}

func (o loadOrder) path() string {
	if o.Batch > 0 {
		return "/push/batch"
	}
	return "/push"
}

func (o loadOrder) wanted() int {
	if o.Batch > 0 {
		return fasthttp.StatusOK
	}
	return fasthttp.StatusAccepted
}

func (o loadOrder) appendBody(body []byte, first, count int64) []byte {
	if o.Batch == 0 {
		return o.appendPush(body, first)
	}
	body = append(body, '[')
	for number := range count {
		if number > 0 {
			body = append(body, ',')
		}
		body = o.appendPush(body, first+number)
	}
	return append(body, ']')
}

func (o loadOrder) appendPush(body []byte, number int64) []byte {
	return appendPush(body, fmt.Sprintf("%s%09d-6E33-4E88-AF52-CDA8", o.Prefix, number), o.Cron)
}

// appendPush appends a push of about 170 bytes, the size of the original load
// test's.
func appendPush(body []byte, user, cron string) []byte {
	body = append(body, `{"platform":"IOS","messagePrototypeKey":"Hello","pushKey":"`...)
	body = append(body, user...)
	body = append(body, `","message":"Hello client! Your payment of 12.50 EUR is due."`...)
	if cron != "" {
		body = append(body, `,"cronExpression":"`...)
		body = append(body, cron...)
		body = append(body, '"')
	}
	return append(body, '}')
}
