package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"pushq/internal/certificates"
	"pushq/internal/history"
	"pushq/internal/loopback"
	"pushq/internal/rabbitmq"
	"pushq/internal/redisurl"
	"pushq/scheduler"
)

// Validate checks the configuration as Load does, apart from the presence of
// redis.url. What is wrong is an *InvalidError that lists all problems.
func (c Config) Validate() error {
	var problems []Problem
	for _, finding := range check(c, false, nil) {
		problems = append(problems, Problem{Key: finding.keys[0], Text: finding.text})
	}
	if len(problems) > 0 {
		return &InvalidError{Problems: problems}
	}
	return nil
}

// finding is a rule that is broken. The first key is the one to complain about,
// the others have a part in it.
type finding struct {
	keys []string
	text string
}

// rule is one condition on a valid configuration. It is checked if none of its
// keys is known to be wrong already, so that one mistake is reported once. What
// it reports reads as a sentence whose subject is the first key, and quotes no
// secret.
type rule struct {
	keys  []string
	check func(c Config, report func(text string))
}

// rules holds those about one key before those about the relation of several.
var rules = []rule{
	{[]string{"redis.url"}, redisURLIsSupported},
	{[]string{"redis.tls.ca"}, authoritiesAreReadable(redisTLS)},
	{[]string{"redis.tls.cert", "redis.tls.key"}, certificateHasItsKey(redisTLS)},
	{[]string{"http.listen"}, listenIsHostAndPort},
	{[]string{"http.apiKeys"}, apiKeysAreNamedAndLong},
	{[]string{"http.apiKeys"}, apiKeysDiffer},
	{[]string{"http.tls.ca"}, authoritiesAreReadable(httpTLS)},
	{[]string{"http.tls.cert", "http.tls.key"}, certificateHasItsKey(httpTLS)},
	{[]string{"dashboard.user"}, dashboardUserIsPlain},
	{[]string{"dashboard.password"}, dashboardPasswordIsLong},
	{[]string{"swrve.url"}, swrveURLIsAbsolute},
	{[]string{"swrve.pollers"}, pollersAreAutoOrFew},
	{[]string{"swrve.retryStatuses"}, retryStatusesDiffer},
	{[]string{"swrve.messagePrototypePushKeys"}, pushKeysAreComplete},
	{[]string{"push.timeZone"}, timeZoneIsKnown},
	{[]string{"rabbitmq.url"}, isAddress(rabbitmq.CheckURL, func(c Config) Secret { return c.RabbitMQ.URL })},
	{[]string{"history.postgresUrl"}, isAddress(history.CheckURL, func(c Config) Secret { return c.History.PostgresURL })},
	{[]string{"fcm.mode"}, oneOf(FCMv1, FCMLegacy)(func(c Config) string { return c.FCM.Mode })},
	{[]string{"swrve.onRefused"}, oneOf(Fail, Wait)(func(c Config) string { return c.Swrve.OnRefused })},
	{[]string{"fcm.breaker.onOpen"}, oneOf(Defer, DeadLetter)(func(c Config) string { return c.FCM.Breaker.OnOpen })},
	{[]string{"rabbitmq.queue"}, isQueueName(func(c Config) string { return c.RabbitMQ.Queue })},
	{[]string{"rabbitmq.failedQueue"}, isQueueName(func(c Config) string { return c.RabbitMQ.FailedQueue })},
	{[]string{"rabbitmq.failedQueue", "rabbitmq.queue"}, failuresGoElsewhere},
	{[]string{"fcm.url"}, isBaseURL(func(c Config) string { return c.FCM.URL }, true)},
	{[]string{"template.url"}, isBaseURL(func(c Config) string { return c.Template.URL }, false)},
	{[]string{"dashboard.url"}, isBaseURL(func(c Config) string { return c.Dashboard.URL }, false)},
	{[]string{"tracing.otlpEndpoint"}, isBaseURL(func(c Config) string { return c.Tracing.OTLPEndpoint }, false)},
	{[]string{"push.retention.sent"}, wholeSeconds(func(c Config) time.Duration { return c.Push.Retention.Sent })},
	{[]string{"push.retention.dead"}, wholeSeconds(func(c Config) time.Duration { return c.Push.Retention.Dead })},
	{[]string{"push.retention.completed"}, wholeSeconds(func(c Config) time.Duration { return c.Push.Retention.Completed })},

	{[]string{"redis.sentinelPassword", "redis.sentinelUser", "redis.url"}, sentinelsAreAsked},
	{[]string{"redis.tls.ca", "redis.url"}, tlsIsUsed(redisTLS, func(f certificates.Files) string { return f.CA })},
	{[]string{"redis.tls.cert", "redis.url"}, tlsIsUsed(redisTLS, func(f certificates.Files) string { return f.Cert })},
	{[]string{"http.tls.ca", "http.tls.cert"}, clientsAreAskedOverTLS},
	{[]string{"http.listen", "http.apiKeys", "http.allowAnonymous", "http.tls.ca"}, strangersAreKeptOut},
	{[]string{"dashboard.password", "dashboard.user"}, dashboardHasUserAndPassword},
	{[]string{"dashboard.url", "dashboard.password"}, dashboardBehindAProxyHasAPassword},
	{[]string{"swrve.timeoutMillis", "swrve.averageProcessingMillis"}, timeoutLeavesTimeForTheAverage},
	{[]string{"swrve.pollers", "swrve.concurrency", "swrve.averageProcessingMillis", "swrve.delayMillis"}, everyPollerHasWork},
	{[]string{"push.retention.completed", "push.retention.sent"}, recordOutlivesTask},
	{[]string{"template.url", "fcm.enabled"}, fcmHasTemplates},
	{[]string{"fcm.url"}, endsBefore(func(c Config) string { return c.FCM.URL }, "/v1")},
	{[]string{"fcm.url"}, endsBefore(func(c Config) string { return c.FCM.URL }, "/fcm/send")},
	{[]string{"template.url"}, endsBefore(func(c Config) string { return c.Template.URL }, "/api/v1/templates")},
	{[]string{"tracing.otlpEndpoint"}, endsBefore(func(c Config) string { return c.Tracing.OTLPEndpoint }, "/v1/traces")},
	{[]string{"fcm.serviceAccount", "fcm.mode", "fcm.enabled"}, firebaseKnowsUs},
	{[]string{"fcm.project", "fcm.serviceAccount", "fcm.mode", "fcm.enabled"}, firebaseKnowsTheProject},
	{[]string{"fcm.serverKey", "fcm.mode", "fcm.enabled"}, gatewayKnowsUs},
	{[]string{"fcm.url", "http.listen"}, isNotOurselves(func(c Config) string { return c.FCM.URL })},
	{[]string{"template.url", "http.listen"}, isNotOurselves(func(c Config) string { return c.Template.URL })},
	{[]string{"fcm.retry.cap", "fcm.retry.floor"}, capIsAboveFloor},
	{[]string{"fcm.retry.first", "fcm.retry.cap"}, firstIsWithinCap},
	{[]string{"template.tries", "template.timeoutMillis"}, triesFitTogether},
	{[]string{"push.retention.dead", "push.retry.maxAttempts", "push.retry.delayInSeconds"}, recordOutlivesRetries},
	{[]string{"push.retention.dead", "fcm.retry.cap", "fcm.retry.jitter", "fcm.maxRetryAfter", "fcm.enabled"}, recordOutlivesFCMRetries},
}

