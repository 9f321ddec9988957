package kafka

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logEvery is how often the same message of one client is logged: a cluster that is down would fill the log.
const logEvery = time.Minute

// logAdapter hands the client library's messages to slog, one level lower than the library ranks them: what it calls
// an information ("metadata update triggered") is a detail for an operator, and what it warns of, callers are told too.
type logAdapter struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex           // guards seen
	seen map[string]*repeated // by message; the library has few
}

// repeated counts what was not logged of one message.
type repeated struct {
	at      time.Time
	dropped int
}

func newLogAdapter(log *slog.Logger) *logAdapter {
	return &logAdapter{log: log, now: time.Now, seen: map[string]*repeated{}}
}

// Level implements kgo.Logger. The library's own debug level tells every request; nobody who sets "debug" asks for that.
func (a *logAdapter) Level() kgo.LogLevel {
	ctx := context.Background()
	switch {
	case a.log.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelInfo
	case a.log.Enabled(ctx, slog.LevelInfo):
		return kgo.LogLevelWarn
	case a.log.Enabled(ctx, slog.LevelWarn):
		return kgo.LogLevelError
	}
	return kgo.LogLevelNone
}

// Log implements kgo.Logger.
func (a *logAdapter) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	dropped, due := a.due(msg)
	if !due {
		return
	}
	if dropped > 0 {
		keyvals = append(keyvals[:len(keyvals):len(keyvals)], "repeated", dropped)
	}
	//nolint:sloglint // the library's messages are passed on as they are
	a.log.Log(context.Background(), slogLevel(level), msg, keyvals...)
}

// due says whether a message may be logged now, and how many of its kind were not since the last one.
func (a *logAdapter) due(msg string) (dropped int, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	r := a.seen[msg]
	if r == nil {
		r = &repeated{}
		a.seen[msg] = r
	}
	if now.Sub(r.at) < logEvery {
		r.dropped++
		return 0, false
	}
	dropped = r.dropped
	r.at, r.dropped = now, 0
	return dropped, true
}

func slogLevel(level kgo.LogLevel) slog.Level {
	switch level {
	case kgo.LogLevelError:
		return slog.LevelWarn
	case kgo.LogLevelWarn:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
