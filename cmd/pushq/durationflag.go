package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// addDuration adds a flag with a duration. What stands in into already is its default.
func addDuration(flags *pflag.FlagSet, into *time.Duration, name, usage string) {
	flags.Var((*durationFlag)(into), name, usage)
}

// A durationFlag is a duration of the command line, which may be in days.
type durationFlag time.Duration

// Set reads the text of the flag.
func (d *durationFlag) Set(text string) error {
	parsed, err := parseDuration(text)
	*d = durationFlag(parsed)
	return err
}

// String is the duration as Set reads it; none is no default for the help to show.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type is what help shows.
func (d *durationFlag) Type() string { return "duration" }

var (
	bareNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	withDays   = regexp.MustCompile(`^([0-9]{1,5})d(.*)$`)
)

// parseDuration is time.ParseDuration with days, and names the unit that is missing.
func parseDuration(text string) (time.Duration, error) {
	if text != "0" && bareNumber.MatchString(text) { // nothing needs no unit
		return 0, fmt.Errorf("%[1]s of what? Write a unit: %[1]ss, %[1]sm, %[1]sh or %[1]sd", text)
	}
	days, rest := time.Duration(0), text
	if parts := withDays.FindStringSubmatch(text); parts != nil {
		count, _ := strconv.Atoi(parts[1]) // five digits at most
		days, rest = time.Duration(count)*24*time.Hour, parts[2]
		if rest == "" {
			return days, nil
		}
	}
	parsed, err := time.ParseDuration(rest)
	if err != nil {
		return 0, errors.New("write a duration such as 90s, 15m, 2h or 3d")
	}
	return days + parsed, nil
}