// check lists what is wrong with c. Rules about a broken key, one whose value
// could not be read, are left out.
func check(c Config, requireRedis bool, broken map[string]bool) []finding {
	var findings []finding
	wrong := map[string]bool{}
	maps.Copy(wrong, broken)
	add := func(keys []string, text string) {
		findings = append(findings, finding{keys, text})
		wrong[keys[0]] = true
	}
	for _, setting := range settingsOf(&c) {
		if wrong[setting.key] {
			continue
		}
		if text := outOfRange(setting); text != "" {
			add([]string{setting.key}, text)
		}
	}
	if requireRedis && c.Redis.URL == "" && !wrong["redis.url"] {
		add([]string{"redis.url"}, "is required: set it in the file or by PUSHQ_REDIS_URL, for example to redis://localhost:6379/0")
	}
	for _, rule := range rules {
		if slices.ContainsFunc(rule.keys, func(key string) bool { return wrong[key] }) {
			continue
		}
		rule.check(c, func(text string) { add(rule.keys, text) })
	}
	return findings
}

// outOfRange says what is wrong if the value, or an element of the list, is not
// between the tags min and max.
func outOfRange(s setting) string {
	if s.min == "" {
		return ""
	}
	values := []reflect.Value{s.field}
	if s.field.Kind() == reflect.Slice {
		values = values[:0]
		for _, element := range s.field.Seq2() {
			values = append(values, element)
		}
	}
	for _, value := range values {
		smallest, largest := reflect.New(value.Type()).Elem(), reflect.New(value.Type()).Elem()
		if err := errors.Join(parseScalar(s.min, smallest), parseScalar(s.max, largest)); err != nil {
			return "has a tag min or max that cannot be read: " + err.Error()
		}
		// Written so that NaN, which compares as false, is out of range.
		if number := numberOf(value); !(number >= numberOf(smallest) && number <= numberOf(largest)) {
			return fmt.Sprintf("must be from %s to %s, is %s", s.min, s.max, s.text())
		}
	}
	return ""
}

