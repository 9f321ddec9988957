package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tempPrefix begins the names of the folders of clusters; the process id of the test follows.
const tempPrefix = "lockstep-kafka-"

// tempDir makes a folder for a cluster. It is removed when its test passes; after a failure it is left for a look,
// and a test process removes it an hour later.
func tempDir() (string, error) {
	sweepTemp()
	dir, err := os.MkdirTemp("", tempPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	return dir, nil
}

// sweepTemp removes old folders of test processes that failed, or were killed before they could remove them.
func sweepTemp() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*-*"))
	for _, d := range dirs {
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), tempPrefix), "-")
		pid, err := strconv.Atoi(name)
		st, statErr := os.Stat(d)
		if err == nil && statErr == nil && !isRunning(pid) && time.Since(st.ModTime()) > time.Hour {
			os.RemoveAll(d)
		}
	}
}
