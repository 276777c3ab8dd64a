package swrvesim

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// outcome is what becomes of a request.
type outcome struct {
	ending ending
	// immediate leaves out the latency.
	immediate bool
	// status is the HTTP status; answer is the body.
	status int
	answer answer
	shape  shape
	// echo puts the request's fields into the answer's message.
	echo bool
	// retryAfter is sent as the Retry-After header, in seconds, unless empty.
	retryAfter string
	delivered  bool
	// times limits the outcome to the first requests of each user; later ones are
	// delivered. 0 means always.
	times int
}

type ending int

const (
	answers ending = iota
	hangs
	resets
)

// shape is what the body of an answer is.
type shape int

const (
	asJSON  shape = iota
	asPage        // HTML
	asError       // JSON with an error instead of code and message
	asText        // JSON with the code as a text
	empty
	cut // JSON that breaks off
)

// shapes are those that a prefix asks for.
var shapes = map[string]shape{"html": asPage, "error": asError, "text": asText, "empty": empty, "cut": cut}

// answer is the body of every answer to POST /push, unless another shape is asked for.
type answer struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

var delivered = outcome{status: http.StatusOK, answer: answerFor(http.StatusOK), delivered: true}

func refused(status int, message string) outcome {
	return outcome{status: status, answer: answer{status, message}, immediate: true}
}

// answerFor gives known statuses the message that Swrve is known to send.
func answerFor(status int) answer {
	switch status {
	case http.StatusBadRequest:
		return answer{status, "Rejected, User Has Changed Token"}
	case http.StatusTooManyRequests:
		return answer{status, "Rate Limit Exceeded"}
	}
	if text := http.StatusText(status); text != "" {
		return answer{status, text}
	}
	return answer{status, fmt.Sprintf("Status %d", status)}
}

var script = regexp.MustCompile(
	`^(ok-then-)?(?:([2-5]\d\d)(?:after(\d{1,5}))?|(html|error|text|empty|cut)([2-5]\d\d)|body([2-5]\d\d)|echo([2-5]\d\d)|(hang)|(reset))(?:x([1-9]\d{0,4}))?-`)

// outcomeFor reads the outcome that a user asks for by its prefix:
//
//	NNN-         that status from 200 to 599, in HTTP and in the body; a 2xx delivers, a
//	             3xx points back to /push
//	NNNafterS-   the same with Retry-After: S (seconds); once, unless xM follows
//	htmlNNN-     that status with an HTML page, as from a proxy
//	errorNNN-    that status with {"error":…}, as from a gateway
//	cutNNN-      that status with JSON that breaks off
//	emptyNNN-    that status without a body; a 2xx delivers
//	textNNN-     HTTP 200 with that code in the body, as a text
//	bodyNNN-     HTTP 200 with that code in the body
//	echoNNN-     that status, with the request's fields in the message, push_key included
//	hang-        no answer until the caller goes away or the simulator stops; no latency
//	reset-       the connection is reset instead of an answer
//	ok-then-…-   any of the above, but the push is delivered first
//	…xM-         only the first M requests of this very user, then 200 OK:
//	             500x2-ann, 429after1x3-ann, hangx1-ann, ok-then-resetx1-ann
//
// Any other user is delivered.
func outcomeFor(user string) outcome {
	match := script.FindStringSubmatch(user)
	if match == nil {
		return delivered
	}
	okThen, status, after, shape, inShape, body, echo, hang, reset, times := match[1], match[2], match[3], match[4], match[5], match[6], match[7], match[8], match[9], match[10]

	var asked outcome
	switch {
	case status != "":
		asked.status, _ = strconv.Atoi(status)
		asked.answer = answerFor(asked.status)
		asked.retryAfter = after
		if after != "" {
			asked.times = 1
		}
	case shape != "":
		asked.status, _ = strconv.Atoi(inShape)
		asked.answer = answerFor(asked.status)
		asked.shape = shapes[shape]
		if asked.shape == asText {
			asked.status = http.StatusOK
		}
	case body != "":
		code, _ := strconv.Atoi(body)
		asked.status = http.StatusOK
		asked.answer = answerFor(code)
	case echo != "":
		asked.status, _ = strconv.Atoi(echo)
		asked.answer = answerFor(asked.status)
		asked.echo = true
	case hang != "":
		asked.ending = hangs
	case reset != "":
		asked.ending = resets
	}
	said := asked.shape == asJSON || asked.shape == asText || asked.shape == empty // by Swrve itself
	asked.delivered = okThen != "" || asked.ending == answers && said && asked.answer.Code < 300
	if times != "" {
		asked.times, _ = strconv.Atoi(times)
	}
	return asked
}