func numberOf(value reflect.Value) float64 {
	if value.CanFloat() {
		return value.Float()
	}
	return float64(value.Int())
}

func redisURLIsSupported(c Config, report func(string)) {
	if c.Redis.URL == "" {
		return
	}
	if _, err := redisurl.Parse(c.Redis.URL.Reveal()); err != nil {
		report(err.Error())
	}
}

func listenIsHostAndPort(c Config, report func(string)) {
	_, port, err := net.SplitHostPort(c.HTTP.Listen)
	if err != nil {
		report("must be host:port, for example 127.0.0.1:8080 or :8080 for all addresses")
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		report("must end in a port from 0 to 65535")
	}
}

var apiKeyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// shortestAPIKey keeps keys from being guessed.
const shortestAPIKey = 16

// apiKeysAreNamedAndLong also finds a name and a key that are swapped: a key is longer than
// its name, so only one of the two orders is right. What may be a key is not shown.
func apiKeysAreNamedAndLong(c Config, report func(string)) {
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.APIKeys)) {
		key, shown := c.HTTP.APIKeys[name].Reveal(), shownName(name)
		if key != "" && len(key) <= len(name) {
			report(fmt.Sprintf("has a name of %d characters with a key of %d: a key is longer than its name, and has at least %d characters; are the two swapped?",
				len(name), len(key), shortestAPIKey))
			continue
		}
		if !apiKeyName.MatchString(name) {
			report("has the name " + shown + ": a name is 1 to 64 characters of A-Z a-z 0-9 . _ -")
		}
		switch {
		case !isVisibleASCII(key):
			report("has for " + shown + " a key with a blank or a character that is not visible ASCII, which cannot be sent in a header")
		case len(key) < shortestAPIKey:
			report(fmt.Sprintf("has for %s a key of %d characters: at least %d are needed", shown, len(key), shortestAPIKey))
		}
	}
}

// shownName is the name of a secret as a problem shows it: what is as long as a key may be
// one, swapped with its name.
func shownName(name string) string {
	if len(name) >= shortestAPIKey {
		return fmt.Sprintf("[%d characters]", len(name))
	}
	return strconv.Quote(name)
}

func isVisibleASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// apiKeysDiffer is needed because a key tells who the caller is.
func apiKeysDiffer(c Config, report func(string)) {
	owner := map[Secret]string{}
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.APIKeys)) {
		key := c.HTTP.APIKeys[name]
		if other, taken := owner[key]; taken {
			report(fmt.Sprintf("has the same key for %.80q and %.80q: each caller needs its own", other, name))
		}
		owner[key] = name
	}
}

