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
	First       time.Duration `key:"first" default:"1s" unit:"duration" min:"1s" max:"24h" doc:"Time between the first attempt and the second; doubled after each further one. At most fcm.retry.cap."`
	Floor       time.Duration `key:"floor" default:"1s" unit:"duration" min:"1s" max:"24h" doc:"Least time between two attempts. Google recommends ten seconds: 10s. With 1s, pushes wait 1, 2 and 4 s."`
	Cap         time.Duration `key:"cap" default:"1m" unit:"duration" min:"1s" max:"24h" doc:"Longest time between two attempts, apart from what Firebase asks for with Retry-After."`
	Jitter      float64       `key:"jitter" default:"0.1" min:"0" max:"1" doc:"Part of the time that is added at most, at random."`
}

// What FCM.Mode may be.
const (
	FCMv1     = "v1"
	FCMLegacy = "legacy"
)
