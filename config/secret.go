package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Redacted is what every printed or encoded form of a Secret is.
const Redacted = "[redacted]"

// maxSecretBytes bounds a secret file, so that a wrong path does not fill the memory.
const maxSecretBytes = 64 << 10

// Secret is a value that is never printed: fmt (any verb), slog, JSON, YAML and text encodings give "[redacted]".
//
// The text lives inside a function value and not in a field, because fmt prints the fields of a struct directly when
// the struct itself sits in an unexported field; what it finds there is an address.
type Secret struct {
	source func() (kind, text string)
	lookup func(name string) (string, bool)
}

// NewSecret makes a secret from "env:NAME" (an environment variable of this process), "file:PATH" (a file that is
// read anew each time) or a literal text.
func NewSecret(text string) Secret { return newSecret(text, os.LookupEnv) }

func newSecret(text string, lookup func(string) (string, bool)) Secret {
	kind, rest := "literal", text
	for _, k := range []string{"env", "file"} {
		if after, ok := strings.CutPrefix(text, k+":"); ok {
			kind, rest = k, after
		}
	}
	return Secret{source: func() (string, string) { return kind, rest }, lookup: lookup}
}

// IsSet reports whether the secret was given at all; it does not look whether it can be read.
func (s Secret) IsSet() bool { return s.source != nil }

// Reveal returns the secret's value. A file is read each time, so that a rotated secret is seen by the next
// connection; one line end at its end is left out. Errors name the variable or the file, never the content.
func (s Secret) Reveal() (string, error) {
	if !s.IsSet() {
		return "", errors.New("read secret: none is set")
	}
	kind, text := s.source()
	switch kind {
	case "env":
		return s.fromEnv(text)
	case "file":
		return fromFile(text)
	default:
		return text, nil
	}
}

func (s Secret) fromEnv(name string) (string, error) {
	v, ok := s.lookup(name)
	if !ok {
		return "", fmt.Errorf("read secret: the environment variable %q is not set", name)
	}
	if v == "" {
		return "", fmt.Errorf("read secret: the environment variable %q is empty", name)
	}
	return v, nil
}

func fromFile(path string) (string, error) {
	b, err := readRegular(path, maxSecretBytes)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	if len(b) == 0 {
		return "", fmt.Errorf("read secret: the file %q is empty", path)
	}
	return string(b), nil
}

// readRegular reads a file of at most limit bytes. Pipes and devices are refused: the file is read again for later
// connections, and a pipe would block.
func readRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("the file %q is larger than %d bytes", path, limit)
	}
	return b, nil
}

// Equal reports whether both secrets are made from the same text. It does not read variables or files. go-cmp uses it.
func (s Secret) Equal(o Secret) bool {
	if !s.IsSet() || !o.IsSet() {
		return s.IsSet() == o.IsSet()
	}
	ak, at := s.source()
	bk, bt := o.source()
	return ak == bk && at == bt
}

// String returns "[redacted]".
func (s Secret) String() string { return Redacted }

// GoString returns "[redacted]".
func (s Secret) GoString() string { return Redacted }

// Format writes "[redacted]" for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// MarshalText returns "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalJSON returns "[redacted]" as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(Redacted) }

// MarshalYAML returns "[redacted]".
func (s Secret) MarshalYAML() (any, error) { return Redacted, nil }

// LogValue returns "[redacted]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }
