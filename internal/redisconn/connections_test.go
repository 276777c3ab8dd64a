package redisconn

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/secreturl"
	"pushq/internal/testenv"
)

// After a failover behind one address the former master goes on answering on the
// connections that are open, whatever the words in which it refuses writes.
func TestAServerThatRefusesWritesIsLeftByAllClients(t *testing.T) {
	t.Parallel()
	for name, wording := range map[string]string{
		"redis":    "READONLY You can't write against a read only replica.",
		"a proxy":  "ERR operation not permitted: this instance is in read only mode",
		"no words": "upstream failure",
	} {
		for link, linked := range map[string]bool{"up": true, "down": false} {
			t.Run(fmt.Sprintf("in the words of %s, replica link %s", name, link), func(t *testing.T) {
				t.Parallel()
				former, next := testenv.StartRedis(t, "--replica-serve-stale-data", "no"), testenv.StartRedis(t)
				proxy := testenv.NewProxy(t, former.Addr())
				proxy.Reword("READONLY", wording)
				clients := open(t, proxy.URL())
				all := clients.each()
				all["dashboard"] = clients.OpenDashboard()
				t.Cleanup(func() { _ = all["dashboard"].Close() })
				subscription := clients.Queue.Subscribe(t.Context(), "channel")
				t.Cleanup(func() { _ = subscription.Close() })
				messages := subscription.Channel()
				proxy.SetLatency(20 * time.Millisecond) // so that those who ask at the same time have a connection each
				for name, client := range all {
					for _, address := range answerers(t, client) {
						require.Equal(t, former.Addr(), address, name)
					}
				}

				before := connectionIDs(t, former)
				demote(t, former, next, linked)
				proxy.LeadTo(next.Addr())
				_ = clients.Control.Set(t.Context(), "key", "value", 0).Err() // may have been repeated on a new connection

				for name, client := range all {
					if name == "records" {
						continue
					}
					for _, address := range answerers(t, client) {
						require.Equal(t, next.Addr(), address, name)
					}
					require.NoError(t, client.Set(t.Context(), name, 1, 0).Err(), name)
				}
				testenv.Eventually(t, 20*time.Second, "the records' pipeline to be there", func() bool {
					return !slices.Contains(answerers(t, clients.Records), former.Addr())
				})
				require.NoError(t, clients.Records.Set(t.Context(), "records", 1, 0).Err())
				testenv.Eventually(t, 20*time.Second, "the subscription to hear the new master", func() bool {
					require.NoError(t, next.Client(t).Publish(t.Context(), "channel", "message").Err())
					select {
					case <-messages:
						return true
					case <-time.After(50 * time.Millisecond):
						return false
					}
				})
				testenv.Eventually(t, 20*time.Second, "the former master to have none of the connections", func() bool {
					return !haveOneOf(connectionIDs(t, former), before)
				})
			})
		}
	}
}

