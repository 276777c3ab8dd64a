package redisconn

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"pushq/internal/certificates"
	"pushq/internal/redisurl"
	"pushq/internal/secreturl"
)

// A Server says how a Redis is reached.
type Server struct {
	// URL has one of the forms of package redisurl.
	URL string
	// SentinelUser and SentinelPassword are for the sentinels; what stands in
	// the URL is for the servers that they name.
	SentinelUser, SentinelPassword string
	// TLS is used if the URL asks for TLS, for sentinels too.
	TLS certificates.Files
	// Patience is the least time that a command waits for its answer. 0 is for a Redis
	// that may be away: each use of it has a time of its own then.
	Patience time.Duration
	// MaxConnectionAge is how long a connection is used; 0 is without an end.
	MaxConnectionAge time.Duration
	// Log is told of renewed certificates and connections. It may be nil without
	// TLS.Cert.
	Log *slog.Logger
}

// clusterLook is how long a client goes on asking a dead master: go-redis looks
// for another one when it is answered "not here", and at this interval.
const clusterLook = time.Second

// A use says what the connections of one user must be like.
type use struct {
	pool        int // connections to each server
	timeout     time.Duration
	repeats     int // of a command whose connection has failed; -1 is none
	redirects   int // the same in a cluster, which may also answer "not here"; -1 is none
	obeyContext bool
}

// A target is a Server that has been read.
type target struct {
	address     redisurl.Address
	options     redis.UniversalOptions
	patience    time.Duration
	connections *connections // of all clients that are opened of it
}

func (s Server) target() (target, error) {
	address, err := redisurl.Parse(s.URL)
	if err != nil {
		return target{}, fmt.Errorf("redis.url %w", err)
	}
	var settings *tls.Config // without a name: the one that is dialled
	if address.TLS {
		if settings, err = s.TLS.Client(s.Log); err != nil {
			return target{}, fmt.Errorf("redis.tls: %w", err)
		}
	}
	mask := secreturl.NewMask([]string{address.Password, s.SentinelPassword}, address.User, s.SentinelUser)
	connections := newConnections(s.MaxConnectionAge, s.Log, mask)
	return target{address: address, patience: s.Patience, connections: connections, options: redis.UniversalOptions{
		Addrs:                    address.Hosts,
		MasterName:               address.Master,
		SentinelUsername:         s.SentinelUser,
		SentinelPassword:         s.SentinelPassword,
		Username:                 address.User,
		Password:                 address.Password,
		DB:                       address.Database,
		TLSConfig:                settings,
		Protocol:                 2,
		DisableIdentity:          true,
		ConnMaxIdleTime:          2 * time.Minute, // sooner than load balancers cut
		DialerRetries:            1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}}, nil
}

// A pipelining client can make an auto-pipeline of itself.
type pipelining interface {
	redis.UniversalClient
	AutoPipeline() (*redis.AutoPipeliner, error)
	AutoPipelineWithOptions(*redis.AutoPipelineOptions) (*redis.AutoPipeliner, error)
}

// open prepares a client. It reads from masters only, so that everybody reads
// what has been written before.
func (t target) open(u use) pipelining {
	client := t.openClient(u)
	client.AddHook(maskHook{t.connections.mask})
	return client
}

func (t target) openClient(u use) pipelining {
	u.timeout = max(u.timeout, t.patience)
	options := t.options
	options.PoolSize = u.pool
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = u.timeout, u.timeout, u.timeout, u.timeout
	options.MaxRetries, options.MaxRedirects = u.repeats, u.redirects
	options.ContextTimeoutEnabled = u.obeyContext
	options.Dialer = t.connections.dialer(redis.NewDialer(&redis.Options{DialTimeout: u.timeout, TLSConfig: options.TLSConfig}), u.timeout)
	switch t.address.Scheme {
	case redisurl.Sentinel:
		return redis.NewFailoverClient(options.Failover())
	case redisurl.Cluster:
		cluster := options.Cluster()
		cluster.MaxRetries = -1 // of each node: the cluster's client repeats
		cluster.ClusterStateReloadInterval = clusterLook
		return redis.NewClusterClient(cluster)
	case redisurl.Socket:
		local := options.Simple()
		local.Network, local.Addr = "unix", t.address.Socket
		return redis.NewClient(local)
	default:
		return redis.NewClient(options.Simple())
	}
}
