package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"pushq/tasks"
)

// operatorName is who runs this command, for the logs of the processes: "alice@host". It
// is what the environment says, and proves nothing.
func operatorName() string {
	user := cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("USER"), os.Getenv("LOGNAME"), fmt.Sprintf("uid %d", os.Getuid()))
	const longest = 64
	printable := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}
	name := []rune(strings.Map(printable, user))
	return string(name[:min(len(name), longest)]) + "@" + hostName()
}

// operatorNote says what is about to be done, and by whom: every process logs it.
func operatorNote(action string) tasks.OperatorNote {
	return tasks.OperatorNote{Action: action, By: operatorName(), At: tasks.MillisOf(time.Now())}
}
