package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"0": int64(0), "1024": int64(1024), "64MiB": int64(64 << 20), "64 MiB": int64(64 << 20), "1.5GiB": int64(3 << 29),
		"0.001KB": int64(1), "5kB": int64(5000), "5KB": int64(5000), "2tib": int64(2 << 40), "7B": int64(7), "9223372036854775807": int64(1<<63 - 1),
		"1.5": nil, "9223372036854775808": nil, "8388608TiB": nil, "64M": nil, "64Mi": nil, "-1": nil, "+1": nil, "1e3": nil,
		"": nil, "MiB": nil, "0x10": nil, "1_000": nil, "1.2345GiB": nil, "1,5GiB": nil, "64MiB/s": nil, "9223372036854775807.5": nil,
	} {
		got, wrong := parseSize(text, "bytes")
		if got != want || (wrong == "") != (want != nil) {
			t.Errorf("parseSize(%q) = %v, %q; want %v", text, got, wrong, want)
		}
	}
	if got, wrong := parseSize("50MiB/s", "bytes per second"); got != int64(50<<20) {
		t.Errorf("parseSize of a rate = %v, %q", got, wrong)
	}
}

func TestParseList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"": []string{}, " ": []string{}, "a": []string{"a"}, "a, b": []string{"a", "b"}, "[a-z]": []string{"[a-z]"},
		`["a,b","c"]`: []string{"a,b", "c"}, `["a",1]`: nil, `["a"`: nil, "a,,b": []string{"a", "", "b"},
	} {
		got, wrong := parseList(text)
		if diff := cmp.Diff(want, got); diff != "" || (wrong == "") != (want != nil) {
			t.Errorf("parseList(%q): %q %s", text, wrong, diff)
		}
	}
}

func TestParse_WrongScalars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ  Type
		text string
	}{
		{TypeBool, "yes"}, {TypeBool, "True"}, {TypeBool, "1"}, {TypeBool, ""},
		{TypeInt, "+3"}, {TypeInt, "3.0"}, {TypeInt, "0x3"}, {TypeInt, ""}, {TypeInt, "99999999999999999999"},
		{TypeEnum, "c"}, {TypeEnum, ""},
	} {
		if v, wrong := (Key{Type: c.typ, Values: []string{"a", "b"}}).parse(c.text); v != nil || wrong == "" {
			t.Errorf("%s %q = %v, %q", c.typ, c.text, v, wrong)
		}
	}
}

func TestCheckLoopback(t *testing.T) {
	t.Parallel()
	for text, right := range map[string]bool{
		"127.0.0.1:7480": true, "127.8.8.8:1": true, "[::1]:0": true, "localhost:7480": true, "[::ffff:127.0.0.1]:1": true,
		":7480": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "localhost.evil.example:1": false, "localhost": false,
		"127.0.0.1": false, "127.0.0.1:http": false, "127.0.0.1:65536": false, "127.0.0.1:-1": false, "127.1:1": false, "::1:80": false,
	} {
		if wrong := checkLoopback(text); (wrong == "") != right {
			t.Errorf("checkLoopback(%q) = %q, want right = %v", text, wrong, right)
		}
	}
}

// A message shows what was wrong, but a megabyte of it helps nobody.
func TestQuote_CutsLongTexts(t *testing.T) {
	t.Parallel()
	if got := quote(strings.Repeat("é", 1000)); len([]rune(got)) > 90 {
		t.Errorf("quote is %d long", len(got))
	}
	if got := quote("a\nb\x00"); strings.ContainsAny(got, "\n\x00") {
		t.Errorf("quote = %s", got)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"client_id", "brokers", "rack", "tls", "sasl", "replication_factor"}
	for word, want := range map[string]string{
		"clientId": "client_id", "client-id": "client_id", "borkers": "brokers", "broker": "brokers", "TLS": "tls", "sasll": "sasl",
		"replicationFactor": "replication_factor", "replication_facter": "replication_factor", "bootstrap": "", "": "", "x": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance_IsADistance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)) {
			t.Fatalf("distance(%q, %q) = %d", a, b, d)
		}
	})
}
