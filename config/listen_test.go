package config

import (
	"path/filepath"
	"testing"
)

func TestListen_OfAConfigurationWithFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"api: {listen: \"127.0.0.1:9\"}\nlinks: []\n":  "127.0.0.1:9",
		"api: {listen: \"127.0.0.1:9\", lisen: x}\n":   "127.0.0.1:9",
		"api: {listen: \"0.0.0.0:9\"}\n":               "127.0.0.1:7480",
		"api: {listen: [a]}\n":                         "127.0.0.1:7480",
		"nonsense: 1\n":                                "127.0.0.1:7480",
		"api: {listen: \"127.0.0.1:9\"\nclusters: [\n": "127.0.0.1:7480",
		"": "127.0.0.1:7480",
	} {
		if got, ok := Listen(Source{Text: []byte(text)}); !ok || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, ok, want)
		}
	}
	if got, ok := Listen(Source{File: filepath.Join(t.TempDir(), "none.yaml")}); ok {
		t.Errorf("a file that is not there has %q", got)
	}
	if got, _ := Listen(Source{Text: []byte("x: 1\n"), Env: []string{"LOCKSTEP_API__LISTEN=127.0.0.1:8"}}); got != "127.0.0.1:8" {
		t.Errorf("the variable is not looked at: %q", got)
	}
}
