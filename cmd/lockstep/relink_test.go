package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/config"
	"lockstep/internal/kafkatest"
)

// inProcess is a node of this test over two simulated clusters, with its configuration file.
type inProcess struct {
	t        *testing.T
	src, dst *kafkatest.Fake
	file     string
	listen   string
	client   *api.Client
	asked    chan os.Signal

	mu  sync.Mutex // guards log
	log strings.Builder
}

// Write takes a line of the log.
func (p *inProcess) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(line)
}

// claims counts how often a link was claimed.
func (p *inProcess) claims(link string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "claimed the link") && strings.Contains(line, "link="+link+" ") {
			n++
		}
	}
	return n
}

func startNode(t *testing.T, links string) *inProcess {
	t.Helper()
	p := &inProcess{t: t, file: filepath.Join(t.TempDir(), "lockstep.yaml"), asked: make(chan os.Signal)}
	p.src, p.dst = kafkatest.FakePair(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.listen = l.Addr().String()
	l.Close()
	if p.client, err = api.NewClient("http://"+p.listen, nil); err != nil {
		t.Fatal(err)
	}
	p.write(links)
	set, err := newSettings(config.Source{File: p.file})
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(set, slog.New(slog.NewTextHandler(p, nil)), new(slog.LevelVar))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx, t.Context(), p.asked, runMode{}, newProgress(&strings.Builder{})) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, n.close()); err != nil {
			t.Errorf("end: %v", err)
		}
	})
	return p
}

func (p *inProcess) write(links string) {
	p.t.Helper()
	dir := filepath.Dir(p.file)
	text := fmt.Sprintf("node: {data_dir: %q}\napi: {listen: %q}\nclusters: {a: {brokers: %q}, b: {brokers: %q}}\nlinks:\n%s", dir, p.listen,
		p.src.Brokers(), p.dst.Brokers(), links)
	if err := os.WriteFile(p.file, []byte(strings.ReplaceAll(text, `" "`, `", "`)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// reload writes the file and has it read.
func (p *inProcess) reload(links string) {
	p.t.Helper()
	p.write(links)
	select {
	case p.asked <- os.Interrupt:
	case <-time.After(30 * time.Second):
		p.t.Fatal("a reload before has not ended")
	}
}

// await waits until the links show the lanes in these states, each with all 20 records copied: "dr:orders/0 copying".
func (p *inProcess) await(want ...string) {
	p.t.Helper()
	slices.Sort(want)
	kafkatest.Eventually(p.t, 30*time.Second, func() (bool, string) {
		links, err := p.client.Links(p.t.Context())
		var got []string
		for _, l := range links {
			lanes, lerr := p.client.Lanes(p.t.Context(), l.Name)
			err = errors.Join(err, lerr)
			for _, lane := range lanes {
				shown := fmt.Sprintf("%s:%s/%d %s", lane.Link, lane.Topic, lane.Partition, lane.State)
				if lane.SourceOffset != 20 {
					shown += fmt.Sprintf(" at %d", lane.SourceOffset)
				}
				got = append(got, shown)
			}
		}
		slices.Sort(got)
		return err == nil && slices.Equal(got, want), fmt.Sprintf("%v, %v", got, err)
	})
}

func (p *inProcess) lane(link, topic string) api.LaneDetail {
	p.t.Helper()
	l, err := p.client.Lane(p.t.Context(), link, topic, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

func linkLine(name, include string) string {
	return fmt.Sprintf("  - {name: %s, source: a, target: b, topics: {include: [%s]}}\n", name, include)
}

func TestReload_LinksFollowTheFile(t *testing.T) {
	t.Parallel()
	p := startNode(t, linkLine("steady", "orders")+linkLine("moves", "x"))
	for _, topic := range []string{"orders", "x", "y"} {
		kafkatest.Topic(t, p.src, kafkatest.TopicOptions{Name: topic, Partitions: 1})
		kafkatest.Produce(t, p.src, topic, 0, kafkatest.Records(20, 1))
	}
	p.await("steady:orders/0 copying", "moves:x/0 copying")
	was := p.lane("steady", "orders")

	p.reload(linkLine("steady", "orders") + linkLine("moves", "y"))
	p.await("steady:orders/0 copying", "moves:x/0 closed", "moves:y/0 copying")
	x := p.lane("moves", "x")
	p.reload(linkLine("moves", "x,y") + linkLine("steady", "orders"))
	p.await("steady:orders/0 copying", "moves:x/0 copying", "moves:y/0 copying")
	if again := p.lane("moves", "x"); again.Term != x.Term || again.Opening != x.Opening+1 {
		t.Errorf("a topic that came back is in opening %d of term %d, was in %d of %d", again.Opening, again.Term, x.Opening, x.Term)
	}

	before := p.lane("moves", "x")
	p.reload(strings.Replace(linkLine("moves", "x,y"), "source", "isolation: read_uncommitted, source", 1) + linkLine("steady", "orders"))
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		l, err := p.client.Lane(t.Context(), "moves", "x", 0)
		return err == nil && l.State == "copying" && l.Opening > before.Opening, fmt.Sprintf("%+v, %v", l, err)
	})
	if n := p.claims("moves"); n != 1 {
		t.Errorf("a link that was only started again was claimed %d times", n)
	}
	p.await("steady:orders/0 copying", "moves:x/0 copying", "moves:y/0 copying")

	p.reload(linkLine("steady", "orders"))
	p.await("steady:orders/0 copying")
	p.reload(linkLine("steady", "orders") + "nonsense: 1\n")
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		st, err := p.client.Status(t.Context())
		return err == nil && st.Config.Failed != nil, fmt.Sprintf("%+v, %v", st.Config, err)
	})
	p.reload(linkLine("steady", "orders") + linkLine("moves", "x"))
	p.await("steady:orders/0 copying", "moves:x/0 copying")
	if n := p.claims("moves"); n != 2 {
		t.Errorf("a link that was given up and came back was claimed %d times", n)
	}
	if again := p.lane("moves", "x"); again.Term != x.Term {
		t.Errorf("a link that came back is in term %d, was in %d", again.Term, x.Term)
	}
	if now := p.lane("steady", "orders"); now.Opening != was.Opening || now.Term != was.Term {
		t.Errorf("a lane that no change concerns was opened again: %d of term %d, was %d of %d", now.Opening, now.Term, was.Opening, was.Term)
	}
	for _, topic := range []string{"orders", "x", "y"} {
		kafkatest.MustEqual(t, p.src, p.dst, []kafkatest.Pair{{Src: topic, Dst: topic}})
		if src, dst := kafkatest.End(t, p.src, topic, 0), kafkatest.End(t, p.dst, topic, 0); src != dst {
			t.Errorf("the target of %s ends at %d, the source at %d: markers were written", topic, dst, src)
		}
	}
}
