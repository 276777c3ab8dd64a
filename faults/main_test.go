package faults

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

var full = flag.Bool("full", false, "let every fault last as long as it is meant to")

// atOnce is how many tests run beside each other: they mostly wait.
const atOnce = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	code := m.Run()
	accounts.print()
	os.Exit(code)
}

// length is how long a fault lasts: short as a rule, long with the flag -full.
func length(short, long time.Duration) time.Duration {
	if *full {
		return long
	}
	return short
}

// several is how many of something a fault meets: few as a rule.
func several(few, many int) int {
	if *full {
		return many
	}
	return few
}

// accounts are the counts of all tests, printed together at the end.
var accounts summary

type summary struct {
	mutex sync.Mutex
	lines []string
}

func (s *summary) add(line string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lines = append(s.lines, line)
}

func (s *summary) print() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	slices.Sort(s.lines)
	for _, line := range s.lines {
		fmt.Println(line)
	}
}
