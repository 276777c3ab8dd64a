package config

import (
	"fmt"
	"strings"
	"time"

	"pushq/internal/serviceaccount"
	"pushq/internal/template"
)

// failuresGoElsewhere keeps what cannot be used from coming round again for ever.
func failuresGoElsewhere(c Config, report func(string)) {
	if c.RabbitMQ.Queue == c.RabbitMQ.FailedQueue {
		report("must not be rabbitmq.queue: each failure would be taken for a message, and fail again")
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

func firstIsWithinCap(c Config, report func(string)) {
	if c.FCM.Retry.First > c.FCM.Retry.Cap {
		report("must be at most fcm.retry.cap, which is " + durationText(c.FCM.Retry.Cap))
	}
}

// triesFitTogether: the last requests would never be made, or be cut off.
func triesFitTogether(c Config, report func(string)) {
	if all := c.Template.Timeout() * time.Duration(c.Template.Tries); all > template.CallTimeout {
		report(fmt.Sprintf("times template.timeoutMillis is %s, more than the %s that all requests for a template may take together",
			durationText(all), durationText(template.CallTimeout)))
	}
}

// recordOutlivesFCMRetries is recordOutlivesRetries for the channel to Firebase.
func recordOutlivesFCMRetries(c Config, report func(string)) {
	if !c.FCM.Enabled {
		return
	}
	dead := c.Push.Retention.Dead
	longest := time.Duration((1 + c.FCM.Retry.Jitter) * float64(c.FCM.Retry.Cap))
	if dead < longest {
		report(fmt.Sprintf("is %s, less than a push may have to wait for its next attempt: fcm.retry.cap, with fcm.retry.jitter, is %s",
			durationText(dead), durationText(longest)))
	}
	if dead < c.FCM.MaxRetryAfter {
		report(fmt.Sprintf("is %s, less than a push may have to wait for its next attempt: fcm.maxRetryAfter is %s",
			durationText(dead), durationText(c.FCM.MaxRetryAfter)))
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
	warn(c.FCM.Enabled && c.FCM.Breaker.OnOpen == DeadLetter && c.RabbitMQ.URL == "",
		"fcm.breaker.onOpen: dead-letter without rabbitmq.url: pushes end FAILED while a breaker is open, and there is no queue that they go to")
	return list
}
