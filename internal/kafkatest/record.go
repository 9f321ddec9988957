package kafkatest

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// difference names the first field in which two records differ, "" when they are equal. Offsets, producers and how a
// record was compressed are not part of it.
func difference(s, d *kgo.Record) string {
	switch {
	case !sameBytes(s.Key, d.Key):
		return fmt.Sprintf("key %s became %s", show(s.Key), show(d.Key))
	case !sameBytes(s.Value, d.Value):
		return fmt.Sprintf("value %s became %s", show(s.Value), show(d.Value))
	case s.Timestamp.UnixMilli() != d.Timestamp.UnixMilli():
		return fmt.Sprintf("time stamp %d became %d", s.Timestamp.UnixMilli(), d.Timestamp.UnixMilli())
	}
	return headerDifference(s.Headers, d.Headers)
}

func headerDifference(s, d []kgo.RecordHeader) string {
	if len(s) != len(d) {
		return fmt.Sprintf("%d headers became %d", len(s), len(d))
	}
	for i := range s {
		if s[i].Key != d[i].Key || !sameBytes(s[i].Value, d[i].Value) {
			return fmt.Sprintf("header %d: %q=%s became %q=%s", i, s[i].Key, show(s[i].Value), d[i].Key, show(d[i].Value))
		}
	}
	return ""
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// show prints at most 40 bytes; null is not the empty string.
func show(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", b[:40], len(b))
	}
	return fmt.Sprintf("%q", b)
}

func describe(r *kgo.Record) string {
	return fmt.Sprintf("key %s, value %s, %d headers, time stamp %d", show(r.Key), show(r.Value), len(r.Headers), r.Timestamp.UnixMilli())
}
