package config

import "time"

// FCM is the channel to Firebase Cloud Messaging, whose texts come from templates.
type FCM struct {
	Enabled        bool          `key:"enabled" default:"false" doc:"Takes messages for Firebase at POST /notifications, and delivers them."`
	Mode           string        `key:"mode" default:"v1" allowed:"v1 or legacy" doc:"Form of the requests. v1 is Firebase's HTTP v1 API. legacy is the one with fcm.serverKey, which Google has shut down in 2024: for a gateway that still takes it."`
	URL            string        `key:"url" default:"https://fcm.googleapis.com" allowed:"http or https" doc:"Where Firebase, or the gateway, is; without a path."`
	Project        string        `key:"project" default:"" doc:"Firebase project. Empty takes the one of fcm.serviceAccount."`
	ServiceAccount Secret        `key:"serviceAccount" default:"" allowed:"key file of a service account, JSON" doc:"Who pushq is for Firebase in mode v1: what is in the key file that Google Cloud makes, a secret. PUSHQ_FCM_SERVICEACCOUNT_FILE reads it from the file."`
	ServerKey      Secret        `key:"serverKey" default:"" doc:"Server key in mode legacy, a secret."`
	DelayMillis    float64       `key:"delayMillis" default:"1" unit:"ms" min:"0.1" max:"60000" doc:"Least time between the starts of two requests to Firebase, over all processes that share the Redis. Google allows a project 600,000 messages a minute unless told otherwise, which is 0.1."`
	Concurrency    int           `key:"concurrency" default:"10" unit:"pushes" min:"1" max:"5000" doc:"Pushes in work at a time, for each process and queue."`
	TimeoutMillis  int           `key:"timeoutMillis" default:"15000" unit:"ms" min:"100" max:"480000" doc:"After this time a request to Firebase is given up, and may have been delivered nevertheless. Google wants at least ten seconds."`
	MaxRetryAfter  time.Duration `key:"maxRetryAfter" default:"5m" unit:"duration" min:"1s" max:"24h" doc:"Longest time that a Retry-After of Firebase is obeyed."`
	DropMalformed  bool          `key:"dropMalformedTokens" default:"false" doc:"Takes a token that Firebase calls not valid for one to be dropped, not only an unregistered one."`
	Retry          FCMRetry      `key:"retry"`
	Breaker        Breaker       `key:"breaker"`
}

// FCMRetry says how often and how soon a failed push to Firebase is tried again.
type FCMRetry struct {
	MaxAttempts int           `key:"maxAttempts" default:"4" unit:"attempts" min:"1" max:"1000" doc:"Attempts after which a push is given up, the first one included."`
	First       time.Duration `key:"first" default:"1s" unit:"duration" min:"1s" max:"24h" doc:"Time between the first attempt and the second; doubled after each further one."`
	Floor       time.Duration `key:"floor" default:"1s" unit:"duration" min:"1s" max:"24h" doc:"Least time between two attempts. Google recommends ten seconds."`
	Cap         time.Duration `key:"cap" default:"1m" unit:"duration" min:"1s" max:"24h" doc:"Longest time between two attempts, apart from what Firebase asks for with Retry-After."`
	Jitter      float64       `key:"jitter" default:"0.1" min:"0" max:"1" doc:"Part of the time that is added at most, at random."`
}

// Breaker is a circuit breaker that all workers share.
type Breaker struct {
	Failures  int           `key:"failures" default:"5" unit:"requests" min:"1" max:"1000" doc:"Requests in a row without an answer that shows a working service, after which none is made for a while. Also the number that may be under way to a service that has not answered yet."`
	OpenFor   time.Duration `key:"openFor" default:"30s" unit:"duration" min:"1s" max:"1h" doc:"How long none is made; then one at a time shows whether the service works again."`
	Successes int           `key:"successes" default:"2" unit:"requests" min:"1" max:"100" doc:"Good answers in a row after which all are made again."`
	OnOpen    string        `key:"onOpen" default:"defer" allowed:"defer or dead-letter" doc:"What becomes of pushes meanwhile: defer lets them wait, uncounted; dead-letter ends them FAILED."`
}

// Template is the service that has the texts.
type Template struct {
	URL           string        `key:"url" default:"" allowed:"http or https" doc:"Template service: pushq asks for /api/v1/templates/{template_code}?language=… below it. Required with fcm.enabled."`
	TimeoutMillis int           `key:"timeoutMillis" default:"5000" unit:"ms" min:"100" max:"60000" doc:"Longest time of one request to it."`
	Tries         int           `key:"tries" default:"3" unit:"requests" min:"1" max:"10" doc:"Requests for one template, the first included, before the attempt fails."`
	Fresh         time.Duration `key:"fresh" default:"1m" unit:"duration" min:"0s" max:"24h" doc:"How long a template is used without asking again. After a change of a template this long passes until every push has it."`
	Stale         time.Duration `key:"stale" default:"1h" unit:"duration" min:"0s" max:"168h" doc:"How much longer it is used while the service cannot be asked."`
}

// What FCM.Mode and Breaker.OnOpen may be.
const (
	FCMv1      = "v1"
	FCMLegacy  = "legacy"
	Defer      = "defer"
	DeadLetter = "dead-letter"
)
