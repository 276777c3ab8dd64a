package config_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
)

// Each rule on its own: what it allows up to its borders, and what it refuses
// and says.
func TestValidate(t *testing.T) {
	t.Parallel()
	type table map[string]struct {
		change func(*config.Config)
		want   string // empty: valid
	}
	keys := func(name, key string) map[string]config.Secret {
		return map[string]config.Secret{name: config.Secret(key)}
	}
	pushKeys := func(prototype, platform, key string) map[string]map[string]config.Secret {
		return map[string]map[string]config.Secret{prototype: keys(platform, key)}
	}
	const (
		goodKey        = "0123456789abcdef"
		goodPassword   = "0123456789ab"
		dashboardUser  = "must be 1 to 64 visible ASCII characters without a colon"
		dashboardASCII = "has a blank or a character that is not visible ASCII, which browsers send in different ways"
		name64         = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._"
		keyName        = ": a name is 1 to 64 characters of A-Z a-z 0-9 . _ -"
		keySwapped     = ": a key is longer than its name, and has at least 16 characters; are the two swapped?"
		keyASCII       = " a key with a blank or a character that is not visible ASCII, which cannot be sent in a header"
		redis          = "must start with redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster://"
		redisPct       = "special characters in the password are written as %XX"
		swrveURL       = ", for example https://service.swrve.com/push"
		listen         = "must be host:port, for example 127.0.0.1:8080 or :8080 for all addresses"
		open           = ", which is not loopback, and nobody needs a key: set http.apiKeys (PUSHQ_HTTP_APIKEYS), or http.allowAnonymous: true"
		zone           = ": use a name of the IANA database such as Europe/Stockholm or UTC"
	)
	rules := map[string]table{
		"redis.url": {
			"none":                        {func(c *config.Config) { c.Redis.URL = "" }, ""},
			"host":                        {func(c *config.Config) { c.Redis.URL = "redis://localhost" }, ""},
			"host and slash":              {func(c *config.Config) { c.Redis.URL = "redis://localhost/" }, ""},
			"everything":                  {func(c *config.Config) { c.Redis.URL = "rediss://user:p%23@r.example:6380/15" }, ""},
			"password only":               {func(c *config.Config) { c.Redis.URL = "redis://:secret@10.0.0.1:1" }, ""},
			"IPv6":                        {func(c *config.Config) { c.Redis.URL = "redis://[::1]:65535" }, ""},
			"socket":                      {func(c *config.Config) { c.Redis.URL = "redis-socket:///run/redis.sock" }, ""},
			"socket, password, database":  {func(c *config.Config) { c.Redis.URL = "redis-socket://:pw@/run/redis.sock?db=2" }, ""},
			"Sentinel":                    {func(c *config.Config) { c.Redis.URL = "redis-sentinel://a:1,b:2/0?master=m" }, ""},
			"Sentinel, no master":         {func(c *config.Config) { c.Redis.URL = "redis-sentinel://a:1,b:2/0" }, "redis.url does not name the master; write redis-sentinel://host:26379,host:26379/0?master=name, with the name in the configuration of the sentinels"},
			"Cluster":                     {func(c *config.Config) { c.Redis.URL = "redis-cluster://a:1,b:2" }, ""},
			"Cluster with a database":     {func(c *config.Config) { c.Redis.URL = "redis-cluster://a:1,b:2/0" }, "redis.url has a part after the hosts; a cluster has no databases to choose from"},
			"other scheme":                {func(c *config.Config) { c.Redis.URL = "http://localhost" }, "redis.url " + redis},
			"no scheme":                   {func(c *config.Config) { c.Redis.URL = "localhost:6379" }, "redis.url " + redis},
			"no slashes":                  {func(c *config.Config) { c.Redis.URL = "redis:localhost" }, "redis.url " + redis},
			"no host":                     {func(c *config.Config) { c.Redis.URL = "redis:///0" }, "redis.url has no host; write redis://host:6379/0"},
			"port only":                   {func(c *config.Config) { c.Redis.URL = "redis://:6379" }, "redis.url has no host; write redis://host:6379/0"},
			"port 0":                      {func(c *config.Config) { c.Redis.URL = "redis://h:0" }, "redis.url has a port that is not between 1 and 65535"},
			"port too large":              {func(c *config.Config) { c.Redis.URL = "redis://h:65536" }, "redis.url has a port that is not between 1 and 65535"},
			"port missing":                {func(c *config.Config) { c.Redis.URL = "redis://h:" }, "redis.url has a port that is not between 1 and 65535"},
			"port is a word":              {func(c *config.Config) { c.Redis.URL = "redis://h:x" }, "redis.url is not a valid URL; " + redisPct},
			"database is a word":          {func(c *config.Config) { c.Redis.URL = "redis://h/x" }, "redis.url has a database that is not a whole number from 0 on"},
			"negative database":           {func(c *config.Config) { c.Redis.URL = "redis://h/-1" }, "redis.url has a database that is not a whole number from 0 on"},
			"query":                       {func(c *config.Config) { c.Redis.URL = "redis://h/0?pool_size=1" }, "redis.url has a part after ?, which is not supported; the database is written as redis://host:6379/0"},
			"fragment":                    {func(c *config.Config) { c.Redis.URL = "redis://u:1#2@h" }, "redis.url has a part after #; " + redisPct},
			"user only":                   {func(c *config.Config) { c.Redis.URL = "redis://secret@h" }, "redis.url has a user without a password; a password alone is written as redis://:password@host"},
			"socket with host":            {func(c *config.Config) { c.Redis.URL = "redis-socket://run/redis.sock" }, "redis.url must name an absolute path, as in redis-socket:///run/redis.sock"},
			"socket without path":         {func(c *config.Config) { c.Redis.URL = "redis-socket:///" }, "redis.url must name an absolute path, as in redis-socket:///run/redis.sock"},
			"socket, nothing at all":      {func(c *config.Config) { c.Redis.URL = "redis-socket://" }, "redis.url must name an absolute path, as in redis-socket:///run/redis.sock"},
			"socket with bad query":       {func(c *config.Config) { c.Redis.URL = "redis-socket:///r?database=1" }, "redis.url has a part after ? that is not supported; only ?db=0 is"},
			"socket with bad database":    {func(c *config.Config) { c.Redis.URL = "redis-socket:///r?db=1&db=2" }, "redis.url has a database that is not a whole number from 0 on"},
			"socket, empty question mark": {func(c *config.Config) { c.Redis.URL = "redis-socket:///r?" }, "redis.url has a part after ? that is not supported; only ?db=0 is"},
		},
		"http.listen": {
			"free port":     {func(c *config.Config) { c.HTTP.Listen = "127.0.0.1:0" }, ""},
			"largest port":  {func(c *config.Config) { c.HTTP.Listen = "127.0.0.1:65535" }, ""},
			"port too big":  {func(c *config.Config) { c.HTTP.Listen = "127.0.0.1:65536" }, "http.listen must end in a port from 0 to 65535"},
			"named port":    {func(c *config.Config) { c.HTTP.Listen = "127.0.0.1:http" }, "http.listen must end in a port from 0 to 65535"},
			"empty port":    {func(c *config.Config) { c.HTTP.Listen = "127.0.0.1:" }, "http.listen must end in a port from 0 to 65535"},
			"port alone":    {func(c *config.Config) { c.HTTP.Listen = "8080" }, "http.listen " + listen},
			"empty":         {func(c *config.Config) { c.HTTP.Listen = "" }, "http.listen " + listen},
			"bare IPv6":     {func(c *config.Config) { c.HTTP.Listen = "::1:80" }, "http.listen " + listen},
			"with a scheme": {func(c *config.Config) { c.HTTP.Listen = "http://localhost:80" }, "http.listen " + listen},
		},
		"listening beyond loopback": {
			"loopback":           {func(c *config.Config) { c.HTTP.Listen = "127.8.9.1:80" }, ""},
			"loopback IPv6":      {func(c *config.Config) { c.HTTP.Listen = "[::1]:80" }, ""},
			"IPv4 in IPv6":       {func(c *config.Config) { c.HTTP.Listen = "[::ffff:127.0.0.1]:80" }, ""},
			"localhost":          {func(c *config.Config) { c.HTTP.Listen = "LocalHost:80" }, ""},
			"all addresses":      {func(c *config.Config) { c.HTTP.Listen = ":80" }, `http.listen is ":80"` + open},
			"all IPv4 addresses": {func(c *config.Config) { c.HTTP.Listen = "0.0.0.0:80" }, `http.listen is "0.0.0.0:80"` + open},
			"all IPv6 addresses": {func(c *config.Config) { c.HTTP.Listen = "[::]:80" }, `http.listen is "[::]:80"` + open},
			"one address":        {func(c *config.Config) { c.HTTP.Listen = "10.0.0.1:80" }, `http.listen is "10.0.0.1:80"` + open},
			"name":               {func(c *config.Config) { c.HTTP.Listen = "localhost.example:80" }, `http.listen is "localhost.example:80"` + open},
			"with keys":          {func(c *config.Config) { c.HTTP.Listen, c.HTTP.APIKeys = ":80", keys("a", goodKey) }, ""},
			"anonymous":          {func(c *config.Config) { c.HTTP.Listen, c.HTTP.AllowAnonymous = ":80", true }, ""},
			"with keys and anyway": {func(c *config.Config) {
				c.HTTP.Listen, c.HTTP.APIKeys, c.HTTP.AllowAnonymous = ":80", keys("a", goodKey), true
			}, ""},
		},
		"http.apiKeys": {
			"shortest":        {func(c *config.Config) { c.HTTP.APIKeys = keys("a", goodKey) }, ""},
			"longest name":    {func(c *config.Config) { c.HTTP.APIKeys = keys(name64, name64+"-") }, ""},
			"too long name":   {func(c *config.Config) { c.HTTP.APIKeys = keys(name64+"-", name64+name64) }, `http.apiKeys has the name [65 characters]` + keyName},
			"swapped":         {func(c *config.Config) { c.HTTP.APIKeys = keys(goodKey+goodKey, "backend") }, `http.apiKeys has a name of 32 characters with a key of 7` + keySwapped},
			"swapped, long":   {func(c *config.Config) { c.HTTP.APIKeys = keys(name64, "payments-in-production") }, `http.apiKeys has a name of 64 characters with a key of 22` + keySwapped},
			"swapped, short":  {func(c *config.Config) { c.HTTP.APIKeys = keys("secret-1", "backend") }, `http.apiKeys has a name of 8 characters with a key of 7` + keySwapped},
			"as long":         {func(c *config.Config) { c.HTTP.APIKeys = keys("0123456789ABCDEF", goodKey) }, `http.apiKeys has a name of 16 characters with a key of 16` + keySwapped},
			"name like a key": {func(c *config.Config) { c.HTTP.APIKeys = keys(goodKey+"/+=", name64) }, `http.apiKeys has the name [19 characters]` + keyName},
			"empty name":      {func(c *config.Config) { c.HTTP.APIKeys = keys("", goodKey) }, `http.apiKeys has the name ""` + keyName},
			"blank in name":   {func(c *config.Config) { c.HTTP.APIKeys = keys("a b", goodKey) }, `http.apiKeys has the name "a b"` + keyName},
			"line in name":    {func(c *config.Config) { c.HTTP.APIKeys = keys("a\n", goodKey) }, `http.apiKeys has the name "a\n"` + keyName},
			"short key":       {func(c *config.Config) { c.HTTP.APIKeys = keys("a", goodKey[1:]) }, `http.apiKeys has for "a" a key of 15 characters: at least 16 are needed`},
			"empty key":       {func(c *config.Config) { c.HTTP.APIKeys = keys("a", "") }, `http.apiKeys has for "a" a key of 0 characters: at least 16 are needed`},
			"blank in key":    {func(c *config.Config) { c.HTTP.APIKeys = keys("a", "01234567 89abcdef") }, `http.apiKeys has for "a"` + keyASCII},
			"umlaut in key":   {func(c *config.Config) { c.HTTP.APIKeys = keys("a", goodKey+"ä") }, `http.apiKeys has for "a"` + keyASCII},
			"line in key":     {func(c *config.Config) { c.HTTP.APIKeys = keys("a", goodKey+"\n") }, `http.apiKeys has for "a"` + keyASCII},
			"different keys":  {func(c *config.Config) { c.HTTP.APIKeys = map[string]config.Secret{"a": goodKey, "b": goodKey + "x"} }, ""},
			"same keys":       {func(c *config.Config) { c.HTTP.APIKeys = map[string]config.Secret{"a": goodKey, "b": goodKey} }, `http.apiKeys has the same key for "a" and "b": each caller needs its own`},
		},
		"http.maxBodyBytes": {
			"smallest":  {func(c *config.Config) { c.HTTP.MaxBodyBytes = 128 }, ""},
			"largest":   {func(c *config.Config) { c.HTTP.MaxBodyBytes = 1048576 }, ""},
			"too small": {func(c *config.Config) { c.HTTP.MaxBodyBytes = 127 }, "http.maxBodyBytes must be from 128 to 1048576, is 127"},
			"too large": {func(c *config.Config) { c.HTTP.MaxBodyBytes = 1048577 }, "http.maxBodyBytes must be from 128 to 1048576, is 1048577"},
		},
		"http.maxBatchBytes": {
			"smallest":  {func(c *config.Config) { c.HTTP.MaxBatchBytes = 1 << 20 }, ""},
			"largest":   {func(c *config.Config) { c.HTTP.MaxBatchBytes = 256 << 20 }, ""},
			"too small": {func(c *config.Config) { c.HTTP.MaxBatchBytes = 1<<20 - 1 }, "http.maxBatchBytes must be from 1048576 to 268435456, is 1048575"},
			"too large": {func(c *config.Config) { c.HTTP.MaxBatchBytes = 256<<20 + 1 }, "http.maxBatchBytes must be from 1048576 to 268435456, is 268435457"},
		},
		"dashboard.user": {
			"none":    {func(c *config.Config) {}, ""},
			"longest": {func(c *config.Config) { c.Dashboard = config.Dashboard{User: name64, Password: goodPassword} }, ""},
			"too long": {func(c *config.Config) {
				c.Dashboard = config.Dashboard{User: name64 + "-", Password: goodPassword}
			}, "dashboard.user " + dashboardUser},
			"colon":  {func(c *config.Config) { c.Dashboard = config.Dashboard{User: "a:b", Password: goodPassword} }, "dashboard.user " + dashboardUser},
			"blank":  {func(c *config.Config) { c.Dashboard = config.Dashboard{User: "a b", Password: goodPassword} }, "dashboard.user " + dashboardUser},
			"umlaut": {func(c *config.Config) { c.Dashboard = config.Dashboard{User: "ä", Password: goodPassword} }, "dashboard.user " + dashboardUser},
		},
		"dashboard.password": {
			"shortest": {func(c *config.Config) { c.Dashboard = config.Dashboard{User: "a", Password: goodPassword} }, ""},
			"colon":    {func(c *config.Config) { c.Dashboard = config.Dashboard{User: "a", Password: "0123456789:b"} }, ""},
			"too short": {func(c *config.Config) {
				c.Dashboard = config.Dashboard{User: "a", Password: "0123456789a"}
			}, "dashboard.password has 11 characters: at least 12 are needed"},
			"blank":        {func(c *config.Config) { c.Dashboard = config.Dashboard{User: "a", Password: goodPassword + " "} }, "dashboard.password " + dashboardASCII},
			"umlaut":       {func(c *config.Config) { c.Dashboard = config.Dashboard{User: "a", Password: goodPassword + "ä"} }, "dashboard.password " + dashboardASCII},
			"without user": {func(c *config.Config) { c.Dashboard.Password = goodPassword }, "dashboard.password needs a user: set dashboard.user as well"},
			"user alone":   {func(c *config.Config) { c.Dashboard.User = "a" }, "dashboard.password is missing: dashboard.user is set, and needs one"},
			"behind a proxy": {func(c *config.Config) {
				c.Dashboard = config.Dashboard{User: "a", Password: goodPassword, URL: "https://ops.example/x"}
			}, ""},
			"behind a proxy, without a password": {func(c *config.Config) { c.Dashboard.URL = "https://ops.example/x" },
				"dashboard.url is set, but dashboard.password is not: whoever reaches the proxy would be on this host"},
			"no address": {func(c *config.Config) {
				c.Dashboard = config.Dashboard{User: "a", Password: goodPassword, URL: "/pushq/monitoring"}
			}, "dashboard.url must start with http:// or https://"},
			"read only": {func(c *config.Config) { c.Dashboard.ReadOnly = true }, ""},
		},
		"swrve.url": {
			"http":       {func(c *config.Config) { c.Swrve.URL = "http://127.0.0.1:1/x" }, ""},
			"https":      {func(c *config.Config) { c.Swrve.URL = "HTTPS://swrve.example" }, ""},
			"empty":      {func(c *config.Config) { c.Swrve.URL = "" }, "swrve.url must start with http:// or https://" + swrveURL},
			"relative":   {func(c *config.Config) { c.Swrve.URL = "/push" }, "swrve.url must start with http:// or https://" + swrveURL},
			"ftp":        {func(c *config.Config) { c.Swrve.URL = "ftp://x/push" }, "swrve.url must start with http:// or https://" + swrveURL},
			"no host":    {func(c *config.Config) { c.Swrve.URL = "https:///push" }, "swrve.url has no host" + swrveURL},
			"no slashes": {func(c *config.Config) { c.Swrve.URL = "https:push" }, "swrve.url has no host" + swrveURL},
			"bad port":   {func(c *config.Config) { c.Swrve.URL = "https://h:65536" }, "swrve.url has a port that is not between 1 and 65535"},
			"unreadable": {func(c *config.Config) { c.Swrve.URL = "https://h:x" }, "swrve.url is not a valid URL" + swrveURL},
			"user":       {func(c *config.Config) { c.Swrve.URL = "https://user@h" }, "swrve.url must not hold a user or password"},
			"password":   {func(c *config.Config) { c.Swrve.URL = "https://user:hush@h" }, "swrve.url must not hold a user or password"},
			"query":      {func(c *config.Config) { c.Swrve.URL = "https://h/?a=b" }, "swrve.url must not have a part after ? or #: the parameters of a push are added by pushq"},
			"fragment":   {func(c *config.Config) { c.Swrve.URL = "https://h/#a" }, "swrve.url must not have a part after ? or #: the parameters of a push are added by pushq"},
		},
		"swrve.delayMillis": {
			"smallest":     {func(c *config.Config) { c.Swrve.DelayMillis = 0.1 }, ""},
			"largest":      {func(c *config.Config) { c.Swrve.DelayMillis = 60000 }, ""},
			"zero":         {func(c *config.Config) { c.Swrve.DelayMillis = 0 }, "swrve.delayMillis must be from 0.1 to 60000, is 0"},
			"too small":    {func(c *config.Config) { c.Swrve.DelayMillis = 0.0999 }, "swrve.delayMillis must be from 0.1 to 60000, is 0.0999"},
			"too large":    {func(c *config.Config) { c.Swrve.DelayMillis = 60000.1 }, "swrve.delayMillis must be from 0.1 to 60000, is 60000.1"},
			"not a number": {func(c *config.Config) { c.Swrve.DelayMillis = math.NaN() }, "swrve.delayMillis must be from 0.1 to 60000, is NaN"},
		},
		"swrve.averageProcessingMillis": {
			"smallest":  {func(c *config.Config) { c.Swrve.AverageProcessingMillis = 1 }, ""},
			"zero":      {func(c *config.Config) { c.Swrve.AverageProcessingMillis = 0 }, "swrve.averageProcessingMillis must be from 1 to 480000, is 0"},
			"too large": {func(c *config.Config) { c.Swrve.AverageProcessingMillis = 480001 }, "swrve.averageProcessingMillis must be from 1 to 480000, is 480001"},
		},
		"swrve.concurrency": {
			"largest":   {func(c *config.Config) { c.Swrve.Concurrency = 5000 }, ""},
			"negative":  {func(c *config.Config) { c.Swrve.Concurrency = -1 }, "swrve.concurrency must be from 0 to 5000, is -1"},
			"too large": {func(c *config.Config) { c.Swrve.Concurrency = 5001 }, "swrve.concurrency must be from 0 to 5000, is 5001"},
		},
		"swrve.pollers": {
			"auto":     {func(c *config.Config) { c.Swrve.Pollers = config.AutoPollers }, ""},
			"most":     {func(c *config.Config) { c.Swrve.Pollers = 8 }, ""},
			"too many": {func(c *config.Config) { c.Swrve.Pollers = 9 }, "swrve.pollers must be auto or from 1 to 8, is 9"},
			"negative": {func(c *config.Config) { c.Swrve.Pollers = -1 }, "swrve.pollers must be auto or from 1 to 8, is -1"},
		},
		"pollers and concurrency": {
			"as many as pushes":  {func(c *config.Config) { c.Swrve.Pollers, c.Swrve.Concurrency = 4, 4 }, ""},
			"more than pushes":   {func(c *config.Config) { c.Swrve.Pollers, c.Swrve.Concurrency = 4, 3 }, "swrve.pollers is 4, more than the concurrency they share, 3"},
			"more than computed": {func(c *config.Config) { c.Swrve.Pollers, c.Swrve.DelayMillis = 4, 1000 }, "swrve.pollers is 4, more than the concurrency they share, 2"},
			"auto with one push": {func(c *config.Config) { c.Swrve.Concurrency = 1 }, ""},
		},
		"swrve.timeoutMillis": {
			"smallest":  {func(c *config.Config) { c.Swrve.TimeoutMillis, c.Swrve.AverageProcessingMillis = 100, 100 }, ""},
			"largest":   {func(c *config.Config) { c.Swrve.TimeoutMillis = 480000 }, ""},
			"too small": {func(c *config.Config) { c.Swrve.TimeoutMillis = 99 }, "swrve.timeoutMillis must be from 100 to 480000, is 99"},
			"too large": {func(c *config.Config) { c.Swrve.TimeoutMillis = 480001 }, "swrve.timeoutMillis must be from 100 to 480000, is 480001"},
		},
		"timeout and average": {
			"equal":     {func(c *config.Config) { c.Swrve.TimeoutMillis = 2000 }, ""},
			"too short": {func(c *config.Config) { c.Swrve.TimeoutMillis = 1999 }, "swrve.timeoutMillis is 1999, less than swrve.averageProcessingMillis, 2000: the average request would be cut off"},
		},
		"swrve.maxRetryAfter": {
			"smallest":  {func(c *config.Config) { c.Swrve.MaxRetryAfter = time.Second }, ""},
			"largest":   {func(c *config.Config) { c.Swrve.MaxRetryAfter = 24 * time.Hour }, ""},
			"too short": {func(c *config.Config) { c.Swrve.MaxRetryAfter = 999 * time.Millisecond }, "swrve.maxRetryAfter must be from 1s to 24h, is 999ms"},
			"too long":  {func(c *config.Config) { c.Swrve.MaxRetryAfter = 24*time.Hour + 1 }, "swrve.maxRetryAfter must be from 1s to 24h, is 24h0m0.000000001s"},
		},
		"swrve.retryStatuses": {
			"none":      {func(c *config.Config) { c.Swrve.RetryStatuses = nil }, ""},
			"borders":   {func(c *config.Config) { c.Swrve.RetryStatuses = []int{300, 599} }, ""},
			"success":   {func(c *config.Config) { c.Swrve.RetryStatuses = []int{500, 299} }, "swrve.retryStatuses must be from 300 to 599, is [500,299]"},
			"no status": {func(c *config.Config) { c.Swrve.RetryStatuses = []int{600} }, "swrve.retryStatuses must be from 300 to 599, is [600]"},
			"twice":     {func(c *config.Config) { c.Swrve.RetryStatuses = []int{500, 429, 500} }, "swrve.retryStatuses lists 500 twice"},
		},
		"swrve.messagePrototypePushKeys": {
			"iOS":     {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("Good bye", "IOS", "k") }, ""},
			"Android": {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("loan.approved", "ANDROID", "k") }, ""},
			"no platform": {func(c *config.Config) {
				c.Swrve.MessagePrototypePushKeys = map[string]map[string]config.Secret{"A": nil}
			}, ""},
			"no name":           {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("", "IOS", "k") }, "swrve.messagePrototypePushKeys has a message prototype without a name"},
			"other platform":    {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("A", "WINDOWS", "k") }, `swrve.messagePrototypePushKeys has for "A" the platform "WINDOWS": it must be IOS or ANDROID`},
			"swapped":           {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("A", "11111111-2222", "IOS") }, `swrve.messagePrototypePushKeys has for "A" a platform where the push key belongs; are the two swapped?`},
			"swapped in lower":  {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("A", "11111111-2222", "android") }, `swrve.messagePrototypePushKeys has for "A" a platform where the push key belongs; are the two swapped?`},
			"platform in lower": {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("A", "ios", "k") }, `swrve.messagePrototypePushKeys has for "A" the platform "ios": it must be IOS or ANDROID`},
			"empty key":         {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("A", "IOS", "") }, `swrve.messagePrototypePushKeys has for "A" an empty push key for IOS`},
			"blank key":         {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("A", "IOS", " ") }, `swrve.messagePrototypePushKeys has for "A" a push key for IOS that begins or ends with a blank or a line break`},
			"line after key":    {func(c *config.Config) { c.Swrve.MessagePrototypePushKeys = pushKeys("A", "IOS", "k\n") }, `swrve.messagePrototypePushKeys has for "A" a push key for IOS that begins or ends with a blank or a line break`},
		},
		"push.retry.maxAttempts": {
			"fewest":   {func(c *config.Config) { c.Push.Retry.MaxAttempts = 1 }, ""},
			"most":     {func(c *config.Config) { c.Push.Retry.MaxAttempts = 1000 }, ""},
			"zero":     {func(c *config.Config) { c.Push.Retry.MaxAttempts = 0 }, "push.retry.maxAttempts must be from 1 to 1000, is 0"},
			"too many": {func(c *config.Config) { c.Push.Retry.MaxAttempts = 1001 }, "push.retry.maxAttempts must be from 1 to 1000, is 1001"},
		},
		"push.retry.delayInSeconds": {
			"shortest": {func(c *config.Config) { c.Push.Retry.DelayInSeconds = 1 }, ""},
			"longest":  {func(c *config.Config) { c.Push.Retry.DelayInSeconds = 604800 }, ""},
			"zero":     {func(c *config.Config) { c.Push.Retry.DelayInSeconds = 0 }, "push.retry.delayInSeconds must be from 1 to 604800, is 0"},
			"too long": {func(c *config.Config) { c.Push.Retry.DelayInSeconds = 604801 }, "push.retry.delayInSeconds must be from 1 to 604800, is 604801"},
		},
		"push.timeZone": {
			"UTC":     {func(c *config.Config) { c.Push.TimeZone = "UTC" }, ""},
			"zone":    {func(c *config.Config) { c.Push.TimeZone = "America/Argentina/Buenos_Aires" }, ""},
			"unknown": {func(c *config.Config) { c.Push.TimeZone = "Mars/Base" }, `push.timeZone is not usable: the time zone "Mars/Base" is not known` + zone},
			"local":   {func(c *config.Config) { c.Push.TimeZone = "Local" }, `push.timeZone is not usable: the time zone "Local" is not known` + zone},
			"empty":   {func(c *config.Config) { c.Push.TimeZone = "" }, `push.timeZone is not usable: the time zone given is not known` + zone},
			"path":    {func(c *config.Config) { c.Push.TimeZone = "../UTC" }, `push.timeZone is not usable: the time zone "../UTC" is not known` + zone},
		},
		"push.maxScheduleDays": {
			"fewest":   {func(c *config.Config) { c.Push.MaxScheduleDays = 1 }, ""},
			"most":     {func(c *config.Config) { c.Push.MaxScheduleDays = 3650 }, ""},
			"zero":     {func(c *config.Config) { c.Push.MaxScheduleDays = 0 }, "push.maxScheduleDays must be from 1 to 3650, is 0"},
			"too many": {func(c *config.Config) { c.Push.MaxScheduleDays = 3651 }, "push.maxScheduleDays must be from 1 to 3650, is 3651"},
		},
		"push.retention": {
			"shortest":               {func(c *config.Config) { c.Push.Retention.Completed = time.Second }, ""},
			"longest":                {func(c *config.Config) { c.Push.Retention.Dead = 87600 * time.Hour }, ""},
			"completed below second": {func(c *config.Config) { c.Push.Retention.Completed = 500 * time.Millisecond }, "push.retention.completed must be from 1s to 87600h, is 500ms"},
			"completed fraction":     {func(c *config.Config) { c.Push.Retention.Completed = 1500 * time.Millisecond }, "push.retention.completed must be whole seconds, is 1.5s"},
			"sent below second":      {func(c *config.Config) { c.Push.Retention.Sent = 0 }, "push.retention.sent must be from 1s to 87600h, is 0s"},
			"sent fraction":          {func(c *config.Config) { c.Push.Retention.Sent += time.Nanosecond }, "push.retention.sent must be whole seconds, is 24h0m0.000000001s"},
			"dead fraction":          {func(c *config.Config) { c.Push.Retention.Dead += time.Millisecond }, "push.retention.dead must be whole seconds, is 720h0m0.001s"},
			"negative":               {func(c *config.Config) { c.Push.Retention.Dead = -time.Second }, "push.retention.dead must be from 1s to 87600h, is -1s"},
			"too long":               {func(c *config.Config) { c.Push.Retention.Sent = 87601 * time.Hour }, "push.retention.sent must be from 1s to 87600h, is 87601h"},
		},
		"retention of sent and completed": {
			"equal":    {func(c *config.Config) { c.Push.Retention.Sent = time.Hour }, ""},
			"too long": {func(c *config.Config) { c.Push.Retention.Sent = time.Hour - time.Second }, "push.retention.completed is 1h, more than push.retention.sent, 59m59s"},
		},
		"retention of dead and retries": {
			"equal": {func(c *config.Config) { c.Push.Retention.Dead, c.Swrve.MaxRetryAfter = 3*time.Minute, 3*time.Minute }, ""},
			"shorter than a wait": {func(c *config.Config) {
				c.Push.Retention.Dead, c.Swrve.MaxRetryAfter = time.Hour, 2*time.Hour
			}, "push.retention.dead is 1h, less than a push may have to wait for its next attempt: swrve.maxRetryAfter is 2h"},
			"too short": {func(c *config.Config) {
				c.Push.Retention.Dead, c.Swrve.MaxRetryAfter = 3*time.Minute-time.Second, time.Minute
			}, "push.retention.dead is 2m59s, less than all attempts may take: push.retry.maxAttempts x push.retry.delayInSeconds is 3m"},
		},
	}
	for rule, tests := range rules {
		for name, test := range tests {
			t.Run(rule+"/"+name, func(t *testing.T) {
				t.Parallel()
				changed := config.Default()
				test.change(&changed)
				err := changed.Validate()
				if test.want == "" {
					require.NoError(t, err)
					return
				}
				require.Equal(t, []string{test.want}, problems(t, err))
			})
		}
	}
}
