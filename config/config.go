// Package config describes everything that can be set in pushq, reads it from a
// file, the environment and the command line, and checks it.
//
// The structs below are the only description of a setting. Their tags give its
// key, default, unit, range and meaning; variables, the checks for unknown keys,
// the documentation page and the list of current values all derive from them:
//
//	key      name within its section
//	default  value when nothing is set, written as in an environment variable
//	unit     unit of the value, for the reader
//	min,max  smallest and largest value, both allowed
//	allowed  what is allowed, in words, where min and max cannot say it
//	example  of a map or list, how it is written in a variable
//	doc      meaning
//
// Values are plain data: safe to copy, and to read from several goroutines.
package config

import "time"

// Config is everything that can be set.
type Config struct {
	Redis     Redis     `key:"redis"`
	HTTP      HTTP      `key:"http"`
	Dashboard Dashboard `key:"dashboard"`
	Swrve     Swrve     `key:"swrve"`
	Push      Push      `key:"push"`
	FCM       FCM       `key:"fcm"`
	Template  Template  `key:"template"`
	RabbitMQ  RabbitMQ  `key:"rabbitmq"`
	History   History   `key:"history"`
	Tracing   Tracing   `key:"tracing"`
}

// Redis says where pushes are kept.
type Redis struct {
	URL              RedisURL      `key:"url" default:"" allowed:"redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster://" doc:"Where pushes are kept: redis://[user:password@]host[:port][/database], the same with rediss:// for TLS, redis-socket://[user:password@]/path[?db=database], redis-sentinel://[user:password@]host[:port],host[:port][/database]?master=name with the hosts of the sentinels, or redis-cluster://[user:password@]host[:port],host[:port]; the last two with tls=true after the question mark for TLS. Required, except by pushq dev. Its password is a secret."`
	SentinelUser     string        `key:"sentinelUser" default:"" doc:"User at the sentinels, if they know users."`
	SentinelPassword Secret        `key:"sentinelPassword" default:"" doc:"Password at the sentinels, a secret. The one in redis.url is for the servers only."`
	TLS              RedisTLS      `key:"tls"`
	MaxConnectionAge time.Duration `key:"maxConnectionAge" default:"5m" unit:"duration" min:"1s" max:"24h" doc:"Greatest age of a connection to Redis or to its sentinels; then a new one takes its place, without a command being lost. So a server that the address does not lead to any more is left for good, even if it goes on answering."`
}

// RedisTLS names the files for connections to Redis and its sentinels.
type RedisTLS struct {
	CA   string `key:"ca" default:"" allowed:"file in PEM form" doc:"Authorities that may have signed the certificates of Redis and of its sentinels, instead of those that this host trusts. Read at start."`
	Cert string `key:"cert" default:"" allowed:"file in PEM form" doc:"Certificate that pushq shows to Redis, with those that lead to its authority; for a Redis with tls-auth-clients. Read again when the file changes."`
	Key  string `key:"key" default:"" allowed:"file in PEM form" doc:"Private key of redis.tls.cert."`
}

