package config

import (
	"bytes"
	"errors"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func referenceText(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteReference_Golden(t *testing.T) {
	t.Parallel()
	compareGolden(t, "testdata/reference.yaml", string(referenceText(t)))
}

func TestWriteMarkdown_Golden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "testdata/keys.md", b.String())
}

// The reference is itself a configuration, and means the same as the smallest one.
func TestWriteReference_LoadsWithDefaults(t *testing.T) {
	t.Parallel()
	got, err := Load(Source{File: "reference.yaml", Text: referenceText(t)})
	if err != nil {
		t.Fatal(err)
	}
	want, err := Load(Source{File: "testdata/smallest.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reference (-smallest +reference):\n%s", diff)
	}
}

// Whoever takes the comment signs away in front of an optional section gets a right one.
func TestWriteReference_OptionalSectionsLoad(t *testing.T) {
	t.Parallel()
	text := regexp.MustCompile(`(?m)^( +)# ((?:# .*|[a-z_]+:.*))$`).ReplaceAll(referenceText(t), []byte("$1$2"))
	c, err := Load(Source{File: "reference.yaml", Text: text, Env: []string{"KAFKA_PASSWORD=x"}})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	p := c.Clusters["primary"]
	if p.TLS == nil || *p.TLS != (TLS{}) || p.SASL == nil || p.SASL.Username != "lockstep" {
		t.Errorf("cluster = %+v", p)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWrite_ErrorIsReturned(t *testing.T) {
	t.Parallel()
	for _, err := range []error{WriteReference(full{}), WriteMarkdown(full{}), (&Config{}).WriteYAML(full{})} {
		if err == nil {
			t.Error("an error of the writer is lost")
		}
	}
}
