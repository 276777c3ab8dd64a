// Command bench measures pushq side by side with what one would use instead,
// and prints a table of pushq's promises. Run it in its own directory, or as
// `make bench`: it starts everything it needs and removes it afterwards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == loadCommand {
		exitOn(runLoad(os.Args[2]))
		return
	}
	o, err := parseOptions(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	switch {
	case o.list:
		for _, c := range comparisons {
			fmt.Printf("%-14s %s\n", c.name, c.what)
		}
		return
	case o.profileOnly:
		exitOn(profile(o.profile))
		return
	case o.soaking:
		o.chosen = []comparison{{"soak", "memory over a long time", func(b *bench) []result { return b.soak(o.soak) }}}
	}

	r := report{Facts: machineFacts()}
	if note := busyNote(r.fact(factLoad)); note != "" {
		fmt.Fprintln(os.Stderr, note)
		r.Notes = append(r.Notes, note)
	}
	if note := shortSoakNote(o.soak); o.soaking && note != "" {
		r.Notes = append(r.Notes, note)
	}
	if o.quick {
		r.Notes = append(r.Notes, quickNote)
	}
	interrupted, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	done, err := run(interrupted, o.chosen, o.quick)
	exitOn(err)
	if done.comparisons == 0 { // interrupted: there is nothing to show
		fmt.Fprintln(os.Stderr, interruptedNote(0, len(o.chosen)))
		os.Exit(130)
	}
	if done.comparisons < len(o.chosen) {
		r.Notes = append(r.Notes, interruptedNote(done.comparisons, len(o.chosen)))
	}
	r.Results, r.Notes = done.results, append(r.Notes, verdictsNote)
	switch {
	case o.asJSON:
		exitOn(r.writeJSON(os.Stdout))
	case o.asMarkdown:
		exitOn(r.writeMarkdown(os.Stdout))
	default:
		exitOn(r.writeTable(os.Stdout))
	}
	switch {
	case done.comparisons < len(o.chosen):
		os.Exit(130) // as a shell does; the kernel ends what was started
	case slices.ContainsFunc(r.Results, func(r result) bool { return r.Verdict == fails || r.Verdict == unavailable }):
		os.Exit(1)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures in a directory of its own, which it removes.
func run(interrupted context.Context, chosen []comparison, quick bool) (finished, error) {
	if text, err := os.ReadFile("go.mod"); err != nil || !strings.HasPrefix(string(text), "module pushq/bench\n") {
		return finished{}, errors.New("run this in the directory bench, or as `make bench`")
	}
	directory, err := os.MkdirTemp("", "pushq-bench-")
	if err != nil {
		return finished{}, err
	}
	defer func() { _ = os.RemoveAll(directory) }()

	b := &bench{directory: directory, sizes: fullSizes, judges: true}
	if quick {
		b.sizes, b.judges = quickSizes, false
	}
	began := time.Now()
	b.progress = func(format string, args ...any) {
		if interrupted.Err() == nil { // what is cut short then is no news
			fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		}
	}
	b.progress("building")
	b.programs, err = buildPrograms(directory)
	if interrupted.Err() != nil {
		return finished{}, nil
	}
	if err != nil {
		return finished{}, err
	}
	done := b.runAll(interrupted, chosen)
	b.progress("done")
	return done, nil
}
