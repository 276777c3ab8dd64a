package template

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pushq/internal/breaker"
	"pushq/internal/exchange"
	"pushq/internal/tracing"
)

// Options of a Client.
type Options struct {
	URL     string        // of the service: what comes before /api/v1/templates
	Timeout time.Duration // of one request, to the last byte of the answer
	Tries   int           // requests for one template, the first included
	Backoff time.Duration // before the second try; doubled for each further one
	// Breaker is asked before each request, and told what came of it. Nil allows all.
	Breaker *breaker.Breaker
	// OnRequest is called for each request with what came of it. It may be nil.
	OnRequest func(Outcome)
}

// An Outcome is what came of a request.
type Outcome string

// The outcomes.
const (
	Answered    Outcome = "ok"          // with a template
	NotThere    Outcome = "not_found"   // there is no such template
	NotUsable   Outcome = "unusable"    // answered with what is of no use
	NotThereNow Outcome = "unavailable" // no answer of the service, or one that may be better later
	Abandoned   Outcome = "abandoned"   // nobody waited any more
)

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{Answered, NotThere, NotUsable, NotThereNow, Abandoned}
}

const (
	maxAnswer     = 1 << 20
	maxHeaderSize = 32 << 10
	maxBackoff    = 5 * time.Second
	tellTimeout   = time.Second // for the breaker
)

// Client asks the template service. It is safe for concurrent use.
type Client struct {
	Options
	http *http.Client
}

// NewClient returns a client; nothing is asked yet.
func NewClient(options Options) *Client {
	return &Client{Options: options, http: &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			MaxResponseHeaderBytes: maxHeaderSize,
			// On a connection that was used before, net/http may repeat a request, which
			// the breaker has not permitted. The cache leaves little to save.
			DisableKeepAlives: true,
		},
		Timeout: options.Timeout,
		// A redirect is an answer like any other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Get asks for a template: GET /api/v1/templates/{code}?language=… . What may pass is
// tried again. The error is an *Unusable, an *Unavailable, a *Refusal, that of the breaker
// (*breaker.OpenError, *breaker.LaterError, or Redis'), or the context's.
func (c *Client) Get(ctx context.Context, code, language string) (Template, error) {
	var aboutThis error // an earlier try has shown
	for try := 1; ; try++ {
		template, err := c.permitted(ctx, code, language)
		var unavailable *Unavailable
		switch {
		case !errors.As(err, &unavailable):
			if aboutThis != nil && waits(err) {
				err = aboutThis
			}
			return template, err
		case try >= c.Tries:
			return template, err
		case unavailable.aboutThis:
			aboutThis = err
		}
		select {
		case <-time.After(c.backoff(try)):
		case <-ctx.Done():
			if cancelled(ctx) {
				return Template{}, context.Cause(ctx)
			}
			return Template{}, err
		}
	}
}

// waits reports whether the breaker lets the caller wait.
func waits(err error) bool {
	var open *breaker.OpenError
	var later *breaker.LaterError
	return errors.As(err, &open) || errors.As(err, &later)
}

// backoff is the time after the given try. Its jitter keeps processes apart that have
// failed at the same time.
func (c *Client) backoff(try int) time.Duration {
	backoff := c.Backoff
	for range try - 1 {
		backoff = min(2*backoff, maxBackoff)
	}
	return backoff + rand.N(backoff/2+1)
}

// An Unusable error says that the service has answered, and that the same question will
// have no better answer soon.
type Unusable struct {
	// Gone means that the service has no such template.
	Gone   bool
	Reason string
}

func (e *Unusable) Error() string { return "the template service " + e.Reason }

// An Unavailable error says that the service has not done what it can, and may do so
// later.
type Unavailable struct {
	// Alarm means that somebody has to mend something first: another server answers in the
	// service's place. No template could be had then.
	Alarm     bool
	busy      bool // it works, and has too many requests
	aboutThis bool // it works for other templates
	cause     error
}

func (e *Unavailable) Error() string {
	return "the template service is not available: " + e.cause.Error()
}
func (e *Unavailable) Unwrap() error { return e.cause }

// A Refusal says that the service takes no question of pushq, whatever it is about:
// somebody has to mend the configuration.
type Refusal struct{ Reason string }

func (e *Refusal) Error() string { return "the template service refuses pushq itself: " + e.Reason }

// permitted makes one request, if the breaker allows it.
func (c *Client) permitted(ctx context.Context, code, language string) (Template, error) {
	if c.Breaker == nil {
		return c.request(ctx, code, language)
	}
	permit, err := c.Breaker.Allow(ctx, language+" "+code)
	if err != nil {
		return Template{}, err
	}
	reported := false
	report := func(result breaker.Result) {
		reported = true
		tell, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
		defer cancel()
		// What Redis does not take, the breaker tells it again later.
		_ = permit.Report(tell, result)
	}
	defer func() {
		if !reported {
			report(breaker.Void) // after a panic
		}
	}()
	template, err := c.request(ctx, code, language)
	report(resultOf(err))
	return template, c.judged(err, permit)
}

// judged is the error with what the breaker knows. Nobody's attempts pay for finding out
// that the service works for nobody. If it works for others, it is about this template.
func (c *Client) judged(err error, permit *breaker.Permit) error {
	var unavailable *Unavailable
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal) && permit.Suspect:
		return &Unavailable{Alarm: true, aboutThis: true, cause: errors.New(refusal.Reason)}
	case errors.As(err, &unavailable) && permit.Suspect:
		unavailable.aboutThis = true
	case errors.As(err, &unavailable) && permit.Probe && resultOf(err) == breaker.Bad:
		return &breaker.OpenError{Service: c.Breaker.Service, After: c.Breaker.OpenFor}
	}
	return err
}