// dashboardUserIsPlain: HTTP basic authentication ends the user at a colon, and
// browsers differ in how they send what is not ASCII.
func dashboardUserIsPlain(c Config, report func(string)) {
	const longest = 64
	if user := c.Dashboard.User; len(user) > longest || !isVisibleASCII(user) || strings.Contains(user, ":") {
		report(fmt.Sprintf("must be 1 to %d visible ASCII characters without a colon", longest))
	}
}

func dashboardPasswordIsLong(c Config, report func(string)) {
	const shortest = 12
	switch password := c.Dashboard.Password.Reveal(); {
	case !isVisibleASCII(password):
		report("has a blank or a character that is not visible ASCII, which browsers send in different ways")
	case password != "" && len(password) < shortest:
		report(fmt.Sprintf("has %d characters: at least %d are needed", len(password), shortest))
	}
}

func dashboardHasUserAndPassword(c Config, report func(string)) {
	switch {
	case c.Dashboard.Password == "" && c.Dashboard.User != "":
		report("is missing: dashboard.user is set, and needs one")
	case c.Dashboard.Password != "" && c.Dashboard.User == "":
		report("needs a user: set dashboard.user as well")
	}
}

// dashboardBehindAProxyHasAPassword: without one the dashboard is for this host only, where
// the proxy may be, but not those whom it lets in.
func dashboardBehindAProxyHasAPassword(c Config, report func(string)) {
	if c.Dashboard.URL != "" && c.Dashboard.Password == "" {
		report("is set, but dashboard.password is not: whoever reaches the proxy would be on this host")
	}
}

func swrveURLIsAbsolute(c Config, report func(string)) {
	const example = ", for example https://service.swrve.com/push"
	parsed, err := url.Parse(c.Swrve.URL)
	switch {
	case err != nil:
		report("is not a valid URL" + example)
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		report("must start with http:// or https://" + example)
	case parsed.Hostname() == "":
		report("has no host" + example)
	case !redisurl.ValidPort(parsed):
		report("has a port that is not between 1 and 65535")
	case parsed.User != nil:
		report("must not hold a user or password")
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
		report("must not have a part after ? or #: the parameters of a push are added by pushq")
	}
}

func pollersAreAutoOrFew(c Config, report func(string)) {
	if c.Swrve.Pollers < AutoPollers || c.Swrve.Pollers > maxPollers {
		report(fmt.Sprintf("must be auto or from 1 to %d, is %d", maxPollers, int(c.Swrve.Pollers)))
	}
}

func retryStatusesDiffer(c Config, report func(string)) {
	seen := map[int]bool{}
	for _, status := range c.Swrve.RetryStatuses {
		if seen[status] {
			report(fmt.Sprintf("lists %d twice", status))
		}
		seen[status] = true
	}
}

func pushKeysAreComplete(c Config, report func(string)) {
	prototypes := c.Swrve.MessagePrototypePushKeys
	for _, prototype := range slices.Sorted(maps.Keys(prototypes)) {
		if prototype == "" {
			report("has a message prototype without a name")
		}
		for _, platform := range slices.Sorted(maps.Keys(prototypes[prototype])) {
			key := prototypes[prototype][platform].Reveal()
			place := fmt.Sprintf("has for %q ", prototype)
			switch {
			case strings.EqualFold(key, "IOS") || strings.EqualFold(key, "ANDROID"):
				report(place + "a platform where the push key belongs; are the two swapped?")
			case platform != "IOS" && platform != "ANDROID":
				report(place + fmt.Sprintf("the platform %q: it must be IOS or ANDROID", platform))
			case key == "":
				report(place + "an empty push key for " + platform)
			case key != strings.TrimSpace(key):
				report(place + "a push key for " + platform + " that begins or ends with a blank or a line break")
			}
		}
	}
}

