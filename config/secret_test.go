package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const planted = "hunter2-planted"

// withSecret returns a whole configuration whose password is the planted one.
func withSecret(t *testing.T) *Config {
	t.Helper()
	c, err := Load(Source{
		File: "testdata/smallest.yaml",
		Env: []string{
			"LOCKSTEP_CLUSTERS__PRIMARY__SASL__MECHANISM=plain",
			"LOCKSTEP_CLUSTERS__PRIMARY__SASL__USERNAME=alice",
			"LOCKSTEP_CLUSTERS__PRIMARY__SASL__PASSWORD=" + planted,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Clusters["primary"].SASL.Password.Reveal(); got != planted || err != nil {
		t.Fatalf("Reveal = %q, %v", got, err)
	}
	return c
}

// hiding holds a secret where fmt may not call its methods.
type hiding struct {
	inner  Secret
	nested struct{ deep []Secret }
	any    any
}

func TestSecret_NeverFormatted(t *testing.T) {
	t.Parallel()
	c := withSecret(t)
	s := c.Clusters["primary"].SASL.Password
	hidden := hiding{inner: s, any: s}
	hidden.nested.deep = []Secret{s}
	values := map[string]any{
		"secret": s, "pointer": &s, "config": *c, "config pointer": c, "cluster": c.Clusters["primary"],
		"clusters": c.Clusters, "sasl": *c.Clusters["primary"].SASL, "list": []any{s, &s}, "map": map[string]Secret{"k": s},
		"unexported": hidden, "unexported pointer": &hidden,
	}
	verbs := strings.Split("%v %+v %#v %s %q %x %X %d %t %b %o %O %c %U %e %f %g %p %T %w %10.3s %-+#v %z", " ")
	for name, v := range values {
		for _, verb := range verbs {
			if got := fmt.Sprintf(verb, v); leaks(got) {
				t.Errorf("%s of %s shows the secret: %s", verb, name, got)
			}
		}
		if got := fmt.Sprint(v) + fmt.Sprintln(v) + fmt.Errorf("wrapped: %v", v).Error(); leaks(got) {
			t.Errorf("Sprint of %s shows the secret: %s", name, got)
		}
	}
}

// leaks looks for the planted text, also in the hexadecimal and numeric forms that fmt has for texts.
func leaks(printed string) bool {
	forms := []string{planted, fmt.Sprintf("%x", planted), fmt.Sprintf("%X", planted), strings.Trim(fmt.Sprint([]byte(planted)), "[]")}
	for _, f := range forms {
		if strings.Contains(printed, f) {
			return true
		}
	}
	return false
}

func TestSecret_FormatsAsRedacted(t *testing.T) {
	t.Parallel()
	s := NewSecret(planted)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, s); got != Redacted {
			t.Errorf("%s gives %q", verb, got)
		}
	}
	if s.String() != Redacted || s.GoString() != Redacted || s.LogValue().String() != Redacted || (Secret{}).String() != Redacted {
		t.Error("String, GoString or LogValue is not redacted")
	}
}

func TestSecret_NeverEncoded(t *testing.T) {
	t.Parallel()
	c := withSecret(t)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	if err := c.WriteYAML(&shown); err != nil {
		t.Fatal(err)
	}
	asText, err := c.Clusters["primary"].SASL.Password.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"JSON": asJSON, "YAML": asYAML, "config show": shown.Bytes(), "text": asText} {
		if leaks(string(b)) || !strings.Contains(string(b), Redacted) {
			t.Errorf("%s is not redacted: %s", name, b)
		}
	}
}

func TestSecret_NeverLogged(t *testing.T) {
	t.Parallel()
	c := withSecret(t)
	s := c.Clusters["primary"].SASL.Password
	var out bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		log := slog.New(h)
		log.Info("secret", "value", s, "pointer", &s, "sasl", c.Clusters["primary"].SASL, "config", c, "copy", *c)
		log.With("secret", s).WithGroup("g").Info("grouped", slog.Group("in", "secret", s), "hidden", hiding{inner: s})
	}
	if leaks(out.String()) || !strings.Contains(out.String(), Redacted) {
		t.Errorf("the log shows the secret: %s", out.String())
	}
}

func TestSecret_RevealEnv(t *testing.T) {
	t.Setenv("LOCKSTEP_TEST_SECRET", planted)
	if got, err := NewSecret("env:LOCKSTEP_TEST_SECRET").Reveal(); got != planted || err != nil {
		t.Errorf("Reveal = %q, %v", got, err)
	}
	if _, err := NewSecret("env:LOCKSTEP_TEST_NO_SUCH").Reveal(); err == nil || !strings.Contains(err.Error(), "LOCKSTEP_TEST_NO_SUCH") {
		t.Errorf("Reveal of an unset variable: %v", err)
	}
	if got, err := newSecret("env:A", lookupIn([]string{"A=old", "A="})).Reveal(); err == nil {
		t.Errorf("Reveal of an empty variable = %q", got)
	}
}

func TestSecret_RevealFileAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	s := NewSecret("file:" + file)
	if _, err := s.Reveal(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Reveal without the file: %v", err)
	}
	for content, want := range map[string]string{"one": "one", "two\n": "two", "three\r\n": "three", "four\n\n": "four\n", " five ": " five "} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Reveal(); got != want || err != nil {
			t.Errorf("Reveal of %q = %q, %v; want %q", content, got, err, want)
		}
	}
}

func TestSecret_RevealRefuses(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, bytes.Repeat([]byte("x"), maxSecretBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"file:" + large, "file:" + os.DevNull, "file:" + t.TempDir(), "file:testdata/files/empty"} {
		if got, err := NewSecret(text).Reveal(); err == nil {
			t.Errorf("Reveal of %s = %q", text, got)
		}
	}
	if _, err := (Secret{}).Reveal(); err == nil {
		t.Error("Reveal of no secret gives no error")
	}
}

func TestSecret_Equal(t *testing.T) {
	t.Parallel()
	if !cmp.Equal(NewSecret("a"), NewSecret("a")) || !cmp.Equal(Secret{}, Secret{}) {
		t.Error("equal secrets differ")
	}
	for _, o := range []Secret{NewSecret("b"), NewSecret("env:a"), NewSecret("file:a"), {}} {
		if cmp.Equal(NewSecret("a"), o) || cmp.Equal(o, NewSecret("a")) {
			t.Error("different secrets are equal")
		}
	}
}
