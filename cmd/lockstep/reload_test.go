package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"lockstep/config"
)

const reloadBase = `
clusters: {a: {brokers: ["127.0.0.1:1"]}, b: {brokers: ["127.0.0.1:2"]}}
links: [{name: dr, source: a, target: b, topics: {include: [x]}}]
`

// watched is a reloader over a file of the test, driven by hand.
type watched struct {
	*reloader
	t       *testing.T
	file    string
	reg     *prometheus.Registry
	out     bytes.Buffer
	applied [][]string // keys, for each time that something was put in force
}

func newWatched(t *testing.T, source config.Source, text string) *watched {
	t.Helper()
	w := &watched{t: t, file: filepath.Join(t.TempDir(), "lockstep.yaml"), reg: prometheus.NewRegistry()}
	w.write(text)
	source.File = w.file
	set, err := newSettings(source)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(_ context.Context, _ *config.Config, what []config.Change) error {
		w.applied = append(w.applied, keysOf(what))
		return nil
	}
	w.reloader = newReloader(set, apply, w.reg, slog.New(slog.NewTextHandler(&w.out, nil)))
	return w
}

func (w *watched) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// polls looks so many times.
func (w *watched) polls(n int) {
	for range n {
		w.poll(w.t.Context())
	}
}

// puts fails the test unless exactly these sets of keys were put in force since the last call.
func (w *watched) puts(want ...[]string) {
	w.t.Helper()
	if d := cmp.Diff(want, w.applied); d != "" {
		w.t.Errorf("put in force (-want +got):\n%s\n%s", d, w.out.String())
	}
	w.applied = nil
}

// failures is the counter as it is scraped.
func (w *watched) failures() float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "lockstep_config_reload_failures_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	w.t.Fatal("no counter of failures")
	return 0
}

func with(base string, lines ...string) string { return base + strings.Join(lines, "\n") + "\n" }

func TestReloader_TakesContentThatStandsStill(t *testing.T) {
	t.Parallel()
	w := newWatched(t, config.Source{}, reloadBase)
	w.polls(3)
	w.puts()
	w.write(with(reloadBase, "log: {level: debug}"))
	w.polls(1)
	w.puts() // it may be half written
	w.polls(1)
	w.puts([]string{"log.level"})
	w.polls(3)
	w.puts()
	w.write(with(reloadBase, "log: {level: warn}"))
	w.polls(1)
	w.write(with(reloadBase, "log: {level: debug}")) // as before, before it was looked at twice
	w.polls(3)
	w.puts()
	w.write(with(reloadBase, "log: {level: warn}"))
	w.polls(1)
	w.write(with(reloadBase, "log: {level: error}"))
	w.polls(1)
	w.puts()
	w.polls(1)
	w.puts([]string{"log.level"})
	if got := w.inForce.Log.Level; got != "error" {
		t.Errorf("in force is %s", got)
	}
}

// Kubernetes swaps a link to a folder; the file itself is a link into it.
func TestReloader_FollowsLinksToFiles(t *testing.T) {
	t.Parallel()
	w := newWatched(t, config.Source{}, reloadBase)
	dir := filepath.Dir(w.file)
	put := func(folder, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "lockstep.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(folder, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put("1", reloadBase)
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..data", "lockstep.yaml"), w.file); err != nil {
		t.Fatal(err)
	}
	w.polls(3)
	w.puts()
	put("2", with(reloadBase, "log: {level: debug}"))
	w.polls(2)
	w.puts([]string{"log.level"})
}

func TestReloader_FaultsLeaveTheOldInForce(t *testing.T) {
	t.Parallel()
	w := newWatched(t, config.Source{}, reloadBase)
	w.write(with(reloadBase, "log: {level: loud}", "nodes: {}"))
	w.polls(5)
	w.puts()
	if n := w.failures(); n != 1 {
		t.Errorf("%v failures, want 1", n)
	}
	st := w.Status()
	if st.Failed == nil || len(st.Failed.Faults) != 2 || !strings.Contains(st.Failed.Faults[0], "lockstep.yaml:4: log.level") {
		t.Errorf("status %+v", st.Failed)
	}
	if log := w.out.String(); strings.Count(log, "fault in the configuration") != 2 || !strings.Contains(log, `did you mean \"node\"`) {
		t.Errorf("the log does not tell each fault once:\n%s", log)
	}
	w.write(with(reloadBase, "log: {level: louder}"))
	w.polls(3)
	if n, st := w.failures(), w.Status(); n != 2 || len(st.Failed.Faults) != 1 {
		t.Errorf("%v failures; status %+v", n, st.Failed)
	}
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	w.polls(3)
	w.puts()
	if st := w.Status(); w.failures() != 3 || !strings.Contains(st.Failed.Faults[0], "cannot be read") {
		t.Errorf("status without a file %+v", st.Failed)
	}
	w.write(reloadBase) // mended: as it was
	w.polls(2)
	w.puts([]string{}) // nothing changed
	if st := w.Status(); st.Failed != nil {
		t.Errorf("status %+v", st)
	}
	if log := w.out.String(); strings.Count(log, "no faults any more") != 1 {
		t.Errorf("the log does not tell once that the faults are gone:\n%s", log)
	}
}

