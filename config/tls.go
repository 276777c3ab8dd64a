package config

import (
	"time"

	"pushq/internal/certificates"
	"pushq/internal/redisurl"
)

func redisTLS(c Config) certificates.Files { return certificates.Files(c.Redis.TLS) }

func httpTLS(c Config) certificates.Files { return certificates.Files(c.HTTP.TLS) }

func authoritiesAreReadable(files func(Config) certificates.Files) func(Config, func(string)) {
	return func(c Config, report func(string)) {
		if file := files(c).CA; file != "" {
			if _, err := certificates.ReadAuthorities(file); err != nil {
				report(err.Error())
			}
		}
	}
}

func certificateHasItsKey(files func(Config) certificates.Files) func(Config, func(string)) {
	return func(c Config, report func(string)) {
		switch f := files(c); {
		case f.Cert == "" && f.Key == "":
		case f.Cert == "":
			report("is missing: a key is set, and needs its certificate")
		case f.Key == "":
			report("is set without its key")
		default:
			if _, err := certificates.ReadPair(f.Cert, f.Key); err != nil {
				report(err.Error())
			}
		}
	}
}

// tlsIsUsed: whoever names a certificate believes that connections are
// encrypted.
func tlsIsUsed(files func(Config) certificates.Files, file func(certificates.Files) string) func(Config, func(string)) {
	return func(c Config, report func(string)) {
		address, err := redisurl.Parse(c.Redis.URL.Reveal())
		if file(files(c)) == "" || err != nil || address.TLS {
			return
		}
		switch address.Scheme {
		case redisurl.Sentinel, redisurl.Cluster:
			report("is set, but redis.url does not ask for TLS: add tls=true after its question mark")
		case redisurl.Socket:
			report("is set, but redis.url names a socket of this host, which knows no TLS: remove one of the two")
		default:
			report("is set, but redis.url does not ask for TLS: begin it with rediss:// instead of redis://")
		}
	}
}

// clientsAreAskedOverTLS: without a certificate of its own pushq speaks plain
// HTTP, where nobody shows one.
func clientsAreAskedOverTLS(c Config, report func(string)) {
	if c.HTTP.TLS.CA != "" && c.HTTP.TLS.Cert == "" {
		report("is set without http.tls.cert and http.tls.key: only over HTTPS can callers be asked for certificates")
	}
}

func sentinelsAreAsked(c Config, report func(string)) {
	address, err := redisurl.Parse(c.Redis.URL.Reveal())
	switch {
	case c.Redis.SentinelPassword == "" && c.Redis.SentinelUser != "":
		report("is missing: redis.sentinelUser is set, and needs one")
	case c.Redis.SentinelPassword != "" && err == nil && address.Scheme != redisurl.Sentinel:
		report("is set, but redis.url names no sentinels")
	}
}

func expiryWarnings(key string, files certificates.Files) []string {
	if files.Cert == "" {
		return nil
	}
	pair, err := certificates.ReadPair(files.Cert, files.Key)
	if err != nil {
		return nil // has been reported
	}
	const layout = time.RFC3339
	switch now := time.Now(); {
	case now.After(pair.Leaf.NotAfter):
		return []string{key + ": the certificate has expired at " + pair.Leaf.NotAfter.Format(layout) + ": others will refuse it until the file holds a new one"}
	case now.Before(pair.Leaf.NotBefore):
		return []string{key + ": the certificate is not valid before " + pair.Leaf.NotBefore.Format(layout) + ", or this host's clock is wrong"}
	default:
		return nil
	}
}
