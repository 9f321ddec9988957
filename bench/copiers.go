package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// copier is a program that copies a source topic to a target topic.
type copier interface {
	name() string
	// plan prepares run n over a source topic: the command, where the records will land, and what to delete afterwards.
	plan(ctx context.Context, topic string, parts int32, n int, follow bool) (*job, error)
}

// job is one run of a copier.
type job struct {
	argv   []string
	to     string   // target topic
	litter []string // topics of the target that the run leaves behind
}

type floorCopier struct {
	self string
	s    *stage
}

func (*floorCopier) name() string { return "floor" }

// plan creates the target topic: the bare loop does not know how.
func (c *floorCopier) plan(ctx context.Context, topic string, parts int32, n int, follow bool) (*job, error) {
	to := fmt.Sprintf("floor-%d.%s", n, topic)
	if err := createTopic(ctx, c.s.dst.Admin(), to, parts); err != nil {
		return nil, err
	}
	argv := []string{c.self, "floor", "-src", c.s.src.Brokers()[0], "-dst", c.s.dst.Brokers()[0], "-topic", topic, "-to", to}
	if follow {
		argv = append(argv, "-follow")
	}
	return &job{argv: argv, to: to, litter: []string{to}}, nil
}

type lockstepCopier struct {
	binary string
	s      *stage
}

func (*lockstepCopier) name() string { return "lockstep" }

// plan gives every run a link of its own, and with it a state topic of its own: each begins from nothing.
func (c *lockstepCopier) plan(_ context.Context, topic string, _ int32, n int, follow bool) (*job, error) {
	link := fmt.Sprintf("bench-%s-%d", topic, n)
	dir := filepath.Join(c.s.dir, link)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	file := filepath.Join(dir, "lockstep.yaml")
	prefix := fmt.Sprintf("lockstep-%d.", n)
	text := fmt.Sprintf(lockstepYAML, c.s.src.Brokers()[0], c.s.dst.Brokers()[0], dir, link, topic, prefix)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	argv := []string{c.binary, "run", "-c", file}
	if !follow {
		argv = append(argv, "--once")
	}
	to := prefix + topic
	return &job{argv: argv, to: to, litter: []string{to, "lockstep." + link + ".state"}}, nil
}

const lockstepYAML = `clusters:
  source: {brokers: [%q]}
  target: {brokers: [%q]}
node: {data_dir: %q}
api: {listen: "127.0.0.1:0"}
log: {level: warn}
links:
  - name: %q
    source: source
    target: target
    topics: {include: [%q], rename: "%s{topic}"}
`
