package config

import (
	"net/url"
	"strings"
)

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
		case parsed.User != nil:
			report("must not hold a user or password")
		case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
			report("must not have a part after ? or #")
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

func fcmHasTemplates(c Config, report func(string)) {
	if c.FCM.Enabled && c.Template.URL == "" {
		report("is required with fcm.enabled: it is where the texts come from")
	}
}

func firebaseKnowsUs(c Config, report func(string)) {
	if c.FCM.Enabled && c.FCM.Mode == FCMv1 && strings.TrimSpace(c.FCM.ServiceAccount.Reveal()) == "" {
		report("is required in mode v1: set PUSHQ_FCM_SERVICEACCOUNT_FILE to the path of the key file")
	}
}

func gatewayKnowsUs(c Config, report func(string)) {
	if c.FCM.Enabled && c.FCM.Mode == FCMLegacy && c.FCM.ServerKey == "" {
		report("is required in mode legacy")
	}
}

func capIsAboveFloor(c Config, report func(string)) {
	if c.FCM.Retry.Cap < c.FCM.Retry.Floor {
		report("must be at least fcm.retry.floor")
	}
}
