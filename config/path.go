package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// path is a place in the configuration, as segments: names, and "[n]" for the entry of a list.
type path []string

// delim joins segments to a koanf path. No name that gets that far contains it.
const delim = "/"

func (p path) key() string { return strings.Join(p, delim) }

// add returns a longer path; p itself stays as it is.
func (p path) add(segments ...string) path {
	return append(append(make(path, 0, len(p)+len(segments)), p...), segments...)
}

func index(n int) string { return "[" + strconv.Itoa(n) + "]" }

// isIndex reports whether a segment is the entry of a list, and which.
func isIndex(segment string) (int, bool) {
	digits, ok := strings.CutPrefix(segment, "[")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(digits, "]"))
	return n, err == nil
}

// String returns the path as an operator writes it, such as links[0].topics.include. Segments that came from a file
// and could garble a message are quoted.
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		_, isEntry := isIndex(s)
		isEntry = isEntry || s == "[]"
		if i > 0 && !isEntry {
			b.WriteByte('.')
		}
		if isEntry || s == "*" || plainSegment(s) {
			b.WriteString(s)
		} else {
			b.WriteString(quote(s))
		}
	}
	return b.String()
}

func plainSegment(s string) bool { return s != "" && utf8.RuneCountInString(s) <= maxName && legal(s) }
