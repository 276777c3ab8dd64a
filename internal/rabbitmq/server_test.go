package rabbitmq

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// TestWithOneServer has the tests that leave the server as it is.
func TestWithOneServer(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	certFile, keyFile := authority.Issue(time.Now().Add(time.Hour), "localhost")
	server := testenv.StartRabbitMQ(t,
		"ssl_options.cacertfile = "+authority.File(), "ssl_options.certfile = "+certFile, "ssl_options.keyfile = "+keyFile)

	for name, test := range map[string]func(*world){
		"what is handled is gone":              testHandled,
		"a large message":                      testLargeMessage,
		"prefetch":                             testPrefetch,
		"failures are repeated":                testFailures,
		"nothing goes round while all fails":   testAllFails,
		"a panic is a failure":                 testPanic,
		"a poisonous message":                  testPoison,
		"a message in hand for long":           testOverdue,
		"a stop finishes what is in hand":      testStop,
		"a stop does not wait for ever":        testStopWithinGrace,
		"a stop leaves failures in the queue":  testStopWhileFailing,
		"a consumer makes the queue":           testConsumerMakesQueue,
		"a queue with other arguments":         testQueueAsItIs,
		"a stream":                             testStream,
		"a quorum queue":                       testQuorumQueue,
		"the queue is deleted":                 testQueueDeleted,
		"a cut connection brings it again":     testConsumerCut,
		"a network gone silent":                testSilentNetwork,
		"a wrong password":                     testWrongPassword,
		"missing permissions":                  testMissingPermissions,
		"exclusive use":                        testExclusiveUse,
		"a wrong virtual host":                 testWrongVirtualHost,
		"TLS":                                  func(w *world) { testTLS(w, authority, server.TLSPort()) },
		"published":                            testPublished,
		"published by many":                    testPublishedByMany,
		"published where nothing is":           testUnroutable,
		"a full queue":                         testFullQueue,
		"cut between message and confirmation": testCutBeforeConfirmation,
		"no confirmation":                      testNoConfirmation,
		"a publisher away from its server":     testPublisherAway,
		"a closed publisher":                   testPublisherClosed,
		"check and depth":                      testCheckAndDepth,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, server))
		})
	}
}

func testTLS(w *world, authority *testenv.Authority, port string) {
	url := func(host string) string {
		return fmt.Sprintf("amqps://guest:guest@%s:%s/?cacertfile=%s", host, port, authority.File())
	}
	publisher := w.publisher(func(o *PublisherOptions) { o.URL = url("localhost") })
	require.NoError(w, publisher.Publish(within(w, patience), w.queue, []byte("{}")))
	got := newSeen()
	w.run(got.count, func(o *ConsumerOptions) { o.URL = url("localhost") })
	got.waitForBodies(w, 1)

	stranger := w.publisher(func(o *PublisherOptions) { o.URL = url("127.0.0.1") })
	require.ErrorContains(w, stranger.Check(w.Context()), "certificate")
}
