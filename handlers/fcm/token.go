package fcm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"pushq/internal/exchange"
	"pushq/internal/metrics"
	"pushq/internal/serviceaccount"
)

const (
	messagingScope = "https://www.googleapis.com/auth/firebase.messaging"

	// tokenTimeout is the longest that fetching an access token takes.
	tokenTimeout = 5 * time.Second
	// usualLife is that of a token whose life is not told.
	usualLife = time.Hour
	// longestLife is the most that is believed of a token.
	longestLife = 24 * time.Hour
	// A new token is fetched after renewAfter of the old one's life. The old one is used
	// until endMargin before its end, or for shortUse of its life if that is more.
	renewAfter = 0.8
	endMargin  = 10 * time.Second
	shortUse   = 0.95

	maxTokenAnswer = 64 << 10

	// failurePause keeps the error of a fetch for those who come after it.
	failurePause = time.Second
	// renewPause is the time between attempts to renew a token that is still good.
	renewPause = 10 * time.Second
)

// An accessToken authorises requests.
type accessToken struct {
	value     string
	renewAt   time.Time
	goodUntil time.Time
}

// A tokenSource has the access token of a service account: one for all requests, fetched
// by one request at a time, and renewed in the background while the old one is good. It
// is safe for concurrent use.
type tokenSource struct {
	account   *jwt.Config
	transport *http.Transport
	timeout   time.Duration
	log       *slog.Logger
	now       func() time.Time
	onFetch   func(outcome string) // may be nil

	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mutex    sync.Mutex
	token    accessToken // the latest, or none
	fetching *fetch      // under way, or nil
	failed   error       // of the latest fetch, or nil
	failedAt time.Time
}

// A fetch is one request for a token.
type fetch struct {
	done  chan struct{}
	token accessToken // with err, set when done is closed
	err   error
}

func newTokenSource(account serviceaccount.Account, log *slog.Logger) *tokenSource {
	life, end := context.WithCancel(context.Background())
	return &tokenSource{
		account: &jwt.Config{
			Email:        account.ClientEmail,
			PrivateKey:   []byte(account.PrivateKey),
			PrivateKeyID: account.PrivateKeyID,
			Scopes:       []string{messagingScope},
			TokenURL:     account.TokenURI,
		},
		transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: tokenTimeout},
		timeout:   tokenTimeout,
		log:       log,
		now:       time.Now,
		life:      life,
		end:       end,
	}
}

// close gives up a fetch that is under way.
func (s *tokenSource) close() {
	s.mutex.Lock()
	s.end()
	s.mutex.Unlock()
	s.running.Wait()
	s.transport.CloseIdleConnections()
}

// get returns a good token. It waits only if there is none: then everybody waits for the
// same fetch. Its error is a *tokenError.
func (s *tokenSource) get() (string, error) {
	s.mutex.Lock()
	now := s.now()
	if now.Before(s.token.goodUntil) {
		defer s.mutex.Unlock()
		if !now.Before(s.token.renewAt) && now.Sub(s.failedAt) >= renewPause {
			s.start()
		}
		return s.token.value, nil
	}
	if s.failed != nil && now.Sub(s.failedAt) < failurePause {
		defer s.mutex.Unlock()
		return "", s.failed
	}
	waiting := s.start()
	s.mutex.Unlock()
	<-waiting.done
	return waiting.token.value, waiting.err
}

// renew returns another token than the one that was refused. Those who were refused with
// the same one share a fetch.
func (s *tokenSource) renew(refused string) (string, error) {
	s.mutex.Lock()
	if s.token.value == refused {
		s.token = accessToken{}
	}
	s.mutex.Unlock()
	return s.get()
}

// start begins a fetch, if none is under way. The mutex is held.
func (s *tokenSource) start() *fetch {
	if s.fetching != nil {
		return s.fetching
	}
	started := &fetch{done: make(chan struct{})}
	if s.life.Err() != nil {
		started.err = &tokenError{text: "stopped"}
		close(started.done)
		return started
	}
	s.fetching = started
	s.running.Go(func() { s.finish(started) })
	return started
}

