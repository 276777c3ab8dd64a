package tasks

// Followers are the streams in Redis in which others are told what becomes of a
// channel's pushes (Channel.FollowKey), by the scripts that write the records and so
// together with it. An entry has the push's id and its whole record, as JSON:
//
//	id     the push
//	record a Record
//
// An entry stays until a reader removes it (internal/follow).
type Followers struct {
	Ends     []string // told of each end of a push
	Attempts []string // told of each attempt that has an outcome, and of each end
}
