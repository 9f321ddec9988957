package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Unmatched is a pattern of topics.include that selects nothing.
type Unmatched struct {
	Pattern string
	// Hint says what is near: topics that the pattern nearly matches; "" where nothing is.
	Hint string
}

// Unmatched returns the patterns of topics.include that match none of the source's topics, with what they may have been
// meant for. A name that is spelt out and not there is one too.
func (l Link) Unmatched(topics []string) (out []Unmatched) {
	s, err := l.patterns()
	if err != nil {
		return nil
	}
	for i, re := range s.includes {
		if !slices.ContainsFunc(topics, re.MatchString) {
			out = append(out, Unmatched{s.include[i], nearMiss(s.include[i], topics)})
		}
	}
	return out
}

// nearMiss finds topics that a pattern would match if it were a little different.
func nearMiss(pattern string, topics []string) string {
	for _, try := range []struct{ expr, says string }{
		{`(?is)\A(?:` + pattern + `)\z`, "with other capitals it would match %q"},
		{`(?s)\A(?:` + strings.ReplaceAll(pattern, `\`, "") + `)\z`, `without its backslashes it would match %q`},
		{`(?s)` + strings.Trim(pattern, "^$"), "patterns match whole names: with .* around it, it would match %q"},
	} {
		re, err := regexp.Compile(try.expr)
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(topics, re.MatchString); i >= 0 {
			return fmt.Sprintf(try.says, topics[i])
		}
	}
	plain := strings.NewReplacer(`\`, "", "^", "", "$", "").Replace(pattern)
	if i := slices.IndexFunc(topics, func(t string) bool { return nextTo(plain, t) }); i >= 0 {
		return fmt.Sprintf("there is a topic %q", topics[i])
	}
	return ""
}

// nextTo reports whether one letter more, less or another makes two names the same.
func nextTo(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 || a == b {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i == len(a) || a[i+1:] == b[i+1:]
	}
	return a[i:] == b[i+1:]
}
