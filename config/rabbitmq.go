package config

// RabbitMQ is where messages for the channel fcm come from, besides POST /notifications.
type RabbitMQ struct {
	URL         Secret `key:"url" default:"" allowed:"amqp:// or amqps://" doc:"RabbitMQ: amqp://user:password@host:5672/vhost, or amqps:// for TLS; without /vhost, the one named /. Workers with fcm.enabled take notifications from it, and put those that fail there. Without it they come by POST /notifications only. To be the same in the end in every process with fcm.enabled; Redis remembers that one has it, and the failures of the others wait there. Its password is a secret."`
	Queue       string `key:"queue" default:"push.queue" doc:"Queue of the notifications. It is made, durable, if there is none; one that exists is taken as it is, but a stream is refused."`
	FailedQueue string `key:"failedQueue" default:"failed.queue" doc:"Queue for messages that cannot be taken, and for those whose push has ended FAILED or GIVEN_UP, each with the reason. It is made like the other one."`
	Prefetch    int    `key:"prefetch" default:"10" unit:"messages" min:"1" max:"1000" doc:"Messages in hand at a time, for each process. One is in hand until it is safe in Redis, which takes milliseconds; not until it is delivered."`
}
