package tasks

import (
	"strings"

	"github.com/hibiken/asynq"
)

// A State is what a push is shown to be in.
type State string

// The states of a push. The first five are of a push that is under way.
const (
	Scheduled State = "SCHEDULED" // waits for its window
	Pending   State = "PENDING"   // ready, waits for a worker
	InMemory  State = "IN_MEMORY" // a worker holds it
	Retry     State = "RETRY"     // an attempt failed, the next one will come
	Sent      State = "SENT"      // the provider answered 2xx
	GivenUp   State = "GIVEN_UP"  // all attempts failed
	Failed    State = "FAILED"    // an error that allows no retry
	Cancelled State = "CANCELLED" // somebody stopped it
)

// States lists every state, in the order of a push's life.
func States() []State {
	return []State{Scheduled, Pending, InMemory, Retry, Sent, GivenUp, Failed, Cancelled}
}

// Ended reports whether the push will not be sent any more, unless an operator
// retries it.
func (s State) Ended() bool { return s == Sent || s == GivenUp || s == Failed || s == Cancelled }

// The texts with which the handler's answers begin. asynq keeps an answer's
// text with the task, and StateOf reads the reason for the task's place in the
// queue from it.
const (
	DeferredPrefix = "deferred: "
	WindowPrefix   = DeferredPrefix + "window"
	FailedPrefix   = "failed: "
	GivenUpPrefix  = "given up: "
)

// StateOf is the only place where asynq's state of a task and the record of
// the push become the state that users see. Either may be nil; with both nil
// there is no such push.
//
// An OK attempt makes a push SENT, whatever asynq says: asynq may have lost the
// worker's answer. Otherwise the task, while it exists, is the truth, and the
// record afterwards.
func StateOf(task *asynq.TaskInfo, record *Record) (State, bool) {
	switch {
	case record != nil && record.delivered():
		return Sent, true
	case task != nil:
		return taskState(task, record), true
	case record == nil:
		return "", false
	case record.End != "":
		return record.End, true
	default:
		// A task without an end leaves the queue only by an operator's hand.
		return Cancelled, true
	}
}

func taskState(task *asynq.TaskInfo, record *Record) State {
	switch task.State {
	case asynq.TaskStateScheduled:
		return Scheduled
	case asynq.TaskStateActive:
		return InMemory
	case asynq.TaskStateRetry:
		return retryState(task.LastErr, record)
	case asynq.TaskStateArchived:
		return archivedState(task.LastErr, record)
	case asynq.TaskStateCompleted:
		return Sent
	default:
		return Pending
	}
}

func retryState(lastError string, record *Record) State {
	switch {
	case record != nil && record.End == Cancelled:
		// A worker had it in hand when it was cancelled, and put it back. Begin refuses it.
		return Cancelled
	case strings.HasPrefix(lastError, WindowPrefix):
		return Scheduled
	case strings.HasPrefix(lastError, DeferredPrefix):
		return Pending
	default:
		return Retry
	}
}

func archivedState(lastError string, record *Record) State {
	switch {
	case record != nil && record.End == Cancelled:
		return Cancelled
	case record != nil && record.End == "" && record.retriedSince():
		// The text is left over from before the retry.
		return Cancelled
	case strings.HasPrefix(lastError, GivenUpPrefix):
		return GivenUp
	case strings.HasPrefix(lastError, FailedPrefix):
		return Failed
	case record != nil && record.End != "":
		return record.End
	default:
		return Cancelled
	}
}
