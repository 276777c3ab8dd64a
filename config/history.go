package config

// History is where pushes can be found for longer than Redis keeps them.
type History struct {
	PostgresURL Secret `key:"postgresUrl" default:"" allowed:"postgres://" doc:"PostgreSQL database for pushes, attempts and the audit log of every channel: postgres://user:password@host:5432/database, with sslmode=verify-full and the like after a question mark. pushq makes its tables there when it first uses it. Without it there is no history, and GET /history answers 404. To be the same in the end in every process that shares the Redis; Redis remembers that one has it, and what the others end waits there. Its password is a secret."`
}
