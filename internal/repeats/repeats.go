// Package repeats keeps a log readable while something fails thousands of times a second:
// warnings and errors that are alike are counted, and told once a second.
package repeats

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// interval is how often lines that are alike are told.
	interval = time.Second
	// maxKinds bounds the memory. While there are so many, lines are alike whose level and
	// message are.
	maxKinds = 256
	// maxClass is how much of an attribute tells its class.
	maxClass = 200
)

// Attribute says how many lines a line stands for, if it is more than one.
const Attribute = "repeated"

// A Handler passes the first line of a kind on at once, and then the latest of those like
// it, once a second, with their number. Two lines are of one kind if their level, message
// and logger are the same, and their attributes but for numbers and ids. What is below slog.LevelWarn passes as it is. Close tells what is left.
type Handler struct {
	next slog.Handler
	// scope is what With and WithGroup have added.
	scope string
	seen  *seen
}

// seen is what the loggers made of one handler have in common.
type seen struct {
	mutex  sync.Mutex
	closed bool
	kinds  map[string]*kind
	timer  *time.Timer // nil while there are no kinds
}

// A kind is one that was told a while ago.
type kind struct {
	count  int // of lines since then
	last   slog.Record
	next   slog.Handler
	silent bool // had no line between the last two times that all kinds were told
}

// New returns a handler that writes to next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, seen: &seen{kinds: make(map[string]*kind)}}
}

// Enabled is that of the next handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs returns a handler that counts together with this one.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	scope := h.scope
	for _, attr := range attrs {
		scope += attr.String() + " "
	}
	return &Handler{h.next.WithAttrs(attrs), scope, h.seen}
}

// WithGroup returns a handler that counts together with this one.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.scope + name + ". ", h.seen}
}

// Handle passes the record on, or keeps it for the next time.
func (h *Handler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn && h.seen.before(h, record) {
		return nil
	}
	return h.next.Handle(ctx, record)
}

// Close tells what has not been told, and from then on everything at once.
func (h *Handler) Close() {
	h.seen.mutex.Lock()
	defer h.seen.mutex.Unlock()
	h.seen.closed = true
	if h.seen.timer != nil {
		h.seen.timer.Stop()
	}
	h.seen.tellAll()
	clear(h.seen.kinds)
}

// before reports whether there was a line like this one, and keeps it then.
func (s *seen) before(h *Handler, record slog.Record) bool {
	group := record.Level.String() + " " + record.Message
	name := group + "\n" + h.scope + "\n" + class(record)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return false
	}
	if s.kinds[name] == nil && len(s.kinds) >= maxKinds {
		name = group
	}
	if like := s.kinds[name]; like != nil {
		like.count, like.last, like.next, like.silent = like.count+1, record.Clone(), h.next, false
		return true
	}
	s.kinds[name] = new(kind)
	if s.timer == nil {
		s.timer = time.AfterFunc(interval, s.tell)
	}
	return false
}

// tell is called once a second while there are kinds.
func (s *seen) tell() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return
	}
	s.tellAll()
	for name, k := range s.kinds {
		if k.silent {
			delete(s.kinds, name)
		}
		k.silent = true
	}
	if s.timer = nil; len(s.kinds) > 0 {
		s.timer = time.AfterFunc(interval, s.tell)
	}
}

// tellAll tells of each kind the last line, in their order.
func (s *seen) tellAll() {
	var untold []*kind
	for _, k := range s.kinds {
		if k.count > 0 {
			untold = append(untold, k)
		}
	}
	slices.SortFunc(untold, func(a, b *kind) int {
		return cmp.Or(a.last.Time.Compare(b.last.Time), strings.Compare(a.last.Message, b.last.Message))
	})
	for _, k := range untold {
		if k.count > 1 {
			k.last.AddAttrs(slog.Int(Attribute, k.count))
		}
		_ = k.next.Handle(context.Background(), k.last) // as slog.Logger, which has nobody to tell
		k.count, k.last = 0, slog.Record{}
	}
}

// class is what the record's attributes say, without numbers, ids, addresses and other
// words that have digits.
func class(record slog.Record) string {
	var text strings.Builder
	record.Attrs(func(attr slog.Attr) bool {
		words := attr.Value.Resolve().String()
		text.WriteString(attr.Key + "=" + withoutNumbers(words[:min(len(words), maxClass)]) + "\n")
		return true
	})
	return text.String()
}

func withoutNumbers(text string) string {
	isBreak := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	var kept strings.Builder
	for text != "" {
		end := strings.IndexFunc(text, isBreak)
		if end < 0 {
			end = len(text)
		}
		if word := text[:end]; strings.ContainsFunc(word, unicode.IsDigit) {
			kept.WriteByte('#')
		} else {
			kept.WriteString(word)
		}
		text = text[end:]
		end = strings.IndexFunc(text, func(r rune) bool { return !isBreak(r) })
		if end < 0 {
			end = len(text)
		}
		kept.WriteString(text[:end])
		text = text[end:]
	}
	return kept.String()
}
