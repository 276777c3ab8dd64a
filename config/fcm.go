package config

import "time"

// FCM is the channel to Firebase Cloud Messaging, whose texts come from templates.
type FCM struct {
	Enabled        bool          `key:"enabled" default:"false" doc:"Turns the channel to Firebase on: POST /notifications, the messages of rabbitmq.url, and their delivery. To be the same in every process that shares the Redis, like the rest of this section."`
	Mode           string        `key:"mode" default:"v1" allowed:"v1 or legacy" doc:"Form of the requests. v1 is Firebase's HTTP v1 API, for which pushq needs fcm.serviceAccount. legacy is the one before it, with fcm.serverKey, which Google has shut down in 2024: for a gateway at fcm.url that still takes it."`
	URL            string        `key:"url" default:"https://fcm.googleapis.com" allowed:"http or https" doc:"Where Firebase, or the gateway, is; without a path."`
	Project        string        `key:"project" default:"" doc:"Firebase project in mode v1, by its id. Empty takes project_id of fcm.serviceAccount."`
	ServiceAccount Secret        `key:"serviceAccount" default:"" allowed:"key file of a service account, JSON" doc:"Who pushq is for Firebase in mode v1: what is in the key file that Google Cloud makes for a service account, a secret. Its role must allow cloudmessaging.messages.create. PUSHQ_FCM_SERVICEACCOUNT_FILE is the path of the file. Processes that only accept need it too."`
	ServerKey      Secret        `key:"serverKey" default:"" doc:"Key for the gateway in mode legacy, a secret, sent as Authorization: key=…. Not used in mode v1."`
	DelayMillis    float64       `key:"delayMillis" default:"1" unit:"ms" min:"0.1" max:"60000" doc:"Least time between the starts of two requests to Firebase, over all processes that share the Redis. Google allows a project 600,000 messages a minute unless told otherwise, which is 0.1; 1 is 1,000 a second."`
	Concurrency    int           `key:"concurrency" default:"10" unit:"pushes" min:"1" max:"5000" doc:"Pushes in work at a time, for each process and queue; notifications are all in one queue. Each takes as long as Firebase needs to answer: with 100 ms, 10 are 100 pushes a second for each process."`
	TimeoutMillis  int           `key:"timeoutMillis" default:"15000" unit:"ms" min:"100" max:"480000" doc:"After this time a request to Firebase is given up, and may have been delivered nevertheless. Google wants at least ten seconds."`
	MaxRetryAfter  time.Duration `key:"maxRetryAfter" default:"5m" unit:"duration" min:"1s" max:"24h" doc:"Longest time that a Retry-After of Firebase is obeyed. A 429 without one counts as one of 60 s."`
	DropMalformed  bool          `key:"dropMalformedTokens" default:"false" doc:"Says in the log (drop_token=true) that a device's token should be forgotten also if Firebase calls it not valid, not only if it is not registered any more. The push ends FAILED either way."`
	Retry          FCMRetry      `key:"retry"`
	Breaker        Breaker       `key:"breaker"`
}

// FCMRetry says how often and how soon a failed push to Firebase is tried again.
type FCMRetry struct {
	MaxAttempts int           `key:"maxAttempts" default:"4" unit:"attempts" min:"1" max:"1000" doc:"Attempts after which a push is given up, the first one included."`
	First       time.Duration `key:"first" default:"1s" unit:"duration" min:"1s" max:"24h" doc:"Time between the first attempt and the second; doubled after each further one."`
	Floor       time.Duration `key:"floor" default:"1s" unit:"duration" min:"1s" max:"24h" doc:"Least time between two attempts. Google recommends ten seconds: 10s. With 1s, pushes wait 1, 2 and 4 s."`
	Cap         time.Duration `key:"cap" default:"1m" unit:"duration" min:"1s" max:"24h" doc:"Longest time between two attempts, apart from what Firebase asks for with Retry-After."`
	Jitter      float64       `key:"jitter" default:"0.1" min:"0" max:"1" doc:"Part of the time that is added at most, at random."`
}

// Breaker is a circuit breaker that all workers share.
type Breaker struct {
	Failures  int           `key:"failures" default:"5" unit:"requests" min:"1" max:"1000" doc:"Failed requests in a row that open the circuit breaker: no answer, a 5xx, pushq itself refused. What is wrong with one push or device does not count. No more than this many are under way to a service that has not answered well yet. Firebase and the template service have a breaker each, with the settings of this section, which all workers share."`
	OpenFor   time.Duration `key:"openFor" default:"30s" unit:"duration" min:"1s" max:"1h" doc:"How long no request is made; then one at a time shows whether the service works again."`
	Successes int           `key:"successes" default:"2" unit:"requests" min:"1" max:"100" doc:"Good answers in a row, of those single requests, that close the breaker."`
	OnOpen    string        `key:"onOpen" default:"defer" allowed:"defer or dead-letter" doc:"What becomes of pushes while a breaker is open. defer lets them wait, without an attempt counted, until it closes. dead-letter ends them FAILED at once, and puts them into rabbitmq.failedQueue."`
}

// Template is the service that has the texts.
type Template struct {
	URL           string        `key:"url" default:"" allowed:"http or https" doc:"Template service, up to what comes before /api/v1/templates/{template_code}?language=…, for which pushq asks. Required with fcm.enabled."`
	TimeoutMillis int           `key:"timeoutMillis" default:"5000" unit:"ms" min:"100" max:"60000" doc:"Longest time of one request to it."`
	Tries         int           `key:"tries" default:"3" unit:"requests" min:"1" max:"10" doc:"Requests for one template, the first included, before the attempt of the push fails. There are 200 ms between the first two, and twice as much each further time."`
	Fresh         time.Duration `key:"fresh" default:"1m" unit:"duration" min:"0s" max:"24h" doc:"How long a process uses a template without asking for it again: a change of a template takes this long until every push has it."`
	Stale         time.Duration `key:"stale" default:"1h" unit:"duration" min:"0s" max:"168h" doc:"How much longer it uses the template while the service cannot be asked. What the service says it has no more is not used."`
}

// What FCM.Mode and Breaker.OnOpen may be.
const (
	FCMv1      = "v1"
	FCMLegacy  = "legacy"
	Defer      = "defer"
	DeadLetter = "dead-letter"
)