// HTTP is the side that accepts pushes.
type HTTP struct {
	Listen         string            `key:"listen" default:"127.0.0.1:8080" allowed:"host:port" doc:"Address of the API. A worker on its own serves /health and /metrics there. Port 0 takes any free port."`
	APIKeys        map[string]Secret `key:"apiKeys" default:"{}" example:"{\"shop\":\"KEY\"}" allowed:"names of 1 to 64 characters of A-Z a-z 0-9 . _ -; keys of at least 16 visible ASCII characters, longer than their names" doc:"Callers: name to key, a secret, which they send as Authorization: Bearer. Without keys pushq listens on loopback only, and answers only requests whose Host is localhost or a loopback address and that come from no page of another site (403)."`
	AllowAnonymous bool              `key:"allowAnonymous" default:"false" doc:"Allows listening on other addresses than loopback without API keys: everybody who reaches the address can then send pushes, whatever its name in Host is. Requests that browsers make for pages of other sites are refused all the same."`
	ShutdownDelay  time.Duration     `key:"shutdownDelay" default:"0s" unit:"duration" min:"0s" max:"5m" doc:"How long a process that accepts pushes goes on doing so after SIGTERM: /health/ready is 503 at once, answers end their connections, and after this time the port is closed. A load balancer needs it that looks at readiness now and then: twice the time between two looks is enough. Its workers stop at once."`
	TLS            HTTPTLS           `key:"tls"`
	MaxBodyBytes   int64             `key:"maxBodyBytes" default:"16384" unit:"bytes" min:"128" max:"1048576" doc:"Largest body of one push or notification; anything larger is answered with 413. A notification of more than 64 KiB is refused with 400 whatever is set here."`
	MaxBatchBytes  int64             `key:"maxBatchBytes" default:"33554432" unit:"bytes" min:"1048576" max:"268435456" doc:"Largest body of a batch of pushes; anything larger is answered with 413. A process takes up to 8 batches at a time, each of which may need two to three times this much memory, from when more than 16 KiB of its body has come until its answer is taken; of several API keys each has half of them. A body that comes, or an answer that is taken, with less than 256 KiB a second is cut off, except for ten seconds."`
}

// HTTPTLS names the files for HTTPS.
type HTTPTLS struct {
	CA   string `key:"ca" default:"" allowed:"file in PEM form" doc:"Authorities one of which must have signed a caller's certificate. With it nobody gets in without one, neither to the dashboard nor to /health and /metrics. Read at start."`
	Cert string `key:"cert" default:"" allowed:"file in PEM form" doc:"Certificate of the API, with those that lead to its authority. With it pushq speaks HTTPS only, TLS 1.2 or later. Read again when the file changes."`
	Key  string `key:"key" default:"" allowed:"file in PEM form" doc:"Private key of http.tls.cert."`
}

// Dashboard is asynq's dashboard, asynqmon, in processes that accept pushes.
type Dashboard struct {
	User     string `key:"user" default:"" allowed:"1 to 64 visible ASCII characters, no colon" doc:"Who may see the dashboard at /monitoring, by HTTP basic authentication. Set together with dashboard.password."`
	Password Secret `key:"password" default:"" allowed:"at least 12 visible ASCII characters" doc:"Password of dashboard.user, a secret. Without it the dashboard is shown on this host only, under a loopback address or localhost: set it if a proxy on this host passes requests on. API keys do not open the dashboard."`
	URL      string `key:"url" default:"" allowed:"http or https" doc:"Where browsers see the dashboard, if a proxy shows it under another address than pushq's own: https://ops.example.com/pushq/monitoring. The proxy hands what is below that address on to /monitoring of pushq, with whatever Host; pages link to the path here, and requests of pages of this address are the dashboard's own. Needs dashboard.password."`
	ReadOnly bool   `key:"readOnly" default:"false" doc:"Shows the dashboard without its actions: nothing can be run, archived, deleted or paused there."`
}

