package testenv

import (
	"testing"

	"pushq/internal/fcmsim"
	"pushq/internal/templatesim"
)

// FCM is what the channel fcm needs besides a World: a simulated Firebase and template
// service of its own, which end with the test.
type FCM struct {
	Firebase  *fcmsim.Simulator
	Templates *templatesim.Simulator
	// FirebaseURL is where Firebase is, and its token endpoint.
	FirebaseURL string
	// Settings let pushq use both, for [Pushq.Start].
	Settings []string
}

// StartFCM starts both simulators.
func StartFCM(t testing.TB, simulation fcmsim.Config) FCM {
	t.Helper()
	firebase, err := fcmsim.New(simulation)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = firebase.Close() })
	firebaseURL, err := firebase.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	templates := templatesim.New(templatesim.Config{})
	t.Cleanup(func() { _ = templates.Close() })
	templatesURL, err := templates.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	account, err := firebase.ServiceAccount(firebaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return FCM{Firebase: firebase, Templates: templates, FirebaseURL: firebaseURL, Settings: []string{
		"FCM_ENABLED=true", "FCM_URL=" + firebaseURL, "FCM_SERVICEACCOUNT=" + string(account), "TEMPLATE_URL=" + templatesURL,
	}}
}

// Delivered counts how often each device got a message.
func (f FCM) Delivered() map[string]int {
	count := make(map[string]int)
	for _, request := range f.Firebase.Ledger() {
		if request.Delivered {
			count[request.Token]++
		}
	}
	return count
}
