package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/limiter"
	"pushq/tasks"
)

// What pushq's commands change they change one after the other, after their note. It is
// complete when it has been the same for settle, and given up to be so after longestCommand.
const (
	settle         = 200 * time.Millisecond
	longestCommand = 3 * time.Second
)

// An operatorWatch logs what operators change in Redis, once in every process: a pause, a
// resume, another pace. It is for one goroutine.
type operatorWatch struct {
	client   redis.UniversalClient
	channels []tasks.Channel
	log      *slog.Logger
	seen     map[tasks.Channel]operatorState // none before the first look
}

func newOperatorWatch(client redis.UniversalClient, channels []tasks.Channel, log *slog.Logger) *operatorWatch {
	return &operatorWatch{client: client, channels: channels, log: log, seen: make(map[tasks.Channel]operatorState)}
}

// An operatorState is what operators have made of a channel, and who has.
type operatorState struct {
	paused              []string // queues
	pauseLasts          time.Duration
	pauseNoted          bool // pauseNote is about this pause
	pauseNote, paceNote tasks.OperatorNote
	override            time.Duration // between two requests; 0 is none
	overrideLasts       time.Duration
}

func (s operatorState) samePause(other operatorState) bool {
	return slices.Equal(s.paused, other.paused) && s.pauseNote == other.pauseNote
}

func (s operatorState) samePace(other operatorState) bool {
	return s.override == other.override && s.paceNote == other.paceNote
}

// look compares with the last look. What it finds at the first one is logged too, if it
// holds up pushes.
func (w *operatorWatch) look(ctx context.Context) error {
	for _, channel := range w.channels {
		now, err := w.read(ctx, channel)
		if err != nil {
			return err
		}
		before, looked := w.seen[channel]
		if looked && now.samePause(before) && now.samePace(before) {
			continue
		}
		if now, err = w.settled(ctx, channel, now); err != nil {
			return err
		}
		w.seen[channel] = now
		if pauses := len(now.paused) > 0; looked && !now.samePause(before) || !looked && pauses {
			w.tellPause(channel, now, before)
		}
		if looked && !now.samePace(before) || !looked && now.override > 0 {
			w.tellPace(channel, now, before)
		}
	}
	return nil
}

// settled waits while a command may be under way that has written its note, or has changed
// the first of two queues.
func (w *operatorWatch) settled(ctx context.Context, channel tasks.Channel, now operatorState) (operatorState, error) {
	for began := time.Now(); ; {
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return now, ctx.Err()
		}
		before := now
		var err error
		if now, err = w.read(ctx, channel); err != nil {
			return now, err
		}
		half := now.pauseNoted && len(now.paused) < len(channel.Queues())
		if now.samePause(before) && now.samePace(before) && !half || time.Since(began) > longestCommand {
			return now, nil
		}
	}
}

func (w *operatorWatch) read(ctx context.Context, channel tasks.Channel) (state operatorState, err error) {
	pauses, err := tasks.Pauses(ctx, w.client, channel)
	if err != nil {
		return state, err
	}
	if state.pauseNote, err = tasks.ReadOperatorNote(ctx, w.client, channel, tasks.NotePause); err != nil {
		return state, err
	}
	for _, pause := range pauses {
		state.paused = append(state.paused, pause.Queue)
		state.pauseLasts = pause.Lasts
		state.pauseNoted = state.pauseNoted || pause.IsNotedBy(state.pauseNote)
	}
	if state.paceNote, err = tasks.ReadOperatorNote(ctx, w.client, channel, tasks.NotePace); err != nil {
		return state, err
	}
	pace, err := limiter.ReadPace(ctx, w.client, paceKeys(channel))
	state.override, state.overrideLasts = pace.Override, pace.OverrideLasts
	return state, err
}

func (w *operatorWatch) tellPause(channel tasks.Channel, now, before operatorState) {
	by := doneBy(now.pauseNote, now.pauseNoted || len(now.paused) == 0 && now.pauseNote != before.pauseNote)
	if len(now.paused) == 0 {
		w.log.Info("operator", slog.String("action", "resume"), slog.String("channel", channel.Name), by)
		return
	}
	w.log.Warn("operator", slog.String("action", "pause"), slog.String("channel", channel.Name),
		slog.Any("queues", now.paused), lasts(now.pauseLasts, "until pushq resume"), by)
}

func (w *operatorWatch) tellPace(channel tasks.Channel, now, before operatorState) {
	by := doneBy(now.paceNote, now.paceNote != before.paceNote)
	if now.override == 0 {
		w.log.Info("operator", slog.String("action", "pace reset"), slog.String("channel", channel.Name), by)
		return
	}
	w.log.Warn("operator", slog.String("action", "pace"), slog.String("channel", channel.Name),
		slog.String("pace", formatPace(now.override)), lasts(now.overrideLasts, "until pushq pace --reset"), by)
}

// doneBy is who has changed something. If the latest note is not about that, its time was
// over, or asynq's tools have done it.
func doneBy(note tasks.OperatorNote, isAboutIt bool) slog.Attr {
	if !isAboutIt {
		return slog.String("by", "its time is over, or asynq's tools")
	}
	return slog.String("by", note.By)
}

func lasts(remaining time.Duration, otherwise string) slog.Attr {
	if remaining == 0 {
		return slog.String("lasts", otherwise)
	}
	return slog.String("lasts", remaining.Round(time.Second).String())
}
