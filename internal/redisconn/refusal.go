package redisconn

import "strings"

// otherErrors are parts of errors that tell of the command or script, its keys or its
// user, and of OOM: a new connection would bring the same, and if there are too many
// of them, none at all. In Redis before 7.0 a script's errors have them in the middle.
// Since 7.0 "@user_script:" stands behind each error of a script, a refusal of writes too;
// those of the script itself have it without the @.
var otherErrors = []string{
	"NOSCRIPT ", "WRONGTYPE ", "OOM ", "EXECABORT ", "CROSSSLOT ", "BUSYGROUP ", "NOGROUP ", "BUSYKEY ", "BUSY ", "NOTBUSY ", "UNKILLABLE ",
	"NOAUTH ", "NOPERM ", "WRONGPASS ", "NOPROTO ", "DENIED ",
	"The user executing the script", "ACL failure in script", // a lack of rights in a script, in Redis 7.0 and since 7.2
	" user_script:", "compiling script", "not allowed from script", "Wrong number of args calling",
	"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN ",
	"NOT FOUND", "not found", "INTERNAL", "internal error", // asynq's scripts
	"max number of clients", "AUTH", "invalid password", "invalid username-password", "DB index", "SELECT is not allowed",
	"unknown command", "unknown subcommand", "nknown Redis command", "wrong number of arguments", "syntax error", "Protocol error",
	"section (", // of INFO, that is not supported
	"no such key", "not an integer", "not a valid float", "out of range",
}

// refusesWritesOrIsUnknown reports whether an error of Redis may say that this server
// takes no writes for now. Proxies and hosted services have words of their own for that,
// so it is every error that is not known to say something else.
func refusesWritesOrIsUnknown(text string) bool {
	for _, other := range otherErrors {
		if strings.Contains(text, other) {
			return false
		}
	}
	return true
}