// What was missing may be a file that the configuration names: its own content does not change when that one appears.
func TestReloader_TriesAgainWhileItFails(t *testing.T) {
	t.Parallel()
	w := newWatched(t, config.Source{}, reloadBase)
	secret := filepath.Join(t.TempDir(), "password")
	w.write(strings.Replace(reloadBase, `["127.0.0.1:1"]`, `["127.0.0.1:1"], sasl: {mechanism: plain, username: u, password: "file:`+secret+`"}`, 1))
	w.polls(5)
	w.puts()
	if n := w.failures(); n != 1 {
		t.Errorf("%v failures, want 1", n)
	}
	if err := os.WriteFile(secret, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.polls(1)
	w.puts([]string{"clusters.a.sasl"})
	if strings.Contains(w.out.String(), "hunter2") {
		t.Error("the log shows the password")
	}
}

func TestReloader_RestartKeysWait(t *testing.T) {
	t.Parallel()
	w := newWatched(t, config.Source{}, reloadBase)
	w.write(with(reloadBase, "log: {level: debug, format: json}", "node: {id: n7}"))
	w.polls(2)
	w.puts([]string{"log.level"})
	var keys []string
	for _, p := range w.Status().Pending {
		keys = append(keys, p.Key)
	}
	if d := cmp.Diff([]string{"node.id", "log.format"}, keys); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if w.inForce.Node.ID != "n1" || w.inForce.Log.Format != "text" {
		t.Errorf("in force %+v %+v", w.inForce.Node, w.inForce.Log)
	}
	w.write(reloadBase)
	w.polls(2)
	w.puts([]string{"log.level"})
	if p := w.Status().Pending; len(p) > 0 {
		t.Errorf("pending %+v after the file went back", p)
	}
}

func TestReloader_FlagsAndVariablesWin(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	config.AddFlags(fs)
	if err := fs.Parse([]string{"--log.level=warn"}); err != nil {
		t.Fatal(err)
	}
	w := newWatched(t, config.Source{Flags: fs, Env: []string{"LOCKSTEP_LINKS__DR__ON_GAP=pause"}}, reloadBase)
	w.write(strings.Replace(with(reloadBase, "log: {level: debug}"), "name: dr,", "name: dr, on_gap: continue, start: latest,", 1))
	w.polls(2)
	w.puts([]string{"links[dr].start"})
	if c := w.inForce; c.Log.Level != "warn" || c.Links[0].OnGap != "pause" || c.Links[0].Start != "latest" {
		t.Errorf("in force %+v %+v", c.Log, c.Links)
	}
}

func TestReloader_Asked(t *testing.T) {
	t.Parallel()
	w := newWatched(t, config.Source{}, reloadBase)
	ctx, cancel := context.WithCancel(t.Context())
	ticks, asked := make(chan time.Time), make(chan os.Signal)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.watch(ctx, ticks, asked)
	}()
	asked <- os.Interrupt // nothing changed: stopped links are started again all the same
	ticks <- time.Time{}  // it has been dealt with
	w.write(with(reloadBase, "log: {level: debug}"))
	asked <- os.Interrupt // at once, without a second look
	ticks <- time.Time{}
	ticks <- time.Time{}
	cancel()
	<-done
	w.puts([]string{}, []string{"log.level"})
	if !strings.Contains(w.out.String(), "configuration is unchanged") {
		t.Errorf("log:\n%s", w.out.String())
	}
}

// A pipe can be read once: reading it again would wait for ever.
func TestReloader_PipeIsNotReadAgain(t *testing.T) {
	t.Parallel()
	w := newWatched(t, config.Source{}, reloadBase)
	r, p, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer p.Close()
	w.set.source.File = fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(w.set.source.File); err != nil {
		t.Skipf("no /dev/fd here: %v", err)
	}
	w.polls(3)
	w.take(t.Context(), w.look(), true)
	w.puts()
	if st := w.Status(); st.Failed == nil || !strings.Contains(strings.Join(st.Failed.Faults, " "), "cannot be read") {
		t.Errorf("status %+v", st)
	}
}

func TestFates(t *testing.T) {
	t.Parallel()
	link := func(name string) config.Link { return config.Link{Name: name, Source: "a", Target: "b"} }
	all := map[string]bool{"one": false, "two": false}
	for name, c := range map[string]struct {
		stopped map[string]bool
		next    []config.Link
		changes []config.Change
		want    fate
	}{
		"nothing":               {all, []config.Link{link("one"), link("two")}, nil, fate{keep: []string{"one", "two"}}},
		"live":                  {all, []config.Link{link("one"), link("two")}, []config.Change{{Link: "one", Reload: config.ReloadLive}}, fate{keep: []string{"one", "two"}}},
		"one of them":           {all, []config.Link{link("one"), link("two")}, []config.Change{{Link: "one", Reload: config.ReloadLink}}, fate{again: []string{"one"}, keep: []string{"two"}}},
		"their cluster":         {all, []config.Link{link("one"), link("two")}, []config.Change{{Cluster: "b", Reload: config.ReloadLink}}, fate{again: []string{"one", "two"}}},
		"another cluster":       {all, []config.Link{link("one"), link("two")}, []config.Change{{Cluster: "c", Reload: config.ReloadLink}}, fate{keep: []string{"one", "two"}}},
		"renamed":               {all, []config.Link{link("one"), link("three")}, nil, fate{end: []string{"two"}, keep: []string{"one"}, start: []string{"three"}}},
		"one had stopped":       {map[string]bool{"one": true, "two": false}, []config.Link{link("one"), link("two")}, nil, fate{again: []string{"one"}, keep: []string{"two"}}},
		"a stopped one is gone": {map[string]bool{"one": true, "two": false}, []config.Link{link("two")}, nil, fate{end: []string{"one"}, keep: []string{"two"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fates(c.stopped, c.next, c.changes); !equalFates(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func equalFates(a, b fate) bool {
	return slices.Equal(a.end, b.end) && slices.Equal(a.again, b.again) && slices.Equal(a.keep, b.keep) && slices.Equal(a.start, b.start)
}
