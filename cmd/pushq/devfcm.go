package main

import (
	"fmt"
	"io"

	"pushq/config"
	"pushq/internal/fcmsim"
	"pushq/internal/templatesim"
)

// devFCM is what the channel fcm needs besides Redis, inside the process.
type devFCM struct {
	firebase       *fcmsim.Simulator
	templates      *templatesim.Simulator
	url            string
	templatesURL   string
	serviceAccount []byte
}

func startDevFCM() (devFCM, error) {
	firebase, err := fcmsim.New(fcmsim.Config{Latency: devLatency})
	if err != nil {
		return devFCM{}, err
	}
	started := devFCM{firebase: firebase, templates: templatesim.New(templatesim.Config{Latency: devLatency})}
	if err := started.start(); err != nil {
		started.close()
		return devFCM{}, err
	}
	return started, nil
}

func (d *devFCM) start() (err error) {
	if d.url, err = d.firebase.Start("127.0.0.1:0"); err != nil {
		return err
	}
	if d.templatesURL, err = d.templates.Start("127.0.0.1:0"); err != nil {
		return err
	}
	d.serviceAccount, err = d.firebase.ServiceAccount(d.url)
	return err
}

func (d devFCM) close() {
	_, _ = d.firebase.Close(), d.templates.Close()
}

// settings put the simulators in the place of what is configured.
func (d devFCM) settings() map[string]string {
	return map[string]string{
		"fcm.enabled":        "true",
		"fcm.mode":           config.FCMv1,
		"fcm.url":            d.url,
		"fcm.project":        "",
		"fcm.serviceAccount": string(d.serviceAccount),
		"fcm.serverKey":      "",
		"template.url":       d.templatesURL,
	}
}

func printDevFCMHelp(out io.Writer, scheme, options, address string, simulated devFCM) {
	fmt.Fprintf(out, `Send a notification:
  curl -i%s %s://%s/notifications -H 'Content-Type: application/json' -d '{"trace_id":"a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c","idempotency_key":"notif_1","user_id":"550e8400-e29b-41d4-a716-446655440000","notification_type":"push","recipient":"fcm_device_token_xyz123","template_code":"welcome_notification","variables":{"name":"Ada","link":"https://example.com/welcome"},"language":"en","metadata":{}}'
What the simulated Firebase received:
  curl %s/ledger
What the simulated template service was asked for:
  curl %s/ledger

`, options, scheme, address, simulated.url, simulated.templatesURL)
}
