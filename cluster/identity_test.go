package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpen_KeepsItsIdentity(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first := open(t, dir)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir)
	if second.ID != first.ID {
		t.Fatalf("identity changed from %s to %s", first.ID, second.ID)
	}
}

func TestOpen_SecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	if _, err := Open(dir); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "node.data_dir") {
		t.Fatalf("second Open: %v", err)
	}
}

func TestOpen_DamagedIdentityIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster-id"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "cluster-id") {
		t.Fatalf("Open: %v", err)
	}
}

func open(t *testing.T, dir string) *Home {
	t.Helper()
	h, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}
