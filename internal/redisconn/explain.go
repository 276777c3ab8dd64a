package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// A TroubleError is an error of Redis with what it means and what to do. Waiting may
// mend it: a server that cannot be used at all has an *UnfitError.
type TroubleError struct {
	Reason, Remedy string
	cause          error
}

func (e *TroubleError) Error() string {
	return fmt.Sprintf("redis: %s: %s: %s", e.Reason, e.Remedy, e.cause)
}

// Unwrap leaves the cause to errors.Is and errors.As.
func (e *TroubleError) Unwrap() error { return e.cause }

// Explain adds to an error of Redis what it means and what to do about it, if that is
// known: as a *TroubleError, or as an *UnfitError if waiting does not mend it. Any other
// error stays as it is.
func Explain(err error) error {
	if err == nil || errors.Is(err, ErrUnfit) {
		return err
	}
	if _, told := errors.AsType[*TroubleError](err); told {
		return err
	}
	advice, known := adviceFor(err)
	switch {
	case !known:
		return err
	case advice.passes:
		return &TroubleError{Reason: advice.reason, Remedy: advice.remedy, cause: err}
	default:
		return &UnfitError{Reason: advice.reason, Remedy: advice.remedy, cause: err}
	}
}

// advice is what an error means, and what to do.
type advice struct {
	reason, remedy string
	passes         bool // waiting may mend it
}

var lacksRight = advice{"its user in redis.url lacks a right", "give it those that docs/redis.md lists (ACL SETUSER)", true}

// answers are parts of what Redis answers, or tells by TLS, and what they mean. TLS has no
// types for what the other side says, and asynq passes errors of its scripts on as text.
// What waiting may mend stands first: an error of a script may quote others behind it.
var answers = []struct {
	text string
	advice
}{
	{"OOM ", advice{"it has no memory left (maxmemory) and takes no writes", "raise maxmemory, such as by `redis-cli CONFIG SET maxmemory` (and in redis.conf), or wait until older records have expired", true}},
	{"READONLY ", advice{"it is a replica, which takes no writes", "name its master by redis.url, or wait until a failover is over", true}},
	{"NOREPLICAS ", advice{"it has too few replicas that are up to date (min-replicas-to-write) and takes no writes", "bring the replicas back, or lower min-replicas-to-write", true}},
	{"MISCONF ", advice{"it cannot write its snapshot or append-only file and takes no writes", "look into its log: most often the disk is full", true}},
	{"LOADING ", advice{"it is reading its data after a start", "wait until it has done so", true}},
	{"MASTERDOWN ", advice{"it is a replica whose master is away", "wait for the failover, or bring the master back", true}},
	{"CLUSTERDOWN ", advice{"the cluster has no master for some of the keys", "bring the missing master back: redis-cli --cluster check shows which", true}},
	{"BUSY ", advice{"a script has held it up for seconds", "wait for its end (a command of asynq's tools on very many tasks?)", true}},
	{"max number of clients", advice{"it has as many clients as it allows (maxclients)", "raise maxclients, such as by `redis-cli CONFIG SET maxclients` (and in redis.conf), or find out who holds the connections: redis-cli CLIENT LIST", true}},
	{"NOPERM", lacksRight},
	{"The user executing the script", lacksRight}, // Redis 7.0
	{"ACL failure in script", lacksRight},         // since Redis 7.2

	{"WRONGPASS", advice{"it refuses the user or password in redis.url", "correct them", false}},
	{"NOAUTH", advice{"it wants a password", "set the password that redis.url lacks (or redis.sentinelPassword, if it is a sentinel)", false}},
	{"DB index is out of range", advice{"it refuses the database in redis.url", "choose one below its setting databases (0 to 15 by default; a cluster has only 0)", false}},
	{"cluster support disabled", advice{"it is not a cluster", "write redis:// instead of redis-cluster://", false}},
	{"unknown command 'sentinel'", advice{"it is not a sentinel", "name the sentinels in redis.url, which have port 26379 by default, or write redis:// for one server", false}},
	{"tls: certificate required", advice{"it asks for a certificate", "set redis.tls.cert and redis.tls.key", false}},
	{"tls: unknown certificate authority", advice{"it does not know the authority that has signed redis.tls.cert", "use a certificate of an authority in its tls-ca-cert-file", false}},
	{"tls: error decrypting message", advice{"it does not know the authority that has signed redis.tls.cert, but another one of that name", "use a certificate of an authority in its tls-ca-cert-file", false}},
	{"tls: expired certificate", advice{"the certificate redis.tls.cert has expired", "renew it", false}},
	{"tls: bad certificate", advice{"it does not accept redis.tls.cert", "use a certificate for clients, of an authority in its tls-ca-cert-file", false}},
}

func adviceFor(err error) (found advice, known bool) {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return advice{"its certificate is not signed by an authority that is known here", "name a file with that authority by redis.tls.ca", false}, true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return advice{"its certificate is for other names than the one dialled", "use a name of the certificate in redis.url; sentinels and clusters must announce such names too (sentinel announce-hostnames, cluster-announce-hostname)", false}, true
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return advice{"its certificate has expired or is not valid yet", "renew it, or set this host's clock right", false}, true
		}
		return advice{"its certificate is not valid for a server", "issue one that is", false}, true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return advice{"it does not speak TLS on this port", "name its TLS port, or write redis:// instead of rediss:// (without tls=true for sentinels and clusters)", false}, true
	}
	for _, answer := range answers {
		if strings.Contains(err.Error(), answer.text) {
			return answer.advice, true
		}
	}
	if errors.Is(err, redis.Nil) {
		return advice{"the sentinels know no master of the name that redis.url gives", "compare it with `sentinel monitor` in their configuration", false}, true
	}
	return connectionAdvice(err)
}

// connectionAdvice is about a connection that did not come about, or ended at once. All of
// it may be over soon.
func connectionAdvice(err error) (advice, bool) {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return advice{"its name in redis.url cannot be resolved", "correct the name, or this host's name service", true}, true
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return advice{"nobody listens at the address in redis.url", "start it, or correct the address", true}, true
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return advice{"it ended the connection without an answer", "if it speaks TLS on this port, write rediss:// instead of redis:// (tls=true for sentinels and clusters); else it may have as many clients as it allows (maxclients), or have just stopped: look into its log", true}, true
	case errors.Is(err, context.DeadlineExceeded), ok && timeout.Timeout():
		// A Redis without TLS waits for more when somebody begins to speak it.
		return advice{"it does not answer", "see whether it runs, whether a firewall lies between, and whether it speaks TLS on this port if redis.url says so (rediss://, tls=true)", true}, true
	default:
		return advice{}, false
	}
}
