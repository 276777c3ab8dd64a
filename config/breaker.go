package config

import "time"

// Breaker is a circuit breaker that all workers share.
type Breaker struct {
	Failures  int           `key:"failures" default:"5" unit:"requests" min:"2" max:"1000" doc:"Failed requests in a row that open the circuit breaker: no answer, a 5xx, one that refuses pushq itself. What is wrong with one push or device does not count, nor does what fails for one while others are served. No more than this many are under way, by all workers together, until there is a good answer, and again until there is the next one: with 1 they would all make one request at a time. Firebase and the template service have a breaker each, with the settings of this section, which all workers share."`
	OpenFor   time.Duration `key:"openFor" default:"30s" unit:"duration" min:"1s" max:"1h" doc:"How long no request is made; then two, and after the same time one, and so on, show whether the service works again: pushes that have not failed first."`
	Successes int           `key:"successes" default:"2" unit:"requests" min:"1" max:"100" doc:"Good answers in a row, of those single requests, that close the breaker."`
	OnOpen    string        `key:"onOpen" default:"defer" allowed:"defer or dead-letter" doc:"What becomes of pushes while a breaker is open. defer lets them wait, without an attempt counted, until it closes. dead-letter ends them FAILED at once, and puts them into rabbitmq.failedQueue, if there is rabbitmq.url."`
}

// What Breaker.OnOpen may be.
const (
	Defer      = "defer"
	DeadLetter = "dead-letter"
)
