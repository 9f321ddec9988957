package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"lockstep/config"
)

// fate is what a changed configuration means for the links, by their names.
type fate struct {
	end   []string // not configured any more
	again []string // end cleanly and start again: a change asks for it, or the link had stopped by itself
	keep  []string // go on
	start []string // new
}

// fates decides. stopped tells for each link that there is whether it has stopped by itself. A change of rules, once
// there are any, leaves the link where it is: the lanes concerned are opened again in a new term.
func fates(stopped map[string]bool, next []config.Link, changes []config.Change) (f fate) {
	configured := make(map[string]bool, len(next))
	for _, l := range next {
		configured[l.Name] = true
		asks := func(c config.Change) bool { return c.Reload == config.ReloadLink && c.Concerns(l) }
		switch isStopped, there := stopped[l.Name]; {
		case !there:
			f.start = append(f.start, l.Name)
		case isStopped || slices.ContainsFunc(changes, asks):
			f.again = append(f.again, l.Name)
		default:
			f.keep = append(f.keep, l.Name)
		}
	}
	for name := range stopped {
		if !configured[name] {
			f.end = append(f.end, name)
		}
	}
	slices.Sort(f.end)
	return f
}

// take brings the links in line with a changed configuration. What ends has ended before anything else begins, so that a
// topic may move from one link to another.
func (s *links) take(ctx, hard context.Context, how runMode, c *renewal) {
	defer close(c.done)
	there := make(map[string]*running)
	stopped := make(map[string]bool)
	for _, r := range s.now() {
		there[r.cfg.Name], stopped[r.cfg.Name] = r, r.over()
	}
	how.takeOver = false // was asked for at the start
	f := fates(stopped, c.cfg.Links, c.what)
	s.endThese(there, f, byName(c.cfg.Links))
	s.retune(ctx, there, f.keep, c)
	list := make([]*running, len(c.cfg.Links))
	for i, cfg := range c.cfg.Links {
		if slices.Contains(f.keep, cfg.Name) {
			list[i] = there[cfg.Name]
			continue
		}
		list[i] = s.remake(cfg, c.cfg, how)
	}
	s.set(list)
	for _, r := range list {
		if r.stop == nil && r.link != nil {
			s.n.log.Info("link starts", "link", r.cfg.Name)
			s.begin(ctx, hard, false, r)
		}
	}
}

// endThese ends links that go or start again, and shows them no more.
func (s *links) endThese(there map[string]*running, f fate, next map[string]config.Link) {
	var rs []*running
	for _, name := range f.again {
		if r := there[name]; r.link != nil && r.cfg.Target == next[name].Target {
			r.link.manager.KeepClaim() // whoever stands by is not to take a link that is only started again
		}
	}
	for _, name := range slices.Concat(f.end, f.again) {
		rs = append(rs, there[name])
	}
	end(rs)
	s.set(slices.DeleteFunc(s.now(), func(r *running) bool { return slices.Contains(rs, r) }))
	for _, r := range rs {
		s.free(r)
		if !r.noted && r.err != nil {
			s.n.log.Warn("link did not end cleanly", "link", r.cfg.Name, "error", r.err)
		}
	}
	for _, name := range f.end {
		s.n.metrics.Forget(name)
		s.n.log.Info("link ended: it is not configured any more; its state topic stays", "link", name)
	}
}

// narrowTime bounds how long a change waits for lanes to end.
const narrowTime = 30 * time.Second

// retune lets links that go on have their new settings. First every link gives up the topics that it does not select any
// more, then each takes what it selects now.
func (s *links) retune(ctx context.Context, there map[string]*running, names []string, c *renewal) {
	if !slices.ContainsFunc(c.what, func(c config.Change) bool { return c.Link != "" }) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, narrowTime)
	defer cancel()
	next := byName(c.cfg.Links)
	var wg sync.WaitGroup
	for _, name := range names {
		l := there[name].link
		wg.Go(func() {
			if err := l.syncer.Narrow(ctx, next[name]); err != nil {
				l.log.Warn("topics that are left out end later", "error", err)
			}
		})
	}
	wg.Wait()
	for _, name := range names {
		if err := there[name].link.retune(next[name], c.cfg.Links); err != nil {
			s.n.log.Error("link keeps its settings", "link", name, "error", err)
		}
	}
}

// remake makes a link of a changed configuration. One that cannot be made is shown as stopped.
func (s *links) remake(cfg config.Link, all *config.Config, how runMode) *running {
	r := &running{cfg: cfg, done: make(chan struct{})}
	l, err := s.n.newLink(cfg, all, how)
	if err != nil {
		s.n.log.Error("link stopped", "link", cfg.Name, "error", err)
		r.noted = true
		r.close(err)
		return r
	}
	r.link = l
	return r
}

func byName(links []config.Link) map[string]config.Link {
	out := make(map[string]config.Link, len(links))
	for _, l := range links {
		out[l.Name] = l
	}
	return out
}
