package when

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// iso are the durations of ISO 8601 whose length is fixed: weeks, or days, hours, minutes and seconds.
var iso = regexp.MustCompile(`^P(?:(\d+)W|(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,9}))?S)?)?)$`)

// ParseDuration reads a duration: ISO 8601 as P1D, PT1H30M, P2W, or as Go writes it: 90m, 1h30m, 250ms. A number
// needs a unit, and years and months are refused, because their lengths differ.
func ParseDuration(text string) (time.Duration, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit: as seconds, %ds, it is %s; as milliseconds, %dms, it is %s", text,
			n, long(n, time.Second), n, long(n, time.Millisecond))
	}
	upper := strings.ToUpper(text)
	if strings.HasPrefix(upper, "P") {
		return parseISO(text, upper)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration: want one such as PT1H30M, P1D or 90m", text)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is less than nothing", text)
	}
	return d, nil
}

func parseISO(text, upper string) (time.Duration, error) {
	m := iso.FindStringSubmatch(upper)
	if m == nil || strings.HasSuffix(upper, "P") || strings.HasSuffix(upper, "T") {
		date, _, _ := strings.Cut(upper, "T")
		if strings.ContainsAny(date, "YM") {
			return 0, fmt.Errorf("%q: years and months have no fixed length; give days, as P30D", text)
		}
		return 0, fmt.Errorf("%q is no duration of ISO 8601: want one such as PT1H30M or P1D", text)
	}
	var sum time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+1], 10, 64)
		if err != nil || n > int64((math.MaxInt64-sum)/unit) {
			return 0, fmt.Errorf("%q is longer than 292 years", text)
		}
		sum += time.Duration(n) * unit
	}
	if m[6] != "" {
		nanos, _ := strconv.Atoi(m[6] + strings.Repeat("0", 9-len(m[6])))
		if sum > math.MaxInt64-time.Duration(nanos) {
			return 0, fmt.Errorf("%q is longer than 292 years", text)
		}
		sum += time.Duration(nanos)
	}
	return sum, nil
}

// long prints a number of units as a duration.
func long(n int64, unit time.Duration) string {
	if n > int64(math.MaxInt64/unit) || n < int64(math.MinInt64/unit) {
		return "more than 292 years"
	}
	return (time.Duration(n) * unit).String()
}
