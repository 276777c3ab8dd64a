package testenv

import (
	"bytes"
	"sync"
)

// output keeps the lines of both streams of a process in the order in which
// they began to arrive.
type output struct {
	mutex sync.Mutex
	all   []*outputLine
}

type outputLine struct {
	text          string
	standardError bool
	complete      bool // its end has arrived
}

func anyOutput(outputLine) bool        { return true }
func standardOutput(l outputLine) bool { return !l.standardError }
func standardError(l outputLine) bool  { return l.standardError }

func (o *output) texts(wanted func(outputLine) bool) []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	var texts []string
	for _, line := range o.all {
		if wanted(*line) {
			texts = append(texts, line.text)
		}
	}
	return texts
}

func (o *output) find(wanted func(outputLine) bool) (outputLine, bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, line := range o.all {
		if wanted(*line) {
			return *line, true
		}
	}
	return outputLine{}, false
}

// outputStream is the writer for one of the two streams.
type outputStream struct {
	output        *output
	standardError bool
	last          *outputLine
}

func (s *outputStream) Write(written []byte) (int, error) {
	s.output.mutex.Lock()
	defer s.output.mutex.Unlock()
	for part := range bytes.Lines(written) {
		if s.last == nil || s.last.complete {
			s.last = &outputLine{standardError: s.standardError}
			s.output.all = append(s.output.all, s.last)
		}
		text, complete := bytes.CutSuffix(part, []byte("\n"))
		s.last.text += string(text)
		s.last.complete = complete
	}
	return len(written), nil
}
