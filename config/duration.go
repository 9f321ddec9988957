package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Duration is a span of time, written and shown with its units: "2s", "1m30s", "500ms".
type Duration time.Duration

// String returns the shortest form: "5m" and not "5m0s".
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// parseDuration reads numbers with units: ms, s, m, h. A number without a unit is refused with what it could mean, since
// a thousand times too long or too short looks well in a file.
func parseDuration(text string) (any, string) {
	if text != "0" && regexp.MustCompile(`^[0-9]{1,9}$`).MatchString(text) {
		s, _ := time.ParseDuration(text + "s")
		ms, _ := time.ParseDuration(text + "ms")
		return nil, fmt.Sprintf("%s has no unit: %ss would be %v, %sms would be %v", quote(text), text, Duration(s), text, Duration(ms))
	}
	d, err := time.ParseDuration(text)
	if err != nil || strings.ContainsAny(text, "+nuµμ") {
		return nil, quote(text) + " is not a duration"
	}
	return Duration(d), ""
}
