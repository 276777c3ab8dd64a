// Package testenv is the world that tests run in: real Redis servers on free
// ports, alone, with sentinels or as a cluster; a real PostgreSQL and a real RabbitMQ;
// certificates; a proxy that loses replies between a client and its Redis; and the real
// pushq binary as a process of its own. Whatever it starts ends with the test that asked
// for it, and also when the test process is killed.
//
// It needs Linux, redis-server and, for [Binary], the go command in PATH, PostgreSQL for
// [StartPostgres] and rabbitmq-server for [StartRabbitMQ].
//
// Everything that takes a [testing.TB] ends the test with a reason when
// something goes wrong, so such functions and the methods of what they return
// belong in the test's own goroutine, unless their documentation says more.
package testenv
