package batch

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// javaText reads what Apache Kafka's own reader made of a fixture: one record a line.
func javaText(t *testing.T, path string) []Record {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []Record
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		r := Record{Offset: number(t, f[0]), Timestamp: number(t, f[1]), Key: unhex(t, f[2]), Value: unhex(t, f[3])}
		for _, h := range f[4:] {
			k, v, _ := strings.Cut(h, "=")
			r.Headers = append(r.Headers, RecordHeader{Key: unhex(t, k), Value: unhex(t, v)})
		}
		out = append(out, r)
	}
	return out
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	if s == "null" {
		return nil
	}
	b, err := hex.DecodeString(strings.Trim(s, `"`))
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{}, b...)
}

// Every format, codec and kind of timestamp, written and read by Apache Kafka's own classes: null and empty apart,
// an offset compacted away in the middle, times none, 0 and later.
func TestDecode_AsApacheKafka(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/java/*.bin")
	if err != nil || len(files) < 25 {
		t.Fatal(len(files), err)
	}
	c := newCodecs(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".bin")
		if name == "v2-commit" || name == "v2-abort" {
			continue // see TestParseMarker_AsApacheKafka
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got []Record
			var fault error
			for h, b := range SplitErr(raw, &fault) {
				if got, err = c.AppendRecords(got, b, 0); err != nil {
					t.Fatal(err)
				}
				if want := name[:2]; fmt.Sprintf("v%d", h.Magic) != want || h.Next() < 101 {
					t.Errorf("header %+v", h)
				}
			}
			if d := cmp.Diff(javaText(t, strings.TrimSuffix(file, ".bin")+".txt"), got); d != "" || fault != nil {
				t.Error(d, fault)
			}
		})
	}
}

func TestParseMarker_AsApacheKafka(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Marker{"v2-commit": {Commit: true, CoordinatorEpoch: 9}, "v2-abort": {CoordinatorEpoch: 9}} {
		b, err := os.ReadFile(filepath.Join("testdata/java", name+".bin"))
		if err != nil {
			t.Fatal(err)
		}
		h := mustParse(t, b)
		got, err := ParseMarker(h, b)
		if err != nil || got != want || h.BaseOffset != 7 || h.PID != 4711 || h.Epoch != 5 {
			t.Errorf("%s: %+v, %v, header %+v", name, got, err, h)
		}
	}
}
