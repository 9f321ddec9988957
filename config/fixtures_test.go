package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compareGolden compares with a file in testdata; with UPDATE_GOLDEN=1 in the environment it writes the file.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-file +now):\n%s", file, diff)
	}
}

func fixtures(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures in %s: %v", folder, err)
	}
	texts := map[string][]byte{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[f] = text
	}
	return texts
}

func TestLoad_GoodFixtures(t *testing.T) {
	t.Parallel()
	for file, text := range fixtures(t, "good") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			if _, err := Load(Source{File: file, Text: text}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each bad fixture has a .want file with every fault, in order.
func TestLoad_BadFixtures(t *testing.T) {
	t.Parallel()
	for file, text := range fixtures(t, "bad") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c, err := Load(Source{File: filepath.Base(file), Text: text})
			if err == nil || c != nil {
				t.Fatalf("Load = %v, %v; want no configuration and an error", c, err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a fault shows the password: %v", err)
			}
			compareGolden(t, strings.TrimSuffix(file, ".yaml")+".want", err.Error()+"\n")
		})
	}
}

// A key without a bad fixture would be a key whose check nobody has seen at work.
func TestLoad_EveryKeyHasABadFixture(t *testing.T) {
	t.Parallel()
	faulty := map[string]bool{}
	for file, text := range fixtures(t, "bad") {
		_, err := Load(Source{File: file, Text: text})
		for _, f := range asErrors(t, err).Faults {
			key := regexp.MustCompile(`\[[0-9]+\]$`).ReplaceAllString(f.Key, "")
			key = regexp.MustCompile(`^links\[[0-9]+\]`).ReplaceAllString(key, "links[]")
			key = regexp.MustCompile(`^clusters\.[^.]+`).ReplaceAllString(key, "clusters.*")
			faulty[key] = true
		}
	}
	for _, k := range Keys() {
		if k.Type != TypeSection && !faulty[k.Path] {
			t.Errorf("no fixture in testdata/bad has a fault of %s", k.Path)
		}
	}
}

func asErrors(t *testing.T, err error) *Errors {
	t.Helper()
	faults, ok := errors.AsType[*Errors](err)
	if !ok || len(faults.Faults) == 0 {
		t.Fatalf("error is %T (%v), want *Errors with faults", err, err)
	}
	return faults
}
