package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"pushq/internal/swrvesim"
)

const (
	// soakLook is how often a push is looked at until it has ended: more often
	// than the shortest retention.
	soakLook = 3 * time.Second
	// soakPatience is how long after the last POST pushes may be under way: those
	// of a dead worker come back within a minute.
	soakPatience = 3 * time.Minute
)

// soakAccount is what became of every push.
type soakAccount struct {
	mutex   sync.Mutex
	states  map[string]int // of accepted pushes, when they were looked at last
	lost    int
	refused map[string]int // why a POST was not accepted
	// marked counts the attempts of a user's push that may have delivered it, the
	// one that did included.
	marked map[string]int
}

func newSoakAccount() *soakAccount {
	return &soakAccount{states: make(map[string]int), refused: make(map[string]int), marked: make(map[string]int)}
}

// followPushes posts each push when it is due and looks at it until it has
// ended.
func followPushes(url string, pushes int) *soakAccount {
	account := newSoakAccount()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxConnsPerHost: callers, MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	began := time.Now()
	patience := began.Add(time.Duration(pushes)*time.Second/soakPerSecond + soakPatience)
	var all sync.WaitGroup
	for number := range pushes {
		time.Sleep(time.Until(began.Add(time.Duration(number) * time.Second / soakPerSecond)))
		all.Go(func() {
			user := fmt.Sprintf("soak-%d", number)
			id, refusal := postSoaked(client, url, user)
			if refusal != "" {
				account.addRefused(refusal)
				return
			}
			found, known := soakedPush{}, true
			for known && !found.ended() && time.Now().Before(patience) {
				time.Sleep(soakLook)
				found, known = lookUpSoaked(client, url, id, found)
			}
			account.add(user, found, known)
		})
	}
	all.Wait()
	return account
}

// soakedPush is what the account needs of GET /push/{id}.
type soakedPush struct {
	Status   string          `json:"status"`
	Attempts []soakedAttempt `json:"attempts"`
}

type soakedAttempt struct {
	Status         string `json:"status"`
	MaybeDelivered bool   `json:"maybeDelivered"`
}

func (p soakedPush) ended() bool {
	return slices.Contains([]string{"SENT", "FAILED", "GIVEN_UP", "CANCELLED"}, p.Status)
}

// postSoaked returns the push's id, or why it was not accepted.
func postSoaked(client *http.Client, url, user string) (id, refusal string) {
	response, err := client.Post(url+"/push", "application/json", bytes.NewReader(appendPush(nil, user, "")))
	if err != nil {
		return "", "no answer"
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusAccepted {
		return "", response.Status
	}
	return strings.TrimPrefix(response.Header.Get("Location"), "/push/"), ""
}

// lookUpSoaked returns what was known before if there is no answer.
func lookUpSoaked(client *http.Client, url, id string, before soakedPush) (found soakedPush, known bool) {
	response, err := client.Get(url + "/push/" + id)
	if err != nil {
		return before, true
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotFound {
		return before, false
	}
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(&found) != nil {
		return before, true
	}
	return found, true
}

func (a *soakAccount) addRefused(why string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.refused[why]++
}

func (a *soakAccount) add(user string, push soakedPush, known bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !known {
		a.lost++
		return
	}
	a.states[push.Status]++
	for _, attempt := range push.Attempts {
		if attempt.MaybeDelivered || attempt.Status != "ERROR" {
			a.marked[user]++
		}
	}
}

// report writes the counts, with what has arrived at the provider.
func (a *soakAccount) report(values map[string]float64, requests []swrvesim.Request) {
	deliveries := make(map[string]int)
	for _, request := range requests {
		if request.Delivered {
			deliveries[request.User]++
		}
	}
	for user, count := range deliveries {
		if count > 1 {
			values["delivered twice"]++
		}
		if count > max(a.marked[user], 1) {
			values["unexplained"]++
		}
	}
	for _, count := range a.refused {
		values["not accepted"] += float64(count)
	}
	values["lost"] = float64(a.lost)
	values["accepted"] = float64(a.lost)
	for state, count := range a.states {
		values["accepted"] += float64(count)
		if (soakedPush{Status: state}).ended() {
			values[state] = float64(count)
		} else {
			values["still queued"] += float64(count)
		}
	}
}
