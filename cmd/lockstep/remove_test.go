package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/internal/pause"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// storedLink is a target on which the link "dr" has stored a claim and one lane.
type storedLink struct {
	fake  *kafkatest.Fake
	dst   *kafka.Cluster
	store *offsetsync.Store
	claim offsetsync.Claim
	file  string // a configuration without the link
}

func newStoredLink(t *testing.T, released bool) *storedLink {
	t.Helper()
	src, fake := kafkatest.FakePair(t)
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	text := fmt.Sprintf("clusters:\n  primary: {brokers: [%q]}\n  backup: {brokers: [%q]}\nlinks:\n  - {name: other, source: primary, target: backup, topics: {include: [\"x\"]}}\n",
		src.Brokers()[0], fake.Brokers()[0])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dst, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: fake.Brokers()}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dst.Close)
	log := statelog.New(dst, "dr", statelog.Options{})
	t.Cleanup(log.Close)
	s := &storedLink{fake: fake, dst: dst, store: offsetsync.NewStore(log, offsetsync.NewView(log), "n1"), file: file,
		claim: offsetsync.Claim{ID: "c1", Owner: "somebody", Link: "dr", At: time.Now()}}
	for _, err := range []error{log.Ensure(t.Context()), s.store.PutClaim(t.Context(), s.claim)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.beat(t, 1)
	if released {
		s.claim.Released = true
		if err := s.store.PutClaim(t.Context(), s.claim); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *storedLink) beat(t *testing.T, n uint64) {
	t.Helper()
	if err := s.store.PutBeat(t.Context(), offsetsync.Beat{Claim: "c1", Owner: "somebody", Node: "a", Seq: n, At: time.Now()}); err != nil {
		t.Error(err)
	}
}

func (s *storedLink) exists(t *testing.T) bool {
	t.Helper()
	meta, err := s.dst.Metadata(t.Context(), statelog.Topic("dr"))
	if err != nil {
		t.Fatal(err)
	}
	return meta.Topics[statelog.Topic("dr")].Err == nil
}

func TestRemove_DeletesOnlyTheStateTopic(t *testing.T) {
	t.Parallel()
	s := newStoredLink(t, true)
	mirror := kafkatest.Topic(t, s.fake)
	args := []string{"links", "remove", "dr", "-c", s.file, "--target", "backup"}
	plan, errs, code := lockstep(t, append(args, "--dry-run")...)
	if code != exitOK || !s.exists(t) {
		t.Fatalf("dry run: exit code %d: %s", code, errs)
	}
	for _, want := range []string{"lockstep.dr.state", "lanes", "cannot be undone", "lost"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	if _, errs, code := typed(t, strings.NewReader("no\n"), args...); code != exitFailed || !s.exists(t) {
		t.Fatalf("after a no: exit code %d: %s", code, errs)
	}
	out, errs, code := lockstep(t, append(args, "--yes")...)
	if code != exitOK || s.exists(t) || !strings.Contains(out, "done") {
		t.Fatalf("exit code %d, topic exists %v: %s%s", code, s.exists(t), out, errs)
	}
	if meta, err := s.dst.Metadata(t.Context(), mirror); err != nil || meta.Topics[mirror].Err != nil {
		t.Errorf("the mirror topic is gone: %v %v", err, meta.Topics[mirror].Err)
	}
	if _, errs, code := lockstep(t, append(args, "--yes")...); code != exitRefused || !strings.Contains(errs, "has no topic lockstep.dr.state") {
		t.Errorf("once more: exit code %d: %s", code, errs)
	}
}

func TestRemove_Refusals(t *testing.T) {
	t.Parallel()
	s := newStoredLink(t, true)
	for name, c := range map[string]struct {
		link, target, says string
		code               int
	}{
		"still configured":  {"other", "backup", "the configuration has link other", exitRefused},
		"unknown cluster":   {"dr", "nowhere", `no cluster "nowhere"`, exitUsage},
		"nothing is stored": {"dr", "primary", "has no topic lockstep.dr.state", exitRefused},
	} {
		_, errs, code := lockstep(t, "links", "remove", c.link, "-c", s.file, "--target", c.target, "--yes")
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.code, errs)
		}
	}
}

func (s *storedLink) remover(t *testing.T, silence time.Duration) (*remover, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	r := newRemover(t.Context(), s.dst, "dr", &out, slog.New(slog.DiscardHandler))
	r.silence = silence
	t.Cleanup(r.close)
	return r, &out
}

func TestRemove_SilentOwnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStoredLink(t, false)
	r, out := s.remover(t, 200*time.Millisecond)
	steps, err := r.plan(t.Context())
	if err != nil || len(steps) != 1 || steps[0].CanUndo || !strings.Contains(steps[0].State, "owner somebody, silent for 200ms") {
		t.Fatalf("plan %+v, %v", steps, err)
	}
	if !strings.Contains(out.String(), "looking for 200ms") {
		t.Errorf("said %q", out)
	}
	if steps, err = r.do(t.Context()); err != nil || !steps[0].Done || s.exists(t) {
		t.Errorf("do %+v, %v; exists %v", steps, err, s.exists(t))
	}
}

func TestRemove_OwnerThatBeatsIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStoredLink(t, false)
	r, _ := s.remover(t, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	var beating = make(chan struct{})
	go func() {
		defer close(beating)
		for n := uint64(2); pause.For(ctx, 50*time.Millisecond); n++ {
			s.beat(t, n)
		}
	}()
	_, err := r.plan(t.Context())
	cancel()
	<-beating
	if exitCode(err) != exitRefused || !strings.Contains(err.Error(), "an owner that lives (somebody)") || !s.exists(t) {
		t.Errorf("got %v", err)
	}
}

// An owner that appears while somebody thinks about the plan is found before anything is deleted.
func TestRemove_OwnerThatComesBackAfterThePlan(t *testing.T) {
	t.Parallel()
	s := newStoredLink(t, true)
	r, _ := s.remover(t, time.Minute)
	if _, err := r.plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := offsetsync.Claim{ID: "c2", Prev: "c1", Owner: "another", Link: "dr", At: time.Now()}
	if err := s.store.PutClaim(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	var refusal *exitError
	if steps, err := r.do(t.Context()); !errors.As(err, &refusal) || refusal.code != exitRefused || !s.exists(t) {
		t.Errorf("got %+v, %v", steps, err)
	}
}

func TestOffline_TakesNoOrders(t *testing.T) {
	t.Parallel()
	o := newOffline(t.Context(), &config.Config{}, slog.New(slog.DiscardHandler))
	defer o.close()
	if _, err := o.Order(t.Context(), "dr", model.Order{Kind: model.OrderPause}); exitCode(err) != exitRefused || !strings.Contains(err.Error(), "--server") {
		t.Errorf("got %v", err)
	}
}
