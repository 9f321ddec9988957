package config

import (
	"strings"
	"testing"
	"time"
)

func TestDuration_Parse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"2s": 2 * time.Second, "500ms": 500 * time.Millisecond, "1m30s": 90 * time.Second, "1.5h": 90 * time.Minute, "0": 0} {
		got, wrong := parseDuration(text)
		if wrong != "" || got != Duration(want) {
			t.Errorf("%q is %v, %q; want %v", text, got, wrong, want)
		}
	}
	for text, want := range map[string]string{
		"2": "2s would be 2s, 2ms would be 2ms", "90000": "90000s would be 25h, 90000ms would be 1m30s", "": "not a duration", "2d": "not a duration",
		"2 s": "not a duration", "+2s": "not a duration", "2us": "not a duration", "99999999999": "not a duration", "two": "not a duration",
	} {
		if got, wrong := parseDuration(text); !strings.Contains(wrong, want) || got != nil {
			t.Errorf("%q is %v, %q; want %q", text, got, wrong, want)
		}
	}
}

func TestDuration_String(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{"2s": 2 * time.Second, "5m": 5 * time.Minute, "1h": time.Hour, "1h0m5s": time.Hour + 5*time.Second,
		"1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond, "0s": 0, "10m": 10 * time.Minute, "10s": 10 * time.Second} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
		if back, wrong := parseDuration(want); wrong != "" || back != Duration(d) {
			t.Errorf("%q read back is %v, %q", want, back, wrong)
		}
	}
}
