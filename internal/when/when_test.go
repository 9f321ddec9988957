package when

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2024-03-31T02:30+01:00":        "2024-03-31T01:30:00Z",
		"2024-03-31T07:00+05:30":        "2024-03-31T01:30:00Z",
		"2024-03-31T07:00:00+0530":      "2024-03-31T01:30:00Z",
		"2024-03-31T03:30:00+02":        "2024-03-31T01:30:00Z",
		"2024-03-31T01:30:00Z":          "2024-03-31T01:30:00Z",
		"2024-03-31T01:30Z":             "2024-03-31T01:30:00Z",
		"2024-03-31T01:30:00.250-00:00": "2024-03-31T01:30:00.250Z",
		"1711848600s":                   "2024-03-31T01:30:00Z",
		"1711848600000ms":               "2024-03-31T01:30:00Z",
		"1711848600001ms":               "2024-03-31T01:30:00.001Z",
		"1970-01-01T00:00:00Z":          "1970-01-01T00:00:00Z", // written out it is meant
	} {
		got, err := Parse(text, now)
		if err != nil || Text(got) != want || got.Location() != time.UTC {
			t.Errorf("Parse(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestParse_RefusesWhatCouldBeMeantOtherwise(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"2024-03-31T02:30":       {"no zone", "add Z or an offset such as +02:00"},
		"2024-03-31T02:30:00":    {"no zone"},
		"2024-03-31T02:30:00.5":  {"no zone"},
		"2024-03-31 02:30":       {"no zone"},
		"2024-03-31":             {"no zone"},
		"1711848600":             {"no unit", "1711848600s, it is 2024-03-31T01:30:00Z", "1711848600ms, it is 1970-01-20T19:30:48.600Z"},
		"1711848600000":          {"no unit", "in the year 56216", "1711848600000ms, it is 2024-03-31T01:30:00Z"},
		"1711848600000s":         {"could be records", "in the year 56216", "1711848600000ms, it is 2024-03-31T01:30:00Z"},
		"1711848600ms":           {"could be records", "1711848600s, it is 2024-03-31T01:30:00Z", "it is 1970-01-20T19:30:48.600Z"},
		"-5s":                    {"could be records"},
		"0ms":                    {"could be records", "1970-01-01T00:00:00Z"},
		"9223372036854775807s":   {"could be records", "in the year"},
		"9223372036854775807":    {"no unit"},
		"1830000000s":            {"could be records"}, // 2027-12-28: more than a year ahead
		"99999999999999999999s":  {"is no time"},
		"1711848600m":            {"is no time"},
		"yesterday":              {"is no time"},
		"":                       {"is no time"},
		"ms":                     {"is no time"},
		"2024-02-30T00:00:00Z":   {"is no time"},
		"2024-03-31T25:00:00Z":   {"is no time"},
		"2024-03-31T02:30 +0100": {"is no time"},
	} {
		got, err := Parse(text, now)
		if err == nil {
			t.Errorf("Parse(%q) = %v, want it refused", text, got)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Parse(%q) says %q, want %q in it", text, err, w)
			}
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"PT1H30M": 90 * time.Minute, "P1D": 24 * time.Hour, "P1DT1S": 24*time.Hour + time.Second, "P2W": 14 * 24 * time.Hour, "PT0S": 0,
		"PT0.25S": 250 * time.Millisecond, "PT1,5S": 1500 * time.Millisecond, "pt5m": 5 * time.Minute, "PT36H": 36 * time.Hour,
		"90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"7200000": "as milliseconds, 7200000ms, it is 2h0m0s", "90": "as seconds, 90s, it is 1m30s", "0": "no unit", "P1M": "no fixed length", "P1Y": "no fixed length",
		"P": "ISO 8601", "PT": "ISO 8601", "P1DT": "ISO 8601", "P1H": "ISO 8601", "PT1D": "ISO 8601", "-5m": "less than nothing", "1 day": "no duration",
		"": "no duration", "P106752D": "292 years", "PT9223372036854775807S": "292 years", "9223372036854775807": "more than 292 years",
		"-PT5M": "no duration", "P99999999999999999999D": "292 years",
	} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDuration(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

// Go reads TZ once, so each zone needs a process of its own.
func TestParse_HostZoneMakesNoDifference(t *testing.T) {
	t.Parallel()
	if os.Getenv("WHEN_ZONE_TEST") == "1" {
		t.Skip("the inner run")
	}
	for _, zone := range []string{"UTC", "Europe/Berlin", "Asia/Kolkata"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestParse", "-test.count=1")
		cmd.Env = append(os.Environ(), "TZ="+zone, "WHEN_ZONE_TEST=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("TZ=%s: %v\n%s", zone, err, out)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"2024-03-31T02:30+01:00", "1711848600s", "1711848600", "2024-03-31", "P1D", "90m", "PT1.5S"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := Parse(text, now); err == nil {
			if y := got.Year(); y < 0 || y > 9999 {
				t.Skip() // written out
			}
			again, err := Parse(Text(got), now)
			if err != nil || !again.Equal(got.Truncate(time.Millisecond)) {
				t.Errorf("Parse(%q) = %v, printed as %q and read again as %v, %v", text, got, Text(got), again, err)
			}
		}
		if d, err := ParseDuration(text); err == nil && d < 0 {
			t.Errorf("ParseDuration(%q) = %v", text, d)
		}
	})
}
