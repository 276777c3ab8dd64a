package config

import (
	"net"
	"net/url"
	"strings"

	"pushq/internal/loopback"
	"pushq/internal/redisurl"
	"pushq/internal/serviceaccount"
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
		case !redisurl.ValidPort(parsed):
			report("has a port that is not between 1 and 65535")
		case parsed.User != nil:
			report("must not hold a user or password")
		case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
			report("must not have a part after ? or #")
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

func fcmHasTemplates(c Config, report func(string)) {
	if c.FCM.Enabled && c.Template.URL == "" {
		report("is required with fcm.enabled: it is where the texts come from")
	}
}

func firebaseKnowsUs(c Config, report func(string)) {
	if !c.FCM.Enabled || c.FCM.Mode != FCMv1 {
		return
	}
	file := strings.TrimSpace(c.FCM.ServiceAccount.Reveal())
	if file == "" {
		text := "is required in mode v1: set PUSHQ_FCM_SERVICEACCOUNT_FILE to the path of the key file"
		if c.FCM.ServerKey != "" {
			text += " (fcm.serverKey is for fcm.mode legacy)"
		}
		report(text)
		return
	}
	if _, err := serviceaccount.Read([]byte(file)); err != nil {
		report(err.Error())
	}
}

func firebaseKnowsTheProject(c Config, report func(string)) {
	if !c.FCM.Enabled || c.FCM.Mode != FCMv1 || c.FCM.Project != "" {
		return
	}
	if account, err := serviceaccount.Read([]byte(c.FCM.ServiceAccount.Reveal())); err == nil && account.ProjectID == "" {
		report("is required: the key file in fcm.serviceAccount names no project")
	}
}

func gatewayKnowsUs(c Config, report func(string)) {
	if !c.FCM.Enabled || c.FCM.Mode != FCMLegacy {
		return
	}
	switch key := c.FCM.ServerKey.Reveal(); {
	case key == "":
		report("is required in mode legacy")
	case !isVisibleASCII(key):
		report("has a blank, a line break or a character that is not visible ASCII, which cannot be sent in a header: " +
			"PUSHQ_FCM_SERVERKEY_FILE reads a key from a file without the line break at its end")
	}
}

func capIsAboveFloor(c Config, report func(string)) {
	if c.FCM.Retry.Cap < c.FCM.Retry.Floor {
		report("must be at least fcm.retry.floor")
	}
}

// modeWarnings name what has no effect beside other settings, and may be there by mistake.
func (c Config) modeWarnings() []string {
	var list []string
	warn := func(mistaken bool, text string) {
		if mistaken {
			list = append(list, text)
		}
	}
	v1, legacy := c.FCM.Enabled && c.FCM.Mode == FCMv1, c.FCM.Enabled && c.FCM.Mode == FCMLegacy
	warn(v1 && c.FCM.ServerKey != "", "fcm.serverKey has no effect in fcm.mode v1: Firebase is shown fcm.serviceAccount")
	warn(legacy && c.FCM.ServiceAccount != "", "fcm.serviceAccount has no effect in fcm.mode legacy: the gateway is shown fcm.serverKey")
	warn(legacy && strings.Contains(c.FCM.URL, "googleapis.com"), "fcm.mode legacy: Google has shut that down, so fcm.url has to be that of a gateway")
	warn(!c.FCM.Enabled && c.RabbitMQ.URL != "", "rabbitmq.url has no effect without fcm.enabled: no messages are taken")
	return list
}
