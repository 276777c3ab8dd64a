package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	chosen               []comparison
	list, quick          bool
	asJSON, asMarkdown   bool
	profile              string
	soak                 time.Duration
	profileOnly, soaking bool
}

// soakShortest leaves each third of the time some seconds.
const soakShortest = 10 * time.Second

// parseOptions prints the help if it is asked for, and returns [flag.ErrHelp].
func parseOptions(arguments []string, help io.Writer) (options, error) {
	var o options
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned
	flags.StringVar(&only, "only", "", "run these comparisons only, `names` separated by commas")
	flags.BoolVar(&o.list, "list", false, "list the comparisons")
	flags.BoolVar(&o.quick, "quick", false, "tiny sizes: shows that everything runs, judges nothing")
	flags.BoolVar(&o.asJSON, "json", false, "print every value of every round")
	flags.BoolVar(&o.asMarkdown, "markdown", false, "print what docs/benchmarks.md has")
	flags.StringVar(&o.profile, "profile", "", "instead, run the Go benchmarks of the hot paths and write their profiles to this `directory`, relative to the repository's")
	flags.DurationVar(&o.soak, "soak", 0, "instead, post for this `time`, replace a worker every minute, and watch the memory")
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = fmt.Fprintln(help, "Usage: make bench ARGS='[flags]', or in the directory bench: go run . [flags]")
			flags.SetOutput(help)
			flags.PrintDefaults()
			return o, err
		}
		return o, fmt.Errorf("%w: see --help", err)
	}
	if flags.NArg() > 0 {
		return o, unexpected(flags.Arg(0))
	}

	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	o.profileOnly, o.soaking = given["profile"], given["soak"]
	switch {
	case o.asJSON && o.asMarkdown:
		return o, errors.New("--json and --markdown: choose one")
	case o.profileOnly && len(given) > 1:
		return o, errors.New("--profile runs Go benchmarks and no comparison: it takes no other flag")
	case o.profileOnly && o.profile == "":
		return o, errors.New("--profile: name a directory")
	case o.soaking && given["only"]:
		return o, errors.New("--soak is no comparison: leave --only out")
	case o.soaking && o.soak < soakShortest:
		return o, fmt.Errorf("--soak %s: it takes at least %s", o.soak, soakShortest)
	}
	o.chosen = comparisons
	var err error
	if given["only"] {
		o.chosen, err = choose(only)
	}
	return o, err
}

// unexpected is the error for a word that no flag takes: the package flag would
// take it, and all flags after it, for something else.
func unexpected(word string) error {
	if _, err := choose(word); err == nil {
		return fmt.Errorf("unexpected %q: did you mean --only %s?", word, word)
	}
	return fmt.Errorf("unexpected %q: see --help", word)
}

// choose returns the comparisons of these names, in their order; a comma too
// many does no harm.
func choose(only string) ([]comparison, error) {
	var chosen []comparison
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		place := slices.IndexFunc(comparisons, func(c comparison) bool { return c.name == name })
		if place < 0 {
			return nil, fmt.Errorf("--only %s: there is no comparison of that name, see --list", name)
		}
		chosen = append(chosen, comparisons[place])
	}
	if len(chosen) == 0 {
		return nil, errors.New("--only: name at least one comparison, see --list")
	}
	return chosen, nil
}