// Swrve is the channel to Swrve.
type Swrve struct {
	URL                      string                       `key:"url" default:"https://service.swrve.com/push" allowed:"http or https" doc:"Where Swrve accepts pushes. The parameters of a push are added to it, so it has no user, query or fragment."`
	DelayMillis              float64                      `key:"delayMillis" default:"4" unit:"ms" min:"0.1" max:"60000" doc:"Least time between the starts of two requests to Swrve, over all processes that share the Redis. Fractions are allowed and rounded up to whole microseconds: 3.42 is about 292 requests a second. Leave some 2 % to the provider's limit: a start may be up to 10 ms late, so that a second holds two or three more than the average."`
	AverageProcessingMillis  int                          `key:"averageProcessingMillis" default:"2000" unit:"ms" min:"1" max:"480000" doc:"How long Swrve takes for a request on average; only used to compute the concurrency."`
	Concurrency              int                          `key:"concurrency" default:"0" unit:"pushes" min:"0" max:"5000" doc:"Pushes in work at a time, for each process and queue. 0 computes it: averageProcessingMillis / delayMillis rounded up, 1 to 5000."`
	Pollers                  Pollers                      `key:"pollers" default:"auto" allowed:"auto, or 1 to 8" doc:"Loops that hand pushes out, for each process and queue; they share the concurrency. auto is 1, which is enough: pushes are fetched from Redis as many at a time as there is room for."`
	TimeoutMillis            int                          `key:"timeoutMillis" default:"15000" unit:"ms" min:"100" max:"480000" doc:"After this time a request to Swrve is given up, and may have been delivered nevertheless. At least averageProcessingMillis."`
	MaxRetryAfter            time.Duration                `key:"maxRetryAfter" default:"5m" unit:"duration" min:"1s" max:"24h" doc:"Longest time that a Retry-After of Swrve is obeyed."`
	RetryStatuses            []int                        `key:"retryStatuses" default:"[429,500,502,503,504]" example:"[429,503]" min:"300" max:"599" doc:"HTTP statuses of Swrve after which a push is tried again; any other from 400 on fails it, unless an HTML page says that it is not Swrve's."`
	RetryNetworkErrors       bool                         `key:"retryNetworkErrors" default:"true" doc:"Tries a push again after a network error or a timeout. The push may arrive twice that way; without it, it may never arrive."`
	OnRefused                string                       `key:"onRefused" default:"fail" allowed:"fail or wait" doc:"What becomes of a push when Swrve refuses pushq itself, with 401 or 403: a push key that was revoked, or an account. fail ends it FAILED, and all that follow it. wait pauses the channel: that push and all others wait, with no attempt counted, until the key is right and somebody runs pushq resume. One wrong push key is enough to stop the pushes of all prototypes then."`
	Test                     bool                         `key:"test" default:"false" doc:"Sends test=1 with each push."`
	MessagePrototypePushKeys map[string]map[string]Secret `key:"messagePrototypePushKeys" default:"{}" example:"{\"Hello\":{\"IOS\":\"KEY\",\"ANDROID\":\"KEY\"}}" allowed:"platforms IOS and ANDROID" doc:"Message prototype to platform to push key of Swrve, a secret. Names of prototypes keep case, blanks and dots."`
}

// What Swrve.OnRefused may be.
const (
	Fail = "fail"
	Wait = "wait"
)

// Push is what holds for pushes of every channel.
type Push struct {
	Retry           Retry     `key:"retry"`
	TimeZone        string    `key:"timeZone" default:"UTC" allowed:"IANA name" doc:"Time zone of a cronExpression whose push names none, for example Europe/Riga."`
	MaxScheduleDays int       `key:"maxScheduleDays" default:"366" unit:"days" min:"1" max:"3650" doc:"A push whose cronExpression first fires later than this is refused."`
	Retention       Retention `key:"retention"`
}

// Retry says how often and how soon a failed push is tried again.
type Retry struct {
	MaxAttempts    int `key:"maxAttempts" default:"3" unit:"attempts" min:"1" max:"1000" doc:"Attempts after which a push is given up, the first one included."`
	DelayInSeconds int `key:"delayInSeconds" default:"60" unit:"s" min:"1" max:"604800" doc:"Least time between a failed attempt and the next one."`
}

// Retention says how long the story of a push can be read after its end.
type Retention struct {
	Sent      time.Duration `key:"sent" default:"24h" unit:"duration" min:"1s" max:"87600h" doc:"How long a SENT push can be read, in whole seconds."`
	Dead      time.Duration `key:"dead" default:"720h" unit:"duration" min:"1s" max:"87600h" doc:"How long a FAILED, GIVEN_UP or CANCELLED push can be read, in whole seconds. At least push.retry.maxAttempts times push.retry.delayInSeconds, and swrve.maxRetryAfter; with fcm.enabled also fcm.retry.cap with fcm.retry.jitter, and fcm.maxRetryAfter."`
	Completed time.Duration `key:"completed" default:"1h" unit:"duration" min:"1s" max:"87600h" doc:"How long the list of SENT pushes (and asynq's own tools) show a SENT push, in whole seconds. At most push.retention.sent."`
}
