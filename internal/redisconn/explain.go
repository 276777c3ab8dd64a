package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// explain makes an error of the first contact that waiting does not mend an
// *UnfitError.
func explain(err error) error {
	if reason, remedy := adviceFor(err); reason != "" {
		return &UnfitError{Reason: reason, Remedy: remedy, cause: err}
	}
	return err
}

// answers are the beginnings of what Redis answers, or parts of what it tells
// by TLS, and what they mean. TLS has no types for what the other side says.
var answers = []struct{ text, reason, remedy string }{
	{"WRONGPASS", "it refuses the user or password in redis.url", "correct them"},
	{"NOAUTH", "it wants a password", "set the password that redis.url lacks (or redis.sentinelPassword, if it is a sentinel)"},
	{"DB index is out of range", "it refuses the database in redis.url", "choose one below its setting databases (0 to 15 by default; a cluster has only 0)"},
	{"cluster support disabled", "it is not a cluster", "write redis:// instead of redis-cluster://"},
	{"unknown command 'sentinel'", "it is not a sentinel", "name the sentinels in redis.url, which have port 26379 by default, or write redis:// for one server"},
	{"tls: certificate required", "it asks for a certificate", "set redis.tls.cert and redis.tls.key"},
	{"tls: unknown certificate authority", "it does not know the authority that has signed redis.tls.cert", "use a certificate of an authority in its tls-ca-cert-file"},
	{"tls: error decrypting message", "it does not know the authority that has signed redis.tls.cert, but another one of that name", "use a certificate of an authority in its tls-ca-cert-file"},
	{"tls: expired certificate", "the certificate redis.tls.cert has expired", "renew it"},
	{"tls: bad certificate", "it does not accept redis.tls.cert", "use a certificate for clients, of an authority in its tls-ca-cert-file"},
}

func adviceFor(err error) (reason, remedy string) {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is not signed by an authority that is known here", "name a file with that authority by redis.tls.ca"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "its certificate is for other names than the one dialled", "use a name of the certificate in redis.url; sentinels and clusters must announce such names too (sentinel announce-hostnames, cluster-announce-hostname)"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "its certificate has expired or is not valid yet", "renew it, or set this host's clock right"
		}
		return "its certificate is not valid for a server", "issue one that is"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "it does not speak TLS on this port", "name its TLS port, or write redis:// instead of rediss:// (without tls=true for sentinels and clusters)"
	}
	for _, answer := range answers {
		if strings.Contains(err.Error(), answer.text) {
			return answer.reason, answer.remedy
		}
	}
	if errors.Is(err, redis.Nil) {
		return "the sentinels know no master of the name that redis.url gives", "compare it with `sentinel monitor` in their configuration"
	}
	return "", ""
}
