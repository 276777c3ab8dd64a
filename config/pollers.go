package config

import (
	"errors"
	"strconv"
)

// AutoPollers lets pushq choose the number of pollers.
const AutoPollers Pollers = 0

const maxPollers = 8

// Pollers is a number of loops that fetch tasks from Redis: 1 to 8, or AutoPollers.
type Pollers int

// UnmarshalText reads "auto" or a number from 1 to 8.
func (p *Pollers) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*p = AutoPollers
		return nil
	}
	number, err := strconv.Atoi(string(text))
	if err != nil || number < 1 || number > maxPollers {
		return errors.New("must be auto or a whole number from 1 to 8")
	}
	*p = Pollers(number)
	return nil
}

// String returns "auto" or the number.
func (p Pollers) String() string {
	if p == AutoPollers {
		return "auto"
	}
	return strconv.Itoa(int(p))
}

// MarshalText is the reverse of UnmarshalText.
func (p Pollers) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
