// Package when reads moments and durations that an operator writes. It never guesses: a time needs a zone, a number
// needs a unit, and what could be meant otherwise is refused with both readings. Nothing depends on the machine's own
// time zone.
package when

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// layouts are the forms of ISO 8601 that are taken; fractions of a second may follow the seconds.
var layouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700", "2006-01-02T15:04Z07",
}

// bare are the same without a zone: recognised in order to say what is missing.
var bare = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// earliest is the first moment that a number may stand for: there was no Kafka before.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Parse reads a moment: 2026-01-31T08:00:00Z, with any offset instead of Z, or a number of seconds or milliseconds since
// 1970 with its unit, as 1711848600s or 1711848600000ms. The result is in UTC. A number that stands for a time before
// 2000, or more than a year after now, has the wrong unit and is refused.
func Parse(text string, now time.Time) (time.Time, error) {
	if n, unit, ok := number(text); ok {
		return epoch(text, n, unit, now)
	}
	for _, l := range layouts {
		if t, err := time.Parse(l, text); err == nil {
			return t.UTC(), nil
		}
	}
	for _, l := range bare {
		if _, err := time.Parse(l, text); err == nil {
			return time.Time{}, fmt.Errorf("%q has no zone: add Z or an offset such as +02:00", text)
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want one such as 2026-01-31T08:00:00Z, 2026-01-31T09:00:00+01:00 or 1769846400s", text)
}

// number takes a number and what follows it apart.
func number(text string) (n int64, unit string, ok bool) {
	digits := strings.TrimRight(text, "ms")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit = text[len(digits):]
	return n, unit, err == nil && (unit == "" || unit == "s" || unit == "ms")
}

func epoch(text string, n int64, unit string, now time.Time) (time.Time, error) {
	var t time.Time
	switch unit {
	case "s":
		t = seconds(n)
	case "ms":
		t = time.UnixMilli(n).UTC()
	default:
		return time.Time{}, fmt.Errorf("%q has no unit: %s", text, readings(n))
	}
	if t.Before(earliest) || t.After(now.AddDate(1, 0, 0)) {
		return time.Time{}, fmt.Errorf("%q is not a time at which there could be records: %s", text, readings(n))
	}
	return t, nil
}

// readings says what a number means with either unit.
func readings(n int64) string {
	return fmt.Sprintf("as seconds, %ds, it is %s; as milliseconds, %dms, it is %s", n, calendar(seconds(n)), n, calendar(time.UnixMilli(n)))
}

// seconds is time.Unix for numbers that calendars can hold; others become the last one that they can.
func seconds(n int64) time.Time {
	const most = math.MaxInt64 / 1000
	return time.Unix(min(max(n, -most), most), 0).UTC()
}

func calendar(t time.Time) string {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Sprintf("in the year %d", y)
	}
	if t.Nanosecond() != 0 {
		return t.Format("2006-01-02T15:04:05.000Z")
	}
	return t.Format("2006-01-02T15:04:05Z")
}

// Text prints a moment as everything here prints it: in UTC, to the millisecond.
func Text(t time.Time) string { return calendar(t.Truncate(time.Millisecond)) }
