package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/checkpoint"
)

const demoLink = "dr"

// copier is the lockstep service that the demonstration runs, as a process that can be killed.
type copier struct {
	dir    string
	addr   string
	client *api.Client
	cmd    *exec.Cmd
}

func newCopier(dir string, src, dst []string) (*copier, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`clusters:
  primary: {brokers: [%q]}
  backup:  {brokers: [%q]}
links:
  - {name: %s, source: primary, target: backup, topics: {include: [".*"]}}
node: {data_dir: %q}
api: {listen: %q}
`, src[0], dst[0], demoLink, filepath.Join(dir, "data"), addr)
	if err := os.WriteFile(filepath.Join(dir, "lockstep.yaml"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	client, err := api.NewClient("http://"+addr, nil)
	return &copier{dir: dir, addr: addr, client: client}, err
}

func (c *copier) url() string { return "http://" + c.addr }
func (c *copier) pid() int    { return c.cmd.Process.Pid }

func (c *copier) logFile() string { return filepath.Join(c.dir, "copier.log") }

// start runs this same program as a service and waits until it is ready.
func (c *copier) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c.cmd = exec.Command(self, "run", "-c", filepath.Join(c.dir, "lockstep.yaml"))
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	return poll(ctx, demoPatience, "the copier gets ready", func() (bool, error) { return c.client.Ready(ctx) == nil, nil })
}

// kill ends the service without any warning.
func (c *copier) kill() {
	if c.cmd == nil || c.cmd.Process == nil {
		return
	}
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // says that it was killed
	c.cmd = nil
}

// copied waits until so many records were copied by the present process.
func (c *copier) copied(ctx context.Context, least int64) (n int64, err error) {
	err = poll(ctx, demoPatience, "records are copied", func() (bool, error) {
		lanes, err := c.client.Lanes(ctx, demoLink)
		if err != nil {
			return false, err
		}
		n = 0
		for _, l := range lanes {
			n += l.CopiedRecords
		}
		return n >= least, nil
	})
	return n, err
}

// caughtUp waits until every lane has passed the present end of its source partition.
func (c *copier) caughtUp(ctx context.Context, src []string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(src...))
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx)
	if err != nil {
		return err
	}
	last := ""
	err = poll(ctx, demoPatience, "every lane reaches the end", func() (bool, error) {
		lanes, err := c.client.Lanes(ctx, demoLink)
		if err != nil || len(lanes) == 0 {
			return false, err
		}
		for _, l := range lanes {
			if end, ok := ends.Lookup(l.Topic, l.Partition); !ok || l.SourceOffset < end.Offset {
				last = fmt.Sprintf("%s/%d is %s at %d, the source ends at %d", l.Topic, l.Partition, l.Shown(), l.SourceOffset, end.Offset)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, last)
	}
	return nil
}

// groupFollows waits until the backup has a group where it stands on the primary, by partition.
func (c *copier) groupFollows(ctx context.Context, group string, at []int64) error {
	last := ""
	err := poll(ctx, demoPatience, "the group follows", func() (bool, error) {
		g, err := c.client.Group(ctx, demoLink, group)
		if err != nil {
			return false, err
		}
		last = fmt.Sprintf("group %s is %s: %s", group, g.State, g.Detail)
		seen := 0
		for _, p := range g.Positions {
			if p.SourceOffset != nil && *p.SourceOffset == at[p.Partition] {
				seen++
			}
		}
		return g.State == string(checkpoint.StateSynced) && seen == len(at), nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, last)
	}
	return nil
}

// tail returns the last lines of the service's log.
func (c *copier) tail() string {
	text, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "\n" + strings.Join(lines[max(0, len(lines)-20):], "\n")
}

const demoPatience = 60 * time.Second

// poll asks again and again until the condition holds; errors of ask count as "not yet" until the time is up.
func poll(ctx context.Context, patience time.Duration, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		ok, err := ask()
		if err == nil && ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited %v until %s: %w", patience, what, ctx.Err()), last)
		}
	}
}
