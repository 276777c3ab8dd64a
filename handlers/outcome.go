package handlers

import (
	"fmt"
	"strings"
	"time"

	"pushq/tasks"
)

// A Verdict says what an attempt means for its push.
type Verdict int

// The verdicts.
const (
	Delivered Verdict = iota // the provider took the push
	Retryable                // another attempt may succeed
	Permanent                // no attempt will succeed
	Postponed                // there was no request, and none is counted: the push waits RetryAfter
)

// An Outcome is what came of an attempt. A provider makes it; Delivery alone
// decides what follows from it.
type Outcome struct {
	Verdict Verdict

	// What the record shows of an attempt that did not deliver.
	ErrorType      tasks.ErrorType
	ErrorCode      int // the provider's status, 0 if it gave none
	ErrorMessage   string
	StackTrace     string
	MaybeDelivered bool

	// Throttled means that the provider found the requests too many, of all pushes as far as it
	// says. RetryAfter is how long it asked to wait, 0 if it did not.
	Throttled  bool
	RetryAfter time.Duration

	// ServiceFailed means that the service is in trouble, whoever the push is for: it
	// counts for the circuit breaker.
	ServiceFailed bool
	// Inconclusive means that the answer shows neither that the service works nor that it does
	// not, so that it does not count for the circuit breaker.
	Inconclusive bool
	// RefusesPushq means that the provider takes no request of ours, whoever it is for: wrong
	// credentials, or a wrong address. It is about no push: behind a circuit breaker, and where
	// a refusal pauses the channel (Options.Pause), the push waits with all others, whatever
	// the verdict. Elsewhere the verdict holds.
	RefusesPushq bool
	// DropToken means that nothing will ever reach this recipient's token.
	DropToken bool
	// Replacement is the recipient's new token, "" if there is none: the provider has
	// delivered to the old one, and asks for the new one from now on.
	Replacement string
	// Alarm means that somebody has to mend the configuration.
	Alarm bool
}

// text is how asynq's tools show the outcome.
func (o Outcome) text() string {
	text := string(o.ErrorType)
	if o.ErrorCode != 0 {
		text += fmt.Sprintf(" %d", o.ErrorCode)
	}
	if o.ErrorMessage != "" {
		text += ": " + o.ErrorMessage
	}
	return text
}

const (
	maxMessage    = 1 << 10 // bytes of a provider's message that are kept
	maxStackTrace = 8 << 10
)

// cut returns at most limit bytes of text, valid UTF-8 and without NUL, which
// some stores refuse.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
