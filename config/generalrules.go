package config

import (
	"net"
	"net/url"
	"strings"
	"time"

	"pushq/internal/loopback"
	"pushq/internal/redisurl"
)

// The rules that hold for more than one setting. They are made for each with the value
// that they look at.

// oneOf wants one of two words.
func oneOf(one, other string) func(value func(Config) string) func(Config, func(string)) {
	return func(value func(Config) string) func(Config, func(string)) {
		return func(c Config, report func(string)) {
			if got := value(c); got != one && got != other {
				report("must be " + one + " or " + other)
			}
		}
	}
}

// isBaseURL wants a URL below which pushq finds what it needs.
func isBaseURL(value func(Config) string, required bool) func(Config, func(string)) {
	return func(c Config, report func(string)) {
		text := value(c)
		if text == "" && !required {
			return
		}
		parsed, err := url.Parse(text)
		switch {
		case err != nil:
			report("is not a valid URL")
		case parsed.Scheme != "http" && parsed.Scheme != "https":
			report("must start with http:// or https://")
		case parsed.Hostname() == "":
			report("has no host")
		case !redisurl.ValidPort(parsed):
			report("has a port that is not between 1 and 65535")
		case parsed.User != nil:
			report("must not hold a user or password")
		case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
			report("must not have a part after ? or #")
		}
	}
}

// endsBefore refuses a URL that has already what pushq puts behind it.
func endsBefore(value func(Config) string, path string) func(Config, func(string)) {
	return func(c Config, report func(string)) {
		if strings.HasSuffix(strings.TrimRight(value(c), "/"), path) {
			report("must end before " + path + ", which pushq puts behind it")
		}
	}
}

// isNotOurselves refuses the address on which pushq itself listens: it would answer that it
// has no such thing, and every push would end by that.
func isNotOurselves(value func(Config) string) func(Config, func(string)) {
	return func(c Config, report func(string)) {
		parsed, err := url.Parse(value(c))
		host, port, listenErr := net.SplitHostPort(c.HTTP.Listen)
		if err != nil || listenErr != nil || port == "0" || parsed.Port() != port {
			return
		}
		everywhere := host == "" || net.ParseIP(host).IsUnspecified()
		if strings.EqualFold(host, parsed.Hostname()) || (everywhere || loopback.Is(host)) && loopback.Is(parsed.Hostname()) {
			report("is where pushq itself listens (http.listen)")
		}
	}
}

// isAddress wants an address that the client of the server can read.
func isAddress(check func(string) error, value func(Config) Secret) func(Config, func(string)) {
	return func(c Config, report func(string)) {
		if text := value(c).Reveal(); text != "" {
			if err := check(text); err != nil {
				report(err.Error())
			}
		}
	}
}

// isQueueName wants what RabbitMQ takes for the name of a queue, and nobody writes by mistake.
func isQueueName(value func(Config) string) func(Config, func(string)) {
	const longest = 255 // bytes: AMQP 0-9-1, 4.2.5.3
	return func(c Config, report func(string)) {
		switch name := value(c); {
		case strings.TrimSpace(name) == "":
			report("must not be empty")
		case strings.TrimSpace(name) != name:
			report("must not begin or end with a blank")
		case len(name) > longest:
			report("must not be longer than 255 bytes")
		case strings.HasPrefix(name, "amq."):
			report("must not begin with amq.: RabbitMQ keeps such names for itself")
		}
	}
}

// wholeSeconds is needed because Redis and asynq store these durations in
// seconds and would drop the rest.
func wholeSeconds(duration func(Config) time.Duration) func(Config, func(string)) {
	return func(c Config, report func(string)) {
		if d := duration(c); d%time.Second != 0 {
			report("must be whole seconds, is " + durationText(d))
		}
	}
}
