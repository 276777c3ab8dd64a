package config

import "time"

// Template is the service that has the texts.
type Template struct {
	URL           string        `key:"url" default:"" allowed:"http or https" doc:"Template service, up to what comes before /api/v1/templates/{template_code}?language=…, for which pushq asks. Required with fcm.enabled."`
	TimeoutMillis int           `key:"timeoutMillis" default:"5000" unit:"ms" min:"100" max:"60000" doc:"Longest time of one request to it. See template.tries for all of them."`
	Tries         int           `key:"tries" default:"3" unit:"requests" min:"1" max:"10" doc:"Requests for one template, the first included, before the attempt of the push fails. There are 200 ms between the first two, twice as much each further time, at most 5 s, and each time up to a half more, at random. Everything together may take 50 s, so that template.tries times template.timeoutMillis must not be more."`
	Fresh         time.Duration `key:"fresh" default:"1m" unit:"duration" min:"0s" max:"24h" doc:"How long a process uses a template without asking for it again: a change of a template takes this long until every push has it."`
	Stale         time.Duration `key:"stale" default:"1h" unit:"duration" min:"0s" max:"168h" doc:"How much longer it uses the template while the service cannot be asked. What the service says it has no more, by a 404 that is JSON or empty, is not used."`
}