func (s *tokenSource) finish(started *fetch) {
	started.token, started.err = s.fetch()
	s.mutex.Lock()
	s.fetching, s.failed = nil, started.err
	if started.err == nil {
		s.token = started.token
	} else {
		s.failedAt = s.now()
	}
	goodUntil := s.token.goodUntil
	s.mutex.Unlock()
	close(started.done)
	if s.onFetch != nil && s.life.Err() == nil {
		s.onFetch(fetchOutcome(started.err))
	}
	if started.err != nil && s.life.Err() == nil && s.now().Before(goodUntil) {
		s.log.Warn("the access token for Firebase was not renewed, trying again",
			slog.Time("goodUntil", goodUntil), slog.Any("error", started.err))
	}
}

func fetchOutcome(err error) string {
	var failed *tokenError
	switch {
	case err == nil:
		return metrics.TokenFetched
	case errors.As(err, &failed) && failed.refused:
		return metrics.TokenRefused
	default:
		return metrics.TokenNotFetched
	}
}

// fetch asks the token endpoint. The library signs the assertion and makes the request; what
// the answer says is read here, as that of every service.
func (s *tokenSource) fetch() (accessToken, error) {
	ctx, cancel := context.WithTimeout(s.life, s.timeout)
	defer cancel()
	transport := &answerTransport{ctx: ctx, next: s.transport}
	client := &http.Client{
		Transport: transport,
		// The signed assertion is for nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	_, err := s.account.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
	switch answer := transport.answer; {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return accessToken{}, &tokenError{text: fmt.Sprintf("timeout after %s", s.timeout)}
	case answer == nil:
		return accessToken{}, &tokenError{text: err.Error()}
	case !exchange.Success(answer.Status):
		return accessToken{}, explain(*answer)
	default:
		return s.read(*answer)
	}
}

// read finds the access token in an answer of 2xx.
func (s *tokenSource) read(answer exchange.Answer) (accessToken, error) {
	body, _ := answer.Object()
	value := body.Text("access_token")
	switch {
	case value == "":
		return accessToken{}, &tokenError{text: fmt.Sprintf("the token endpoint answered %d without an access token", answer.Status)}
	case !fitsHeader(value):
		return accessToken{}, &tokenError{text: "the token endpoint answered with an access token that cannot be in a header"}
	}
	life, now := lifeOf(body), s.now()
	return accessToken{
		value:     value,
		renewAt:   now.Add(part(life, renewAfter)),
		goodUntil: now.Add(max(life-endMargin, part(life, shortUse))),
	}, nil
}

// fitsHeader reports whether a token can be sent: one with line breaks, blanks or other
// characters than ASCII's is no token (RFC 6750, section 2.1), and no request could be made
// with it.
func fitsHeader(token string) bool {
	return !strings.ContainsFunc(token, func(char rune) bool { return char <= ' ' || char > '~' })
}

// lifeOf is how long a token is good: so many seconds, a number or a text that has one.
func lifeOf(body exchange.Object) time.Duration {
	text := body.Text("expires_in")
	if number, isNumber := body.Number("expires_in"); isNumber {
		text = number.String()
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !(seconds > 0) {
		return usualLife
	}
	return time.Duration(min(seconds, longestLife.Seconds()) * float64(time.Second))
}

func part(of time.Duration, share float64) time.Duration { return time.Duration(share * float64(of)) }

// answerTransport ends requests with a context of its own, as the library makes them
// without one, and keeps the answer.
type answerTransport struct {
	ctx    context.Context
	next   http.RoundTripper
	answer *exchange.Answer // nil if there was none
}

func (t *answerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request.WithContext(t.ctx))
	if err != nil {
		return nil, err
	}
	body, cut := exchange.ReadBody(response, maxTokenAnswer)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	t.answer = &exchange.Answer{Status: response.StatusCode, Header: response.Header, Body: body, Cut: cut}
	return response, nil
}

// A tokenError says why there is no access token.
type tokenError struct {
	text string
	// refused says that the endpoint does not take the service account.
	refused bool
}

func (e *tokenError) Error() string { return "no access token: " + e.text }

// explain says why an answer has no token. What is not in the endpoint's own words refuses
// nobody: it may be a proxy's.
func explain(answer exchange.Answer) *tokenError {
	body, _ := answer.Object()
	said := body.Text("error")
	if said == "" {
		return &tokenError{text: fmt.Sprintf("the token endpoint answered %d", answer.Status)}
	}
	failure := &tokenError{text: fmt.Sprintf("the token endpoint answered %d, %s: %s", answer.Status, said, body.Text("error_description"))}
	if answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests {
		failure.refused = true
		failure.text += " (is the key of fcm.serviceAccount still valid, and this host's clock right?)"
	}
	return failure
}
