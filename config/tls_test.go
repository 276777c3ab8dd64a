package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/testenv"
)

func TestValidateTLS(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(time.Now().Add(time.Hour), "localhost")
	_, otherKey := authority.Issue(time.Now().Add(time.Hour), "localhost")
	missing := filepath.Join(t.TempDir(), "missing.pem")
	notPEM := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(notPEM, []byte("hello"), 0o600))
	redis := func(url string, tls config.RedisTLS) config.Config {
		c := config.Default()
		c.Redis.URL, c.Redis.TLS = config.RedisURL(url), tls
		return c
	}
	http := func(tls config.HTTPTLS) config.Config {
		c := config.Default()
		c.HTTP.TLS = tls
		return c
	}
	sentinel := func(url, user, password string) config.Config {
		c := redis(url, config.RedisTLS{})
		c.Redis.SentinelUser, c.Redis.SentinelPassword = user, config.Secret(password)
		return c
	}
	for name, test := range map[string]struct {
		config config.Config
		want   string // empty: valid
	}{
		"none":                      {redis("redis://h", config.RedisTLS{}), ""},
		"all":                       {redis("rediss://h", config.RedisTLS{CA: authority.File(), Cert: cert, Key: key}), ""},
		"authority only":            {redis("rediss://h", config.RedisTLS{CA: authority.File()}), ""},
		"certificate only":          {redis("rediss://h", config.RedisTLS{Cert: cert, Key: key}), ""},
		"before the URL is known":   {redis("", config.RedisTLS{CA: authority.File()}), ""},
		"sentinels":                 {redis("redis-sentinel://a,b?master=m&tls=true", config.RedisTLS{CA: authority.File()}), ""},
		"cluster":                   {redis("redis-cluster://a,b?tls=true", config.RedisTLS{CA: authority.File()}), ""},
		"no such file":              {redis("rediss://h", config.RedisTLS{CA: missing}), "redis.tls.ca cannot be read: no such file or directory"},
		"a directory":               {redis("rediss://h", config.RedisTLS{CA: filepath.Dir(missing)}), "redis.tls.ca cannot be read: is a directory"},
		"no certificate":            {redis("rediss://h", config.RedisTLS{CA: notPEM}), "redis.tls.ca holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)"},
		"a key as authority":        {redis("rediss://h", config.RedisTLS{CA: key}), "redis.tls.ca holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)"},
		"key without certificate":   {redis("rediss://h", config.RedisTLS{Key: key}), "redis.tls.cert is missing: a key is set, and needs its certificate"},
		"certificate without key":   {redis("rediss://h", config.RedisTLS{Cert: cert}), "redis.tls.cert is set without its key"},
		"another key":               {redis("rediss://h", config.RedisTLS{Cert: cert, Key: otherKey}), "redis.tls.cert and its key cannot be used: tls: private key does not match public key"},
		"no such key":               {redis("rediss://h", config.RedisTLS{Cert: cert, Key: missing}), "redis.tls.cert has a key that cannot be read: no such file or directory"},
		"plain redis":               {redis("redis://h", config.RedisTLS{CA: authority.File()}), "redis.tls.ca is set, but redis.url does not ask for TLS: begin it with rediss:// instead of redis://"},
		"plain redis, certificate":  {redis("redis://h", config.RedisTLS{Cert: cert, Key: key}), "redis.tls.cert is set, but redis.url does not ask for TLS: begin it with rediss:// instead of redis://"},
		"plain sentinels":           {redis("redis-sentinel://a?master=m", config.RedisTLS{CA: authority.File()}), "redis.tls.ca is set, but redis.url does not ask for TLS: add tls=true after its question mark"},
		"plain cluster":             {redis("redis-cluster://a", config.RedisTLS{CA: authority.File()}), "redis.tls.ca is set, but redis.url does not ask for TLS: add tls=true after its question mark"},
		"socket":                    {redis("redis-socket:///r", config.RedisTLS{CA: authority.File()}), "redis.tls.ca is set, but redis.url names a socket of this host, which knows no TLS: remove one of the two"},
		"https":                     {http(config.HTTPTLS{Cert: cert, Key: key}), ""},
		"https with certificates":   {http(config.HTTPTLS{CA: authority.File(), Cert: cert, Key: key}), ""},
		"https, authority only":     {http(config.HTTPTLS{CA: authority.File()}), "http.tls.ca is set without http.tls.cert and http.tls.key: only over HTTPS can callers be asked for certificates"},
		"https, key only":           {http(config.HTTPTLS{Key: key}), "http.tls.cert is missing: a key is set, and needs its certificate"},
		"https, another key":        {http(config.HTTPTLS{Cert: cert, Key: otherKey}), "http.tls.cert and its key cannot be used: tls: private key does not match public key"},
		"sentinel password":         {sentinel("redis-sentinel://a?master=m", "", "p"), ""},
		"sentinel user":             {sentinel("redis-sentinel://a?master=m", "u", "p"), ""},
		"sentinel user only":        {sentinel("redis-sentinel://a?master=m", "u", ""), "redis.sentinelPassword is missing: redis.sentinelUser is set, and needs one"},
		"sentinel password, no use": {sentinel("redis://a", "", "p"), "redis.sentinelPassword is set, but redis.url names no sentinels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.config.Validate()
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, "invalid configuration:\n  "+test.want)
			}
		})
	}
}

// Whoever shows a certificate is not a stranger.
func TestCertificatesKeepStrangersOut(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	c := config.Default()
	c.HTTP.Listen = "0.0.0.0:8080"
	c.HTTP.TLS.Cert, c.HTTP.TLS.Key = authority.Issue(time.Now().Add(time.Hour), "localhost")
	require.ErrorContains(t, c.Validate(), "http.listen ")
	c.HTTP.TLS.CA = authority.File()
	require.NoError(t, c.Validate())
}

func TestExpiredCertificatesAreWarnedAbout(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	good, goodKey := authority.Issue(time.Now().Add(time.Hour), "localhost")
	expired, expiredKey := authority.Issue(time.Now().Add(-time.Hour), "localhost")
	warnings := func(redisCert, redisKey, httpCert, httpKey string) []string {
		loaded, err := load("", "PUSHQ_REDIS_URL=rediss://h",
			"PUSHQ_REDIS_TLS_CERT="+redisCert, "PUSHQ_REDIS_TLS_KEY="+redisKey,
			"PUSHQ_HTTP_TLS_CERT="+httpCert, "PUSHQ_HTTP_TLS_KEY="+httpKey)
		require.NoError(t, err)
		return loaded.Warnings
	}
	require.Empty(t, warnings(good, goodKey, good, goodKey))
	got := warnings(expired, expiredKey, good, goodKey)
	require.Len(t, got, 1)
	require.Contains(t, got[0], "redis.tls.cert: the certificate has expired at ")
	got = warnings(good, goodKey, expired, expiredKey)
	require.Len(t, got, 1)
	require.Contains(t, got[0], "http.tls.cert: the certificate has expired at ")
}
