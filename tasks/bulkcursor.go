package tasks

import (
	"context"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/behind.lua
	behindSource string

	behindScript = redis.NewScript(behindSource)
)

// A bulkCursor is where a bulk action stands. It goes through the sources of
// its state one after the other: through a sorted set by rising score, so that
// what comes back is behind its bound, and through a list from its newest entry,
// so that what comes in is behind it.
type bulkCursor struct {
	// Purpose says which action, channel and filter the cursor belongs to.
	Purpose string `json:"purpose"`
	// Until is the time of the first call.
	Until Millis `json:"until"`
	// Bounds are the highest scores of the sources at the first call.
	Bounds []float64 `json:"bounds"`

	Source int `json:"source"`
	// Score and Member are the place in a sorted set behind which to go on. In
	// a list Member is the last entry that was left there.
	Score  float64 `json:"score,omitempty"`
	Member string  `json:"member,omitempty"`
}

// purpose tells actions, channels and filters apart without showing them.
func (a bulkAction) purpose() string {
	text, _ := json.Marshal([]any{a.name, a.channel.Name, a.filter}) // numbers and strings always encode
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func (c bulkCursor) encode() string {
	text, _ := json.Marshal(c) // finite numbers and strings always encode
	return base64.RawURLEncoding.EncodeToString(text)
}

// decodeBulkCursor returns the zero cursor for an empty text.
func decodeBulkCursor(text string, action bulkAction, sources int) (bulkCursor, error) {
	var read bulkCursor
	if text == "" {
		return read, nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return read, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if err := json.Unmarshal(decoded, &read); err != nil {
		return read, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if read.encode() != text || read.Purpose != action.purpose() ||
		len(read.Bounds) != sources || read.Source < 0 || read.Source >= sources {
		return read, fmt.Errorf("%w: it belongs to another action, channel or filter", ErrCursor)
	}
	return read, nil
}

// startBulk fixes what the action is about: the pushes that are there now.
func (o *Operator) startBulk(ctx context.Context, action bulkAction, sources []source) (bulkCursor, error) {
	at := bulkCursor{
		Purpose: action.purpose(), Until: MillisOf(o.clock.Now()),
		Bounds: make([]float64, len(sources)), Source: -1,
	}
	for place, source := range sources {
		if source.order == queueOrder {
			continue
		}
		last, err := o.redis.ZRevRangeWithScores(ctx, source.key, 0, 0).Result()
		if err != nil {
			return at, fmt.Errorf("read %s: %w: %w", source.key, ErrUnreadable, err)
		}
		if len(last) > 0 {
			at.Bounds[place] = last[0].Score
		}
	}
	at.nextSource(sources, action.filter)
	return at, nil
}

// nextSource moves to the beginning of the next source. The scores of ended
// pushes are the times of their ends, so that the filter says where to begin.
func (c *bulkCursor) nextSource(sources []source, filter Filter) {
	c.Source++
	c.Score, c.Member = 0, ""
	if c.Source < len(sources) && filter.State.Ended() {
		c.Score = float64(int64(float64(filter.Since) / sources[c.Source].millisPerScore))
	}
}

// move goes behind the entries. Those that are done have left a list.
func (c *bulkCursor) move(source source, entries []entry, done []bool) {
	if source.order != queueOrder {
		if count := len(entries); count > 0 {
			c.Score, c.Member = entries[count-1].time/source.millisPerScore, entries[count-1].id
		}
		return
	}
	for place, entry := range entries {
		if !done[place] {
			c.Member = entry.id
		}
	}
}

// behind reads up to count entries from where the cursor stands. Fewer mean
// that the source ends.
func (s source) behind(ctx context.Context, client redis.UniversalClient, at bulkCursor, count int) ([]entry, error) {
	if s.order == queueOrder {
		return s.behindInList(ctx, client, at.Member, count)
	}
	found, err := behindScript.Run(ctx, client, []string{s.key},
		strconv.FormatFloat(at.Score, 'f', -1, 64), at.Member, count).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", s.key, ErrUnreadable, err)
	}
	var entries []entry
	for place := 0; place+1 < len(found); place += 2 {
		score, err := strconv.ParseFloat(found[place+1], 64)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.key, err)
		}
		if score > at.Bounds[at.Source] {
			break
		}
		entries = append(entries, entry{id: found[place], time: score * s.millisPerScore, unended: s.unended})
	}
	return entries, nil
}

// behindInList begins again at the newest entry if the member has left the list:
// what was there already is examined twice then, but nothing is left out.
func (s source) behindInList(ctx context.Context, client redis.UniversalClient, member string, count int) ([]entry, error) {
	start := int64(0)
	if member != "" {
		place, err := client.LPos(ctx, s.key, member, redis.LPosArgs{}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("read %s: %w: %w", s.key, ErrUnreadable, err)
		}
		if err == nil {
			start = place + 1
		}
	}
	ids, err := client.LRange(ctx, s.key, start, start+int64(count)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", s.key, ErrUnreadable, err)
	}
	entries := make([]entry, len(ids))
	for place, id := range ids {
		entries[place] = entry{id: id}
	}
	return entries, nil
}