func timeZoneIsKnown(c Config, report func(string)) {
	if _, err := scheduler.TimeZone(c.Push.TimeZone); err != nil {
		report("is not usable: " + err.Error())
	}
}

func strangersAreKeptOut(c Config, report func(string)) {
	if isOpenToStrangers(c.HTTP) && !c.HTTP.AllowAnonymous {
		report(fmt.Sprintf("is %q, which is not loopback, and nobody needs a key: set http.apiKeys (PUSHQ_HTTP_APIKEYS), or http.allowAnonymous: true", c.HTTP.Listen))
	}
}

// isOpenToStrangers reports whether others than this host can reach the API
// without a key or a certificate.
func isOpenToStrangers(h HTTP) bool {
	return len(h.APIKeys) == 0 && h.TLS.CA == "" && !isLoopback(h.Listen)
}

func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && loopback.Is(host)
}

func timeoutLeavesTimeForTheAverage(c Config, report func(string)) {
	if c.Swrve.TimeoutMillis < c.Swrve.AverageProcessingMillis {
		report(fmt.Sprintf("is %d, less than swrve.averageProcessingMillis, %d: the average request would be cut off",
			c.Swrve.TimeoutMillis, c.Swrve.AverageProcessingMillis))
	}
}

func everyPollerHasWork(c Config, report func(string)) {
	if concurrency := c.Swrve.EffectiveConcurrency(); int(c.Swrve.Pollers) > concurrency {
		report(fmt.Sprintf("is %s, more than the concurrency they share, %d", c.Swrve.Pollers, concurrency))
	}
}

// recordOutlivesTask: the dashboard and the list of SENT pushes would show
// pushes that cannot be read any more.
func recordOutlivesTask(c Config, report func(string)) {
	if c.Push.Retention.Completed > c.Push.Retention.Sent {
		report(fmt.Sprintf("is %s, more than push.retention.sent, %s", durationText(c.Push.Retention.Completed), durationText(c.Push.Retention.Sent)))
	}
}

// recordOutlivesRetries: a push whose record is gone has forgotten its attempts
// and would be tried for ever.
func recordOutlivesRetries(c Config, report func(string)) {
	retries := time.Duration(c.Push.Retry.MaxAttempts) * c.Push.Retry.Delay()
	if c.Push.Retention.Dead < retries {
		report(fmt.Sprintf("is %s, less than all attempts may take: push.retry.maxAttempts x push.retry.delayInSeconds is %s",
			durationText(c.Push.Retention.Dead), durationText(retries)))
	}
	if c.Push.Retention.Dead < c.Swrve.MaxRetryAfter {
		report(fmt.Sprintf("is %s, less than a push may have to wait for its next attempt: swrve.maxRetryAfter is %s",
			durationText(c.Push.Retention.Dead), durationText(c.Swrve.MaxRetryAfter)))
	}
}

// warnings lists what is allowed, but should be known.
func (c Config) warnings() []string {
	var list []string
	if c.HTTP.AllowAnonymous && isOpenToStrangers(c.HTTP) {
		list = append(list, "http.allowAnonymous: everybody who reaches "+c.HTTP.Listen+" can send pushes, without a key")
	}
	if c.HTTP.AllowAnonymous && len(c.HTTP.APIKeys) > 0 {
		list = append(list, "http.allowAnonymous has no effect, because http.apiKeys are set")
	}
	for _, prototype := range slices.Sorted(maps.Keys(c.Swrve.MessagePrototypePushKeys)) {
		if len(c.Swrve.MessagePrototypePushKeys[prototype]) == 0 {
			list = append(list, fmt.Sprintf("swrve.messagePrototypePushKeys has for %q no push key: its pushes will end FAILED", prototype))
		}
	}
	list = append(list, c.modeWarnings()...)
	list = append(list, expiryWarnings("redis.tls.cert", redisTLS(c))...)
	list = append(list, expiryWarnings("http.tls.cert", httpTLS(c))...)
	return list
}
