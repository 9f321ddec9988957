package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// ErrInUse says that another process holds the data directory.
var ErrInUse = errors.New("another lockstep process uses this data directory")

// Home is a data directory that this process holds. While it does, no other process of the same identity runs, so
// whatever the identity owns in a state topic may be taken up without waiting.
type Home struct {
	ID   string // the lockstep cluster's identity, a UUID
	lock *os.File
}

// Open creates the directory if needed, locks it and reads its identity, or draws one at the first start. The error
// wraps ErrInUse when another process has it.
func Open(dir string) (*Home, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory %s: %w: stop it, or set node.data_dir to another folder", dir, ErrInUse), lock.Close())
	}
	id, err := identity(filepath.Join(dir, "cluster-id"))
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Home{ID: id, lock: lock}, nil
}

// Close gives the directory free.
func (h *Home) Close() error { return h.lock.Close() }

func identity(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return draw(file)
	}
	if err != nil {
		return "", fmt.Errorf("read identity: %w", err)
	}
	id, err := uuid.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("read identity: %s does not hold a UUID: restore it from a backup, or remove it to join as a new instance: %w", file, err)
	}
	return id.String(), nil
}

// draw writes a new identity so that a crash leaves either none or a whole one.
func draw(file string) (string, error) {
	id := uuid.NewString()
	tmp := file + ".new"
	if err := writeSynced(tmp, id+"\n"); err != nil {
		return "", fmt.Errorf("write identity: %w", err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return "", fmt.Errorf("write identity: %w", err)
	}
	return id, nil
}

func writeSynced(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
