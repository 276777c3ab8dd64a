package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressInterval is the time between two lines where there is no terminal.
const progressInterval = 10 * time.Second

// progress shows how a long command gets on: a moving count on a terminal, else
// a line now and then.
type progress struct {
	out  io.Writer
	bar  *progressbar.ProgressBar // nil without a terminal
	last time.Time
}

// isTerminal reports whether somebody may be watching.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func newProgress(out io.Writer, what string) *progress {
	p := &progress{out: out, last: time.Now()}
	if isTerminal(out) {
		const unknownTotal = -1
		p.bar = progressbar.NewOptions(unknownTotal, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("pushes"),
			progressbar.OptionClearOnFinish())
	}
	return p
}

// show takes the number of pushes so far, and what a line says of them.
func (p *progress) show(done int, line string) {
	switch {
	case p.bar != nil:
		_ = p.bar.Set(done)
	case time.Since(p.last) >= progressInterval:
		fmt.Fprintln(p.out, line)
		p.last = time.Now()
	}
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
