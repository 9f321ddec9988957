package statelog

import (
	"net/url"
	"strings"
)

// Key joins parts to a key with slashes between them. A slash, a percent sign or an unusual character inside a part is
// escaped, so that SplitKey gives the same parts back.
func Key(parts ...string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// SplitKey takes a key apart. It reports false for bytes that Key never makes.
func SplitKey(key string) ([]string, bool) {
	parts := strings.Split(key, "/")
	for i, p := range parts {
		if !strings.Contains(p, "%") {
			continue
		}
		u, err := url.PathUnescape(p)
		if err != nil {
			return nil, false
		}
		parts[i] = u
	}
	return parts, true
}
