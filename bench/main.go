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
	var only, profileDirectory string
	var list, quick, asJSON, asMarkdown bool
	var soakFor time.Duration
	flag.StringVar(&only, "only", "", "run these comparisons only, separated by commas")
	flag.BoolVar(&list, "list", false, "list the comparisons")
	flag.BoolVar(&quick, "quick", false, "tiny sizes: shows that everything runs, judges nothing")
	flag.BoolVar(&asJSON, "json", false, "print every value of every round")
	flag.BoolVar(&asMarkdown, "markdown", false, "print what docs/benchmarks.md has")
	flag.StringVar(&profileDirectory, "profile", "", "instead, run the Go benchmarks of the hot paths and write their profiles to this directory")
	flag.DurationVar(&soakFor, "soak", 0, "instead, post for so long, replace a worker every minute, and watch the memory")
	flag.Parse()

	chosen, err := choose(only)
	exitOn(err)
	switch {
	case list:
		for _, c := range comparisons {
			fmt.Printf("%-14s %s\n", c.name, c.what)
		}
		return
	case profileDirectory != "":
		exitOn(profile(profileDirectory))
		return
	case soakFor > 0:
		chosen = []comparison{{"soak", "memory over a long time", func(b *bench) []result { return b.soak(soakFor) }}}
	}

	facts := machineFacts()
	results, err := run(chosen, quick)
	exitOn(err)
	switch {
	case asJSON:
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		exitOn(encoder.Encode(struct {
			Facts   []fact   `json:"facts"`
			Results []result `json:"results"`
		}{facts, results}))
	case asMarkdown:
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

func choose(only string) ([]comparison, error) {
	if only == "" {
		return comparisons, nil
	}
	var chosen []comparison
	for name := range strings.SplitSeq(only, ",") {
		place := slices.IndexFunc(comparisons, func(c comparison) bool { return c.name == name })
		if place < 0 {
			return nil, fmt.Errorf("--only %s: there is no comparison of that name, see --list", name)
		}
		chosen = append(chosen, comparisons[place])
	}
	return chosen, nil
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
