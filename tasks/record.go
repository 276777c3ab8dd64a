package tasks

// A Record is the durable story of a push: its content, its attempts and its
// end. It is written by scripts only (Records), as one JSON string per push,
// and outlives the asynq task.
type Record struct {
	Push     Push      `json:"push"`
	Attempts []Attempt `json:"attempts,omitempty"`

	// End is empty while the push is under way, else SENT, FAILED, GIVEN_UP or
	// CANCELLED.
	End     State  `json:"end,omitempty"`
	EndedAt Millis `json:"endedAt,omitempty"`

	// BudgetFrom is the number of attempts that no longer count towards
	// push.retry.maxAttempts, because somebody has requeued the push since.
	BudgetFrom int `json:"budgetFrom,omitempty"`
	// Budget, if not zero, replaces push.retry.maxAttempts: a push requeued
	// after its end with asynq's own tools gets one more attempt.
	Budget int `json:"budget,omitempty"`
}

// wellFormed reports whether the fields are as pushq writes them. The scripts take any other
// record for none, and write over it (record.lua: is_record).
func (r *Record) wellFormed() bool {
	if r.End != "" && !r.End.Ended() || r.BudgetFrom < 0 || r.BudgetFrom > len(r.Attempts) {
		return false
	}
	for _, attempt := range r.Attempts {
		switch attempt.Status {
		case AttemptOK, AttemptError:
		case AttemptInProcess:
			if attempt.StartedAt == 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (r *Record) delivered() bool {
	for _, attempt := range r.Attempts {
		if attempt.Status == AttemptOK {
			return true
		}
	}
	return false
}

// Counted returns how many attempts count towards push.retry.maxAttempts (begin.lua: used).
func (r *Record) Counted() int {
	count := 0
	for _, attempt := range r.Attempts[min(r.BudgetFrom, len(r.Attempts)):] {
		if !attempt.Uncounted && !attempt.Probe {
			count++
		}
	}
	return count
}

// retriedSince reports whether somebody has requeued the push after its last
// attempt.
func (r *Record) retriedSince() bool {
	return r.BudgetFrom > 0 && r.BudgetFrom == len(r.Attempts)
}

// AttemptStatus is where an attempt stands.
type AttemptStatus string

// An attempt is in process from shortly before its request until the record
// has its outcome.
const (
	AttemptInProcess AttemptStatus = "IN_PROCESS"
	AttemptOK        AttemptStatus = "OK"
	AttemptError     AttemptStatus = "ERROR"
)

// ErrorType says where an attempt failed.
type ErrorType string

// The types of errors. Every channel has its own first one.
const (
	ErrorSwrve               ErrorType = "SWRVE"                 // the provider refused
	ErrorMessagePrototypeKey ErrorType = "MESSAGE_PROTOTYPE_KEY" // no push key is configured
	ErrorFCM                 ErrorType = "FCM"                   // Firebase refused
	ErrorTemplate            ErrorType = "TEMPLATE"              // there is no text to send
	ErrorOther               ErrorType = "OTHER"                 // everything else
)

// ErrorTypes lists every type.
func ErrorTypes() []ErrorType {
	return []ErrorType{ErrorSwrve, ErrorMessagePrototypeKey, ErrorFCM, ErrorTemplate, ErrorOther}
}

// An Attempt is one try to deliver. It is stored and never overwritten by a
// later one.
type Attempt struct {
	// Token names the handler run that made the attempt.
	Token     string        `json:"token,omitempty"`
	Status    AttemptStatus `json:"status"`
	StartedAt Millis        `json:"startedAt,omitempty"`
	// Millis is how long the request took; 0 if none could be made, absent
	// while it is not known.
	Millis *int64 `json:"millis,omitempty"`

	ErrorType    ErrorType `json:"errorType,omitempty"`
	ErrorCode    int       `json:"errorCode,omitempty"` // the provider's status, if it gave one
	ErrorMessage string    `json:"errorMessage,omitempty"`
	StackTrace   string    `json:"stackTrace,omitempty"`

	// MaybeDelivered means that the provider may have delivered the push
	// although the attempt is not OK.
	MaybeDelivered bool `json:"maybeDelivered,omitempty"`
	// Replacement is the token that the provider has for the recipient from now on, "" if it
	// has named none.
	Replacement string `json:"replacement,omitempty"`
	// Uncounted means that the attempt was withdrawn before its request and
	// does not count towards push.retry.maxAttempts.
	Uncounted bool `json:"uncounted,omitempty"`
	// Probe means that the attempt was a request that showed that the provider is still
	// dead, or refuses pushq itself. It does not count either. All other pushes wait for such a
	// request behind a circuit breaker; with swrve.onRefused: wait, where there is none, it is the
	// refusal that paused the channel.
	Probe bool `json:"probe,omitempty"`
}
