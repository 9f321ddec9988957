package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program returns the binary under test, built once per run with its fail points; LOCKSTEP_BINARY names another.
func program(t testing.TB) string {
	t.Helper()
	if file := os.Getenv("LOCKSTEP_BINARY"); file != "" {
		return file
	}
	file, err := whole.program.get(whole.build)
	if err != nil {
		t.Fatalf("build lockstep: %v", err)
	}
	return file
}

func withRace() bool { return os.Getenv("LOCKSTEP_RACE") == "1" }

func (w *wholeRun) build() (string, error) {
	file := filepath.Join(w.TempDir(), "lockstep")
	args := []string{"build", "-tags", "failpoint", "-o", file}
	if withRace() {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "lockstep/cmd/lockstep")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return file, nil
}

// result is what a command line left behind.
type result struct {
	line           string
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("lockstep %s: exit code %d\nstdout: %s\nstderr: %s", r.line, r.code, r.stdout, r.stderr)
}

// commandPatience bounds every command line but `run`.
const commandPatience = 2 * time.Minute

// lockstep runs one command line to its end, in a folder of its own, with nothing on its standard input.
func lockstep(t testing.TB, args ...string) result {
	t.Helper()
	return lockstepReading(t, "", args...)
}

// lockstepReading is lockstep with a text on its standard input.
func lockstepReading(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = cleanEnv()
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{line: strings.Join(args, " "), code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	if ctx.Err() != nil {
		t.Fatalf("no end in %s: %s", commandPatience, r)
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatalf("start lockstep: %v", err)
	}
	if strings.Contains(r.stderr, "panic:") || strings.Contains(r.stderr, "DATA RACE") {
		t.Errorf("a command panicked or raced: %s", r)
	}
	return r
}

// want fails the test unless the command ended with the code.
func (r result) want(t testing.TB, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\n%s", r.code, code, r)
	}
	return r
}

// says fails the test unless the command's outputs contain each text.
func (r result) says(t testing.TB, texts ...string) result {
	t.Helper()
	said := strings.Join(strings.Fields(r.stdout+r.stderr), " ") // tables wrap their sentences
	for _, text := range texts {
		if !strings.Contains(r.stdout+r.stderr, text) && !strings.Contains(said, text) {
			t.Errorf("output lacks %q\n%s", text, r)
		}
	}
	return r
}

// cleanEnv is this process's environment without settings that lockstep would read.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LOCKSTEP_") {
			env = append(env, v)
		}
	}
	return env
}
