package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// loadProgress shows a bar for each phase, on a terminal only.
type loadProgress struct {
	out      io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
}

func newLoadProgress(out io.Writer) *loadProgress {
	return &loadProgress{out: out, terminal: isTerminal(out)}
}

func (p *loadProgress) Begin(phase string, steps int) {
	p.end()
	p.bar = progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(p.out),
		progressbar.OptionSetVisibility(p.terminal),
		progressbar.OptionSetDescription(phase),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
}

func (p *loadProgress) Step() { _ = p.bar.Add(1) } // it only draws

// end leaves the bar as it is and begins a new line.
func (p *loadProgress) end() {
	if p.bar != nil {
		_ = p.bar.Exit()
	}
}
