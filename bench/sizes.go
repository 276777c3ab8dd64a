package main

import "time"

// sizes are how much is measured.
type sizes struct {
	// rounds of short comparisons, and of those that take a minute each. The drain has
	// more: it is bound by the processors, whose speed changes from second to second.
	rounds, longRounds, drainRounds int

	rateWorkers              []int
	rateWarmup, rateDuration time.Duration
	rateRepeats              int // of a void run

	acceptWarmup, acceptDuration time.Duration

	drainPushes, drainPushesSlowRedis int

	idleQuiet  time.Duration // measured without a push
	idlePushes int
	idleGap    time.Duration // mean time between two pushes

	herdPushes    int
	herdWait      time.Duration // until the herd is due
	herdImmediate int
	herdGap       time.Duration

	windowPushes, windowSeconds int

	memoryPushes int

	millionPushes  int
	millionWait    time.Duration // until they are due
	millionLookups int

	commandPushes int
}

var fullSizes = sizes{
	rounds: 4, longRounds: 3, drainRounds: 8,
	rateWorkers: []int{1, 2, 4}, rateWarmup: 4 * time.Second, rateDuration: 25 * time.Second, rateRepeats: 5,
	acceptWarmup: 2 * time.Second, acceptDuration: 8 * time.Second,
	drainPushes: 30_000, drainPushesSlowRedis: 6000,
	idleQuiet: 10 * time.Second, idlePushes: 40, idleGap: 600 * time.Millisecond,
	herdPushes: 100_000, herdWait: 90 * time.Second, herdImmediate: 100, herdGap: 200 * time.Millisecond,
	windowPushes: 1000, windowSeconds: 20,
	memoryPushes:  50_000,
	millionPushes: 1_000_000, millionWait: 400 * time.Second, millionLookups: 2000,
	commandPushes: 6000,
}

// quickSizes show that everything works, and nothing else.
var quickSizes = sizes{
	rounds: 1, longRounds: 1, drainRounds: 1,
	rateWorkers: []int{1}, rateWarmup: 500 * time.Millisecond, rateDuration: time.Second,
	acceptWarmup: 50 * time.Millisecond, acceptDuration: 200 * time.Millisecond,
	drainPushes: 300, drainPushesSlowRedis: 100,
	idleQuiet: 200 * time.Millisecond, idlePushes: 2, idleGap: 100 * time.Millisecond,
	herdPushes: 300, herdWait: 3 * time.Second, herdImmediate: 3, herdGap: 50 * time.Millisecond,
	windowPushes: 10, windowSeconds: 2,
	memoryPushes:  300,
	millionPushes: 1000, millionWait: 4 * time.Second, millionLookups: 20,
	commandPushes: 200,
}
