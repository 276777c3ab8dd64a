package config

// RabbitMQ is where messages for the channel fcm come from, besides POST /notifications.
type RabbitMQ struct {
	URL         Secret `key:"url" default:"" allowed:"amqp:// or amqps://" doc:"RabbitMQ: amqp://user:password@host:port/vhost, or amqps:// for TLS. Workers with fcm.enabled take messages from it. Its password is a secret."`
	Queue       string `key:"queue" default:"push.queue" doc:"Queue of the messages. It is made, durable, if there is none."`
	FailedQueue string `key:"failedQueue" default:"failed.queue" doc:"Queue for messages that cannot be read, or whose push has failed, each with the reason."`
	Prefetch    int    `key:"prefetch" default:"10" unit:"messages" min:"1" max:"1000" doc:"Messages in hand at a time, for each process."`
}

// History is where pushes can be found for longer than Redis keeps them.
type History struct {
	PostgresURL Secret `key:"postgresUrl" default:"" allowed:"postgres://" doc:"PostgreSQL database for pushes, attempts and the audit log of every channel: postgres://user:password@host:5432/database. Every process must have the same. Its password is a secret."`
}
