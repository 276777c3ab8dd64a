// Command bench measures pushq side by side with what one would use instead,
// and prints a table of pushq's promises. Run it in its own directory, or as
// `make bench`: it starts everything it needs and removes it afterwards.
package main

import (
	"encoding/json"
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

	facts := machineFacts()
	results, err := run(o.chosen, o.quick)
	exitOn(err)
	switch {
	case o.asJSON:
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		exitOn(encoder.Encode(struct {
			Facts   []fact   `json:"facts"`
			Results []result `json:"results"`
		}{facts, results}))
	case o.asMarkdown:
		exitOn(writeMarkdown(os.Stdout, facts, results))
	default:
		exitOn(writeTable(os.Stdout, results))
	}
	if slices.ContainsFunc(results, func(r result) bool { return r.Verdict == fails || r.Verdict == unavailable }) {
		os.Exit(1)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(chosen []comparison, quick bool) ([]result, error) {
	if text, err := os.ReadFile("go.mod"); err != nil || !strings.HasPrefix(string(text), "module pushq/bench\n") {
		return nil, errors.New("run this in the directory bench, or as `make bench`")
	}
	directory, err := os.MkdirTemp("", "pushq-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	// PostgreSQL runs as another user and must get at its directory.
	if err := os.Chmod(directory, 0o711); err != nil {
		return nil, err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = os.RemoveAll(directory)
		os.Exit(130) // the kernel ends what was started
	}()

	b := &bench{directory: directory, sizes: fullSizes, judges: true}
	if quick {
		b.sizes, b.judges = quickSizes, false
	}
	began := time.Now()
	b.progress = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	b.progress("building")
	if b.programs, err = buildPrograms(directory); err != nil {
		return nil, err
	}
	var results []result
	for _, c := range chosen {
		for _, line := range c.run(b) {
			line.Comparison = c.name
			results = append(results, line)
		}
	}
	b.progress("done")
	return results, nil
}