// demote makes former a replica of next, or of nobody who answers.
func demote(t *testing.T, former, next *testenv.Redis, linked bool) {
	t.Helper()
	host, port, err := net.SplitHostPort(next.Addr())
	require.NoError(t, err)
	if !linked {
		_, port, err = net.SplitHostPort(testenv.FreeAddress(t))
		require.NoError(t, err)
	}
	require.NoError(t, former.Client(t).Do(t.Context(), "replicaof", host, port).Err())
	if linked {
		testenv.Eventually(t, 20*time.Second, "the replica's link to be up", func() bool {
			return strings.Contains(former.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
	}
}

// answerers are the addresses of the servers that answer ten callers who ask at
// the same time.
func answerers(t *testing.T, client redis.UniversalClient) []string {
	t.Helper()
	addresses := make([]string, 10)
	var asking sync.WaitGroup
	for i := range addresses {
		asking.Go(func() {
			addresses[i] = loopback(parseInfo(client.Info(t.Context(), "server").Val())["tcp_port"])
		})
	}
	asking.Wait()
	return addresses
}

func loopback(port string) string { return net.JoinHostPort("127.0.0.1", port) }

// connectionIDs are those of all connections that the server has, but for those that
// ask for them.
func connectionIDs(t *testing.T, server *testenv.Redis) map[string]bool {
	t.Helper()
	list, err := server.Client(t).ClientList(t.Context()).Result()
	require.NoError(t, err)
	ids := map[string]bool{}
	for line := range strings.Lines(list) {
		if id, rest, _ := strings.Cut(line, " "); !strings.Contains(rest, " cmd=client|list ") {
			ids[id] = true
		}
	}
	return ids
}

func haveOneOf(ids, others map[string]bool) bool {
	for id := range others {
		if ids[id] {
			return true
		}
	}
	return false
}

// A Redis that is full refuses writes, too, and a new connection would not help.
func TestAFullServerKeepsItsConnections(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clients := open(t, server.URL())
	for _, client := range clients.each() {
		require.NoError(t, client.Ping(t.Context()).Err())
	}
	before := connectionIDs(t, server)
	require.NoError(t, server.Client(t).ConfigSet(t.Context(), "maxmemory", "1").Err())
	for name, client := range clients.each() {
		require.ErrorContains(t, client.Set(t.Context(), "key", "value", 0).Err(), "OOM", name)
		require.ErrorContains(t, client.Eval(t.Context(), "return redis.call('set', KEYS[1], 1)", []string{"key"}).Err(), "OOM", name)
		require.Error(t, client.Do(t.Context(), "no-such-command").Err(), name)
		require.Error(t, client.LPush(t.Context(), "key").Err(), name)
		require.NoError(t, client.Ping(t.Context()).Err())
	}
	for id := range before {
		require.True(t, connectionIDs(t, server)[id], id)
	}
}

// The next connection would have the same user and run the same script.
func TestScriptsThatFailKeepTheConnections(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--user", "limited", "on", ">p", "~*", "+@all", "-set")
	clients := open(t, "redis://limited:p@"+server.Addr())
	for _, client := range clients.each() {
		require.NoError(t, client.Ping(t.Context()).Err())
	}
	before := connectionIDs(t, server)
	for name, client := range clients.each() {
		for _, script := range []string{
			"return redis.call('SET', KEYS[1], 1)",    // no right
			"return cjson.decode('no JSON')",          // an error of the script
			"return redis.call('INCR')",               // the wrong arguments
			"return redis.call('SUBSCRIBE', KEYS[1])", // not for scripts
			"no script",
		} {
			require.Error(t, client.Eval(t.Context(), script, []string{"key"}).Err(), name)
			require.NoError(t, client.Ping(t.Context()).Err())
		}
	}
	clients.target.connections.mutex.Lock()
	defer clients.target.connections.mutex.Unlock()
	require.True(t, clients.target.connections.renewed.IsZero(), "they were opened anew")
	for id := range before {
		require.True(t, connectionIDs(t, server)[id], id)
	}
}

// No command is lost when connections grow too old, be they in use all the time,
// now and then, or waiting for messages.
func TestConnectionsHaveAGreatestAge(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	clients, err := Server{URL: server.URL(), MaxConnectionAge: 300 * time.Millisecond}.Open(8)
	require.NoError(t, err)
	t.Cleanup(func() { _ = clients.Close() })
	subscription := clients.Queue.Subscribe(t.Context(), "channel")
	t.Cleanup(func() { _ = subscription.Close() })
	_ = subscription.Channel()
	for _, client := range clients.each() {
		require.NoError(t, client.Ping(t.Context()).Err())
	}
	first := connectionIDs(t, server)

	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for name, client := range clients.each() {
		for range 4 {
			busy.Go(func() {
				for ctx.Err() == nil {
					if err := client.Incr(t.Context(), name).Err(); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
	}
	testenv.Eventually(t, 30*time.Second, "none of the first connections to be left", func() bool {
		return !haveOneOf(connectionIDs(t, server), first)
	})
	stop()
	busy.Wait()
	testenv.Eventually(t, 20*time.Second, "the subscription to be back", func() bool {
		return server.Client(t).PubSubNumSub(t.Context(), "channel").Val()["channel"] == 1
	})
}

func TestRenewalsAreASecondApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newConnections(0, nil, secreturl.Mask{})
		opened := func() *connection {
			side, _ := net.Pipe()
			return all.add(side, time.Second)
		}
		first := opened()
		all.refused("READONLY")
		require.True(t, first.retired.Load(), "at once")

		second := opened()
		all.refused("READONLY")
		all.refused("READONLY")
		require.False(t, second.retired.Load())
		time.Sleep(renewInterval - time.Millisecond)
		synctest.Wait()
		require.False(t, second.retired.Load())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.True(t, second.retired.Load(), "a refusal that came too soon is not forgotten")

		third := opened()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.False(t, third.retired.Load(), "two refusals are one renewal")
		require.Equal(t, map[*connection]struct{}{third: {}}, all.open, "those that were retired have been closed")
		_, err := second.Write(nil)
		require.Error(t, err)
		require.NoError(t, third.Close())
		require.Empty(t, all.open)
	})
}

func TestWhichErrorsRefuseWrites(t *testing.T) {
	t.Parallel()
	for text, refuses := range map[string]bool{
		"READONLY You can't write against a read only replica.":                                                                              true,
		"READONLY You can't write against a read only replica. script: 9c1c, on @user_script:1.":                                             true,
		"ERR Error running script (call to f_9c1c): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.": true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                                   true,
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)":                                       true,
		"NOREPLICAS Not enough good replicas to write.":                                                                                      true,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":                                   true,
		"LOADING Redis is loading the dataset in memory":                                                                                     true,
		"ERR upstream is read only": true,
		"no upstream host":          true,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                              false,
		"ERR Error running script (call to f_9c1c): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.": false,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                                                    false,
		"ERR Error running script (call to f_9c1c): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value":         false,
		"ERR The user executing the script can't run this command or subcommand script: 9c1c, on @user_script:1.":                              false,
		"ERR ACL failure in script: User u has no permissions to run the 'set' command script: 9c1c, on @user_script:1.":                       false,
		"ERR user_script:1: Expected value but found invalid token at character 1 script: 9c1c, on @user_script:1.":                            false,
		"ERR Error running script (call to f_9c1c): @user_script:1: user_script:1: attempt to index local 'a' (a nil value)":                   false,
		"ERR Error compiling script (new function): user_script:1: '=' expected near 'error'":                                                  false,
		"ERR This Redis command is not allowed from script script: 9c1c, on @user_script:1.":                                                   false,
		"MISCONF Redis is configured to save RDB snapshots. script: 9c1c, on @user_script:1.":                                                  true,
		"NOSCRIPT No matching script. Please use EVAL.":                                                                                        false,
		"ERR max number of clients reached":                             false,
		"NOAUTH Authentication required.":                               false,
		"ERR DB index is out of range":                                  false,
		"NOPERM this user has no permissions to run the 'info' command": false,
		"ERR unknown command 'hello', with args beginning with: '2'":    false,
		"BUSYGROUP Consumer Group name already exists":                  false,
		"NOGROUP No such key 'pushq:{fcm}:ended' or consumer group":     false,
		"NOT FOUND":                 false,
		"MOVED 3999 127.0.0.1:6381": false,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": false,
		"ERR value is not an integer or out of range":                                            false,
		"EXECABORT Transaction discarded because of previous errors.":                            false,
		"section (memory) is not supported":                                                      false,
	} {
		require.Equal(t, refuses, refusesWritesOrIsUnknown(text), text)
	}
}

// Who only reads is never refused, and asks every few seconds which server it reads.
func TestACheckThatFindsAReplicaLeavesIt(t *testing.T) {
	t.Parallel()
	former, next := testenv.StartRedis(t), testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, former.Addr())
	clients := open(t, proxy.URL())
	_, err := clients.CheckServer(t.Context())
	require.NoError(t, err)
	demote(t, former, next, true)
	proxy.LeadTo(next.Addr())
	_, err = clients.CheckServer(t.Context())
	require.ErrorIs(t, err, ErrReplica)
	_, err = clients.CheckServer(t.Context())
	require.NoError(t, err)
}
