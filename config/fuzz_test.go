package config

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// Whatever the bytes are: a configuration that can be printed and loaded again, or faults that each have a place.
func FuzzLoad(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Load(Source{File: "fuzz.yaml", Text: bytes.Clone(text)})
		if err != nil {
			checkFaults(t, c, err)
			return
		}
		var shown bytes.Buffer
		if err := c.WriteYAML(&shown); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(shown.String(), Redacted) {
			return
		}
		if _, err := Load(Source{File: "shown.yaml", Text: shown.Bytes()}); err != nil {
			t.Fatalf("what was shown does not load: %v\n%s", err, shown.String())
		}
	})
}

// seed adds all fixtures that read no files.
func seed(f *testing.F) {
	f.Helper()
	for _, folder := range []string{"good", "bad"} {
		entries, err := os.ReadDir("testdata/" + folder)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range entries {
			if text, err := os.ReadFile("testdata/" + folder + "/" + e.Name()); err == nil && strings.HasSuffix(e.Name(), ".yaml") {
				f.Add(text)
			}
		}
	}
	for _, text := range []string{"", "\x00", "\xff\xfe", "a: &a [*a]", "? ", "- - -", "links: &l [{<<: *l}]", "clusters: {<<: {a: {brokers: ['a:1']}}}"} {
		f.Add([]byte(text))
	}
}

func checkFaults(t *testing.T, c *Config, err error) {
	t.Helper()
	if c != nil {
		t.Fatal("a configuration and an error")
	}
	faults, ok := errors.AsType[*Errors](err)
	if !ok || len(faults.Faults) == 0 {
		t.Fatalf("error is %T: %v", err, err)
	}
	for _, x := range faults.Faults {
		if x.Place.File != "fuzz.yaml" || x.Place.Line < 1 || x.What == "" {
			t.Fatalf("a fault without a place or a reason: %+v", x)
		}
		if strings.ContainsAny(x.String(), "\n\r\x00") {
			t.Fatalf("a fault of several lines: %q", x.String())
		}
	}
}

// Variables are given by people and by machines: no name or value may stop us in another way than by a fault.
func FuzzEnv(f *testing.F) {
	for _, e := range []string{"LOCKSTEP_API__LISTEN=x", "LOCKSTEP_=", "LOCKSTEP___=", "LOCKSTEP_LINKS__0=", "LOCKSTEP_LINKS____=a", "LOCKSTEP_CLUSTERS__A__B__C=", "LOCKSTEP_LINKS__99999__NAME=a"} {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		_, err := Load(Source{File: "f", Text: []byte(twoClusters), Env: []string{entry}})
		if err == nil {
			return
		}
		for _, x := range asErrors(t, err).Faults {
			if x.Place == (Place{}) || x.What == "" {
				t.Fatalf("a fault without a place or a reason: %+v", x)
			}
		}
	})
}
