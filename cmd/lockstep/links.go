package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lockstep/checkpoint"
	"lockstep/config"
	"lockstep/replicator"
	"lockstep/topicsync"
)

// links are the links of a running process. One goroutine, in run, starts and ends them; anybody may look.
type links struct {
	n       *node
	changes chan *renewal
	began   time.Time     // set by run before the first link works
	ended   chan struct{} // holds an element when a link has ended since it was last looked at

	mu   sync.Mutex // guards list
	list []*running // in the order of the configuration
}

// running is one configured link: at work, or stopped by itself.
type running struct {
	cfg   config.Link // as it began
	link  *link       // nil when it could not be made
	first bool        // it is there since the process started
	noted bool        // its end has been told; used by links.run only

	stop context.CancelFunc
	done chan struct{} // closed when it has ended; then the fields below are set
	err  error
	at   time.Time
}

// renewal is a changed configuration on its way to the links.
type renewal struct {
	cfg  *config.Config
	what []config.Change
	done chan struct{} // closed when it is in force
}

func newLinks(n *node) *links {
	return &links{n: n, changes: make(chan *renewal), ended: make(chan struct{}, 1)}
}

// now returns the links as they are at this moment.
func (s *links) now() []*running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func (s *links) set(list []*running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = list
}

// status returns the figures of every link.
func (s *links) status() []replicator.LinkStatus {
	var out []replicator.LinkStatus
	for _, r := range s.now() {
		out = append(out, r.status())
	}
	return out
}

// groups returns the consumer groups of every link.
func (s *links) groups() []checkpoint.LinkGroups {
	var out []checkpoint.LinkGroups
	for _, r := range s.now() {
		if r.link != nil {
			out = append(out, checkpoint.LinkGroups{Link: r.cfg.Name, Pass: r.link.groups.Last(), Ages: r.link.ages(), Alarms: r.link.alarms.All()})
		}
	}
	return out
}

// topics returns the topics of every link.
func (s *links) topics() []topicsync.LinkTopics {
	var out []topicsync.LinkTopics
	for _, r := range s.now() {
		if r.link != nil {
			out = append(out, topicsync.LinkTopics{Link: r.cfg.Name, Topics: r.link.syncer.Topics(), Report: r.link.keeper.Report()})
		}
	}
	return out
}

// over reports whether the link has ended.
func (r *running) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// make prepares the links that a process starts with. It asks no broker.
func (s *links) make(cfg *config.Config, how runMode) error {
	var list []*running
	for _, c := range cfg.Links {
		l, err := s.n.newLink(c, cfg, how)
		if err != nil {
			return err
		}
		list = append(list, &running{cfg: c, link: l, first: true, done: make(chan struct{})})
		s.set(list)
	}
	return nil
}

// starting is how long a process counts as one that starts: a link that waits for its cluster for longer, or stands by for
// longer, and then cannot begin must not end those that have copied all the while.
const starting = time.Minute

// run starts the links and copies until ctx ends, or with once until everything present has been copied. A link that
// cannot begin ends the others and is the error, as long as the process is starting; one that ends by itself later is
// shown as stopped while others are at work. Changes are taken over as they come.
func (s *links) run(ctx, hard context.Context, how runMode) error {
	s.began = time.Now()
	for _, r := range s.now() {
		s.begin(ctx, hard, how.once, r)
	}
	for {
		select {
		case <-s.ended:
			if over, err := s.judge(ctx); over {
				return errors.Join(err, s.endAll())
			}
		case c := <-s.changes:
			s.take(ctx, hard, how, c)
		case <-ctx.Done():
			return s.endAll()
		}
	}
}

// begin lets a link work in a goroutine of its own.
func (s *links) begin(ctx, hard context.Context, once bool, r *running) {
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		err := r.link.run(ctx, hard, once)
		r.close(err)
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}()
}

func (r *running) close(err error) {
	r.err, r.at = err, time.Now()
	close(r.done)
}

// judge looks at links that ended by themselves. over says that the process has nothing more to do, or cannot start.
func (s *links) judge(ctx context.Context) (over bool, err error) {
	if ctx.Err() != nil {
		return false, nil // they were asked to end
	}
	over = true
	var all []error
	for _, r := range s.now() {
		if !r.over() {
			over = false
			continue
		}
		all = append(all, r.err)
		if r.noted {
			continue
		}
		r.noted = true
		if r.err != nil && r.first && !r.link.ready.Load() && r.at.Sub(s.began) < starting {
			return true, r.err
		}
		if r.err != nil {
			s.n.log.Error("link stopped", "link", r.cfg.Name, "error", r.err)
		}
	}
	if !over {
		return false, nil
	}
	return true, errors.Join(all...)
}

// endAll ends every link and waits for all of them. The error tells which did not end cleanly.
func (s *links) endAll() error {
	list := s.now()
	end(list)
	var errs []error
	for _, r := range list {
		if !r.noted {
			errs = append(errs, r.err)
		}
	}
	return errors.Join(errs...)
}

// end asks links to end, all at once, and waits until they have.
func end(rs []*running) {
	for _, r := range rs {
		if r.stop != nil {
			r.stop()
		}
	}
	for _, r := range rs {
		if r.stop != nil {
			<-r.done
		}
	}
}

// close frees what the links hold; all have ended, or were never begun.
func (s *links) close() {
	for _, r := range s.now() {
		s.free(r)
	}
}

func (s *links) free(r *running) {
	if r.link != nil {
		r.link.close()
	}
}
