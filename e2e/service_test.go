package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

const (
	// startPatience and stopPatience bound how long a service may take to come up and to end cleanly.
	startPatience = 40 * time.Second
	stopPatience  = 30 * time.Second
)

// service is one lockstep instance of a test: a configuration file, and any number of runs one after the other.
type service struct {
	t      testing.TB
	conf   conf
	file   string
	client *api.Client
	logs   string // folder
	runs   []*process

	flags []string // further arguments of run

	// repeats is how often one run may log the same thing; see checkLogs.
	repeats int
}

// newService writes the configuration; nothing runs yet.
func newService(t testing.TB, c conf) *service {
	t.Helper()
	c = c.complete(t)
	s := &service{t: t, conf: c, file: c.write(t), logs: t.TempDir(), repeats: 3}
	var err error
	// A connection to a run that was killed must not be tried for the next.
	hc := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	if s.client, err = api.NewClient("http://"+c.listen, hc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cleanUp)
	return s
}

// link is the name of the only, or first, link.
func (s *service) link() string { return s.conf.links[0].name }

// launch begins another run of the service and does not wait for anything.
func (s *service) launch(env ...string) *process {
	s.t.Helper()
	if n := len(s.runs); n > 0 && !s.runs[n-1].ended() {
		s.t.Fatal("the run before has not ended")
	}
	log := filepath.Join(s.logs, fmt.Sprintf("run-%d.log", len(s.runs)+1))
	env = append(env, "GORACE=halt_on_error=1 exitcode=66")
	p := startProcess(s.t, log, env, append([]string{"run", "-c", s.file}, s.flags...)...)
	s.runs = append(s.runs, p)
	return p
}

// start begins another run and waits until it is ready.
func (s *service) start(env ...string) *service {
	s.t.Helper()
	p := s.launch(env...)
	s.awaitReady(p)
	return s
}

func (s *service) awaitReady(p *process) {
	s.t.Helper()
	kafkatest.Eventually(s.t, startPatience, func() (bool, string) {
		if p.ended() {
			s.t.Fatalf("lockstep ended with exit code %d while it should get ready", p.cmd.ProcessState.ExitCode())
		}
		err := s.client.Ready(s.t.Context())
		return err == nil, fmt.Sprint(err)
	})
}

// awaitListening waits until the present run serves requests; it may be far from ready.
func (s *service) awaitListening() {
	s.t.Helper()
	kafkatest.Eventually(s.t, startPatience, func() (bool, string) {
		_, err := s.client.Links(s.t.Context())
		return err == nil, fmt.Sprint(err)
	})
}

// now is the present run.
func (s *service) now() *process {
	s.t.Helper()
	if len(s.runs) == 0 {
		s.t.Fatal("the service was never started")
	}
	return s.runs[len(s.runs)-1]
}

// stop ends the present run as an operator does, and expects it to end cleanly.
func (s *service) stop() {
	s.t.Helper()
	p := s.now()
	if p.ended() {
		s.t.Fatalf("lockstep ended by itself, with exit code %d", p.cmd.ProcessState.ExitCode())
	}
	p.signal(s.t, syscall.SIGTERM)
	code, ok := p.wait(stopPatience)
	if !ok {
		p.signal(s.t, syscall.SIGQUIT) // its goroutines are in the log
		p.wait(5 * time.Second)
		s.t.Fatalf("no end within %s of SIGTERM", stopPatience)
	}
	if code != 0 {
		s.t.Fatalf("exit code %d after SIGTERM, want 0", code)
	}
}

// kill ends the present run without any warning.
func (s *service) kill() {
	s.t.Helper()
	if p := s.now(); p.ended() {
		s.t.Fatalf("lockstep ended by itself, with exit code %d", p.cmd.ProcessState.ExitCode())
	}
	s.now().kill(s.t)
}

// exits waits until the present run ends by itself, with the code, and returns its log.
func (s *service) exits(code int, within time.Duration) string {
	s.t.Helper()
	got, ok := s.now().wait(within)
	if !ok {
		s.t.Fatalf("lockstep still runs after %s; want exit code %d", within, code)
	}
	if got != code {
		s.t.Fatalf("exit code %d, want %d", got, code)
	}
	return s.now().log()
}

// cleanUp ends what runs, shows logs of a failed test, and checks those of a good one.
func (s *service) cleanUp() {
	for _, p := range s.runs {
		if !p.ended() && s.t.Failed() {
			p.signal(s.t, syscall.SIGQUIT) // its goroutines are in the log then
			p.wait(5 * time.Second)
		}
		if !p.ended() {
			p.kill(s.t)
		}
	}
	if !s.t.Failed() {
		s.checkLogs()
	}
	if s.t.Failed() {
		s.showLogs()
	}
}

// showLogs prints the last runs' logs; LOCKSTEP_E2E_LOGS names a folder that gets all of them.
func (s *service) showLogs() {
	if dir := os.Getenv("LOCKSTEP_E2E_LOGS"); dir != "" {
		to := filepath.Join(dir, fmt.Sprintf("%s-%d", s.link(), time.Now().UnixNano()))
		s.t.Logf("all logs are in %s", to)
		if err := os.CopyFS(to, os.DirFS(s.logs)); err != nil {
			s.t.Logf("keep logs: %v", err)
		}
	}
	s.t.Logf("configuration:\n%s", s.conf.yaml())
	from := max(0, len(s.runs)-3)
	for i, p := range s.runs[from:] {
		text, _, _ := strings.Cut(p.log(), "SIGQUIT: quit")
		if lines := strings.Count(text, "\n"); lines > 120 {
			text = head(text, 40) + fmt.Sprintf("… (%d lines)\n", lines-120) + tail(text, 80)
		}
		s.t.Logf("log of run %d of %d:\n%s", from+i+1, len(s.runs), text)
	}
}

// once runs `run --once` with the service's configuration and returns how it ended.
func (s *service) once(code int) result {
	s.t.Helper()
	return lockstep(s.t, "run", "--once", "-c", s.file).want(s.t, code)
}

// command runs a command line with the service's configuration.
func (s *service) command(args ...string) result {
	s.t.Helper()
	return lockstep(s.t, append(args, "-c", s.file)...)
}