func resultOf(err error) breaker.Result {
	var unusable *Unusable
	var unavailable *Unavailable
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return breaker.Refused
	case err == nil, errors.As(err, &unusable):
		return breaker.Good
	case errors.As(err, &unavailable) && !unavailable.busy:
		return breaker.Bad
	default: // the caller has gone away
		return breaker.Void
	}
}

// request makes one request.
func (c *Client) request(ctx context.Context, code, language string) (Template, error) {
	template, err := c.ask(ctx, code, language)
	if c.OnRequest != nil {
		c.OnRequest(outcomeOf(err))
	}
	return template, err
}

func outcomeOf(err error) Outcome {
	var unusable *Unusable
	var unavailable *Unavailable
	var refusal *Refusal
	switch {
	case err == nil:
		return Answered
	case errors.As(err, &unusable) && unusable.Gone:
		return NotThere
	case errors.As(err, &unusable):
		return NotUsable
	case errors.As(err, &unavailable), errors.As(err, &refusal):
		return NotThereNow
	default:
		return Abandoned
	}
}

func (c *Client) ask(ctx context.Context, code, language string) (Template, error) {
	if code == "." || code == ".." { // means another path
		return Template{}, gone(code, language)
	}
	address := strings.TrimSuffix(c.URL, "/") + "/api/v1/templates/" + url.PathEscape(code) + "?" + url.Values{"language": {language}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Template{}, &Unusable{Reason: "cannot be asked: template.url: " + withoutAddress(err).Error()}
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pushq")
	answered := tracing.Request(request)
	response, err := c.http.Do(request)
	if err != nil {
		answered(0)
		return Template{}, noAnswer(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, cut := exchange.ReadBody(response, maxAnswer)
	answered(response.StatusCode)
	if cut && cancelled(ctx) { // by the caller
		return Template{}, context.Cause(ctx)
	}
	return judge(code, language, exchange.Answer{Status: response.StatusCode, Header: response.Header, Body: body, Cut: cut})
}

// judge is what an answer says of the template. Only an answer that the service itself can
// have given does.
func judge(code, language string, answer exchange.Answer) (Template, error) {
	statusLine := fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status))
	switch status := answer.Status; {
	case status == http.StatusTooManyRequests, exchange.MayPass(status):
		return Template{}, &Unavailable{busy: status == http.StatusTooManyRequests, cause: errors.New(statusLine)}
	case status == http.StatusOK:
		return decode(code, answer)
	case refusesPushq(status):
		return Template{}, &Refusal{"it answered " + statusLine}
	case status < http.StatusBadRequest:
		return Template{}, &Unavailable{Alarm: true, cause: fmt.Errorf("it answered %s", statusLine)}
	case !refusal(answer):
		return Template{}, foreign(answer)
	case status == http.StatusNotFound, status == http.StatusGone:
		return Template{}, gone(code, language)
	default:
		return Template{}, &Unusable{Reason: "answered " + statusLine}
	}
}

func gone(code, language string) error {
	return &Unusable{Gone: true, Reason: fmt.Sprintf("has no template %s in language %s", code, language)}
}

// refusal reports whether an answer is a refusal of the service's, {"error":…}. Proxies in
// front of a service that is being restarted have pages, texts, other JSON, and 404s
// without a body.
func refusal(answer exchange.Answer) bool {
	object, isObject := answer.Object()
	return isObject && object.Says("error")
}

// foreign says that somebody else has answered in the service's place, or has broken its
// answer off.
func foreign(answer exchange.Answer) error {
	return &Unavailable{Alarm: !answer.Cut, cause: errors.New(answer.Foreign("the template service's, see template.url"))}
}

// refusesPushq reports whether an answer with this status would be the same for any other
// template.
func refusesPushq(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return true
	default:
		return status >= 300 && status < 400
	}
}

// noAnswer says why there is none: a caller that has gone away is not the service's
// fault.
func noAnswer(ctx context.Context, err error) error {
	if cancelled(ctx) {
		return context.Cause(ctx)
	}
	return &Unavailable{cause: withoutAddress(err)}
}

func cancelled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// withoutAddress leaves the service's address out, which may have a password.
func withoutAddress(err error) error {
	var addressed *url.Error
	if errors.As(err, &addressed) {
		return addressed.Err
	}
	return err
}
