package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

const defaultLatencyFor = 20 * time.Second

type options struct {
	rounds     int
	scale      float64
	latencyFor time.Duration
	only       string
	copiers    string
	binary     string
}

// stage is what the copiers meet: two brokers, filled topics, and the copiers themselves.
type stage struct {
	options
	src, dst *kafkatest.Cluster
	dir      string
	loads    []load
	running  []copier // the copiers, in the order of their first round
}

// newStage builds lockstep, starts the brokers and fills the source.
func newStage(ctx context.Context, h *host, o options) (*stage, error) {
	s := &stage{options: o, dir: h.dir}
	if err := s.choose(ctx); err != nil {
		return nil, err
	}
	say("starting two Kafka %s", kafkatest.Kafka4)
	err := h.catch(func() {
		cs := kafkatest.StartAll(h, kafkatest.Options{HeapMB: 768}, kafkatest.Options{HeapMB: 768})
		s.src, s.dst = cs[0], cs[1]
	})
	if err != nil {
		return nil, err
	}
	for _, l := range loads(o.scale) {
		if o.only != "" && o.only != l.name {
			continue
		}
		say("filling topic %s with %d records", l.name, l.records)
		if err := l.fill(ctx, s.src.Admin(), s.src.Brokers()); err != nil {
			return nil, err
		}
		s.loads = append(s.loads, l)
	}
	return s, nil
}

// choose makes the copiers that were asked for.
func (s *stage) choose(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	for name := range strings.SplitSeq(s.copiers, ",") {
		switch name {
		case "floor":
			s.running = append(s.running, &floorCopier{self, s})
		case "lockstep":
			if s.binary == "" {
				if s.binary, err = build(ctx, s.dir); err != nil {
					return err
				}
			}
			s.running = append(s.running, &lockstepCopier{s.binary, s})
		default:
			return fmt.Errorf("there is no copier %q; there are floor and lockstep", name)
		}
	}
	return nil
}

// build makes the binary that is measured, as `make build` does.
func build(ctx context.Context, dir string) (string, error) {
	out := filepath.Join(dir, "lockstep")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./cmd/lockstep")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build lockstep: %w\n%s", err, text)
	}
	return out, nil
}

// measure runs all that was asked for.
func (s *stage) measure(ctx context.Context) (*result, error) {
	res := &result{Schema: 1, At: time.Now().UTC().Truncate(time.Second), Kafka: kafkatest.Kafka4, Go: runtime.Version(), CPUs: runtime.NumCPU()}
	for _, l := range s.loads {
		t, err := s.throughput(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", l.name, err)
		}
		switch l.name {
		case "large":
			res.Large = t
		case "small":
			res.Small = t
		}
	}
	if s.only == "" || s.only == "latency" {
		var err error
		if res.Latency, err = s.latency(ctx); err != nil {
			return nil, fmt.Errorf("measure latency: %w", err)
		}
	}
	return res, nil
}

// sweep deletes topics of the target, so that a run's files do not weigh on the next.
func (s *stage) sweep(ctx context.Context, names ...string) error {
	for _, r := range deleteTopics(ctx, s.dst.Admin(), names) {
		if r.Err != nil && !notYet(r.Err) {
			return fmt.Errorf("delete topic %s: %w", r.Topic, r.Err)
		}
	}
	return nil
}

func deleteTopics(ctx context.Context, cl *kgo.Client, names []string) []kadm.DeleteTopicResponse {
	got, err := kadm.NewClient(cl).DeleteTopics(ctx, names...)
	if err != nil {
		return []kadm.DeleteTopicResponse{{Topic: fmt.Sprint(names), Err: err}}
	}
	return got.Sorted()
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
