package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"
)

func (a *app) demoCommand() *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch lockstep work: two clusters in this process, live traffic, a crash in mid-stream",
		Long: "Watch lockstep work: two simulated Kafka clusters in this process, live traffic with transactions, and a copier that is killed " +
			"in mid-stream and started again. Afterwards both sides are compared record by record, and a consumer group is moved.\n\n" +
			"With --once it runs to the end and exits 0 only if every check held; without it traffic goes on until Ctrl-C.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), once) },
	}
	c.Flags().BoolVar(&once, "once", false, "run to the end without waiting")
	return c
}

// demo is one demonstration.
type demo struct {
	out      io.Writer
	dir      string
	src, dst *kfake.Cluster
	copier   *copier
	step     int
}

func (a *app) demo(ctx context.Context, once bool) (err error) {
	dir, err := os.MkdirTemp("", "lockstep-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{out: a.stdout, dir: dir}
	if err := d.clusters(); err != nil {
		return err
	}
	defer d.src.Close()
	defer d.dst.Close()
	if d.copier, err = newCopier(dir, d.src.ListenAddrs(), d.dst.ListenAddrs()); err != nil {
		return err
	}
	defer d.copier.kill()
	if err := d.story(ctx, once); err != nil {
		return fmt.Errorf("%w\nthe copier's log: %s", err, d.copier.tail())
	}
	return nil
}

func (d *demo) say(format string, args ...any) {
	d.step++
	fmt.Fprintf(d.out, "%2d  %s\n", d.step, fmt.Sprintf(format, args...))
}

func (d *demo) detail(format string, args ...any) {
	fmt.Fprintf(d.out, "    %s\n", fmt.Sprintf(format, args...))
}

// demoTopics are the source's topics with their partitions.
func demoTopics() map[string]int32 { return map[string]int32{"orders": 4, "payments": 2} }

func (d *demo) clusters() (err error) {
	opts := []kfake.Opt{kfake.NumBrokers(3), kfake.DefaultNumPartitions(4)}
	seeded := opts
	for topic, n := range demoTopics() {
		seeded = append(seeded, kfake.SeedTopics(n, topic))
	}
	if d.src, err = kfake.NewCluster(append(seeded, kfake.ClusterID("demo-primary"))...); err != nil {
		return fmt.Errorf("start the primary: %w", err)
	}
	if d.dst, err = kfake.NewCluster(append(opts, kfake.ClusterID("demo-backup"))...); err != nil {
		return fmt.Errorf("start the backup: %w", err)
	}
	return nil
}

const (
	demoRecords = 20_000
	demoGroup   = "billing"
)

// story tells the demonstration step by step; every check returns an error when it does not hold.
func (d *demo) story(ctx context.Context, once bool) error {
	d.say("two simulated clusters run: primary %s, backup %s", d.src.ListenAddrs()[0], d.dst.ListenAddrs()[0])
	d.say("the configuration is six lines: %s", filepath.Join(d.dir, "lockstep.yaml"))
	d.detail("a running copier serves %s", d.copier.url())
	if err := d.copier.start(ctx); err != nil {
		return err
	}
	d.say("the copier runs as a process of its own (pid %d)", d.copier.pid())
	traffic := newTraffic(d.src.ListenAddrs())
	defer traffic.close()
	d.say("traffic begins: %s records to orders, and to payments in transactions, some of them aborted", grouped(demoRecords))
	sent := make(chan error, 1)
	go func() { sent <- traffic.run(ctx, demoRecords) }()
	if err := d.crash(ctx); err != nil {
		return err
	}
	if err := <-sent; err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	if err := d.prove(ctx); err != nil {
		return err
	}
	if once {
		d.say("every check held")
		return nil
	}
	return d.live(ctx, traffic)
}

// crash kills the copier in mid-stream and starts it again.
func (d *demo) crash(ctx context.Context) error {
	n, err := d.copier.copied(ctx, demoRecords/4)
	if err != nil {
		return err
	}
	d.copier.kill()
	d.say("killed the copier with SIGKILL in mid-stream, after %s records", grouped(n))
	if err := d.copier.start(ctx); err != nil {
		return err
	}
	d.say("started it again: it seals what was open and reads from the backup's own log how far it came")
	return nil
}

// prove waits until all is copied, compares both sides and moves a group.
func (d *demo) prove(ctx context.Context) error {
	if err := d.copier.caughtUp(ctx, d.src.ListenAddrs()); err != nil {
		return err
	}
	compared, err := compareSides(ctx, d.src.ListenAddrs(), d.dst.ListenAddrs(), demoTopics())
	if err != nil {
		return err
	}
	d.say("compared both sides record by record: %s records, none missing, none twice, all in order", grouped(compared))
	return d.moveGroup(ctx)
}

// moveGroup shows that a group which stands in the middle of a topic reads the very next record on the backup.
func (d *demo) moveGroup(ctx context.Context) error {
	at, err := commitHalf(ctx, d.src.ListenAddrs(), demoGroup, "payments", demoTopics()["payments"])
	if err != nil {
		return err
	}
	if err := d.copier.groupFollows(ctx, demoGroup, at); err != nil {
		return err
	}
	there, err := standsOn(ctx, d.dst.ListenAddrs(), demoGroup, "payments")
	if err != nil {
		return err
	}
	d.say("group %s stands in the middle of payments; lockstep has committed its positions on the backup:", demoGroup)
	for p, src := range at {
		dst, ok := there[int32(p)]
		if !ok {
			return fmt.Errorf("payments/%d: group %s has no position on the backup", p, demoGroup)
		}
		next, err := sameNext(ctx, d.src.ListenAddrs(), d.dst.ListenAddrs(), "payments", int32(p), src, dst)
		if err != nil {
			return err
		}
		d.detail("payments/%d: %d on the primary is %d on the backup; next record on both: %q", p, src, dst, next)
	}
	return nil
}

// live keeps traffic going until ctx ends and shows how the copy follows.
func (d *demo) live(ctx context.Context, t *traffic) error {
	d.say("traffic goes on; lockstep status --server %s shows the link. Ctrl-C ends the demonstration", d.copier.url())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := t.run(ctx, 500); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if links, err := d.copier.client.Links(ctx); err == nil && len(links) == 1 {
			d.detail("%s: %s, %s records behind, lanes: %s", links[0].Name, links[0].State, offset(links[0].RPO.Records), lanesText(links[0].Lanes))
		}
	}
}
