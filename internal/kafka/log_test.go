package kafka

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestLogAdapter_RepeatsAreCountedAndRanksLowered(t *testing.T) {
	t.Parallel()
	out := &lockedBuffer{}
	a := newLogAdapter(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	now := time.Unix(1000, 0)
	a.now = func() time.Time { return now }
	for range 5 {
		a.Log(kgo.LogLevelWarn, "unable to open connection", "addr", "h:1")
	}
	a.Log(kgo.LogLevelError, "unable to initialize sasl")
	a.Log(kgo.LogLevelInfo, "metadata update triggered")
	now = now.Add(logEvery)
	a.Log(kgo.LogLevelWarn, "unable to open connection", "addr", "h:2")
	var got []string
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ") // without the time
		got = append(got, rest)
	}
	want := []string{
		`level=INFO msg="unable to open connection" addr=h:1`,
		`level=WARN msg="unable to initialize sasl"`,
		`level=DEBUG msg="metadata update triggered"`,
		`level=INFO msg="unable to open connection" addr=h:2 repeated=4`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged:\n%s", strings.Join(got, "\n"))
	}
}

func TestLogAdapter_Level(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]kgo.LogLevel{
		slog.LevelDebug: kgo.LogLevelInfo, slog.LevelInfo: kgo.LogLevelWarn, slog.LevelWarn: kgo.LogLevelError, slog.LevelError: kgo.LogLevelNone,
	} {
		a := newLogAdapter(slog.New(slog.NewTextHandler(&lockedBuffer{}, &slog.HandlerOptions{Level: level})))
		if got := a.Level(); got != want {
			t.Errorf("%v: %v, want %v", level, got, want)
		}
	}
}
