package replicator

import (
	"context"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// runRouter moves lanes to the fetchers and senders of their partitions' leaders, and keeps them there.
func (m *Manager) runRouter(ctx context.Context) {
	for {
		src, dst := m.srcLeaders.Changed(), m.dstLeaders.Changed()
		m.reroute()
		select {
		case <-src:
		case <-dst:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) reroute() {
	lanes := m.all()
	for _, l := range lanes {
		m.place(l)
	}
	m.watchLeaders(lanes)
	// Leaders are looked up under sendMu by whoever adds to these maps, so nobody is added for a leader that was
	// learnt before this.
	m.sendMu.Lock()
	waiting, unled := m.unrouted, m.unled
	m.unrouted, m.unled = make(map[*lane]struct{}), make(map[parked]struct{})
	m.sendMu.Unlock()
	for l := range waiting {
		m.wakeSender(l)
	}
	back := make(map[*queue][]*lane)
	for p := range unled {
		back[p.queue] = append(back[p.queue], p.lane)
	}
	for q, lanes := range back {
		q.push(lanes...)
	}
}

// place gives an open lane to a fetcher of its source leader.
func (m *Manager) place(l *lane) {
	if m.holdReplaced(l) {
		return
	}
	leader, ok := m.srcLeaders.Lookup(l.srcPart())
	if !ok {
		l.sourceTrouble(model.ReasonLeaderUnavailable, "the source partition has no known leader")
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, replica := l.fetcher()
	if replica >= 0 {
		leader.Broker = replica
	}
	if now != nil && now.broker == leader.Broker {
		now.signal()
		return
	}
	if now != nil {
		now.remove(l)
	}
	l.setFetcher(m.fetcherLocked(leader.Broker, l))
}

func (l *lane) fetcher() (f *fetcher, replica int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetch, l.replica
}

// readFrom moves a lane to the follower that the leader named for this rack, or with -1 back to the leader.
func (m *Manager) readFrom(l *lane, replica int32) {
	l.mu.Lock()
	was := l.replica
	l.replica = replica
	l.mu.Unlock()
	if was != replica {
		m.spawn(func(context.Context) { m.place(l) })
	}
}

func (l *lane) setFetcher(f *fetcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetch = f
}

// fetcherLocked adds the lane to a shard with room, or starts another one. It returns nil when that fails; the next
// change of leaders tries again.
func (m *Manager) fetcherLocked(broker int32, l *lane) *fetcher {
	for _, f := range m.fetchers[broker] {
		if f.add(l) {
			return f
		}
	}
	client, err := m.opt.Source.NewFetch()
	if err != nil {
		m.log.Error("start fetcher", "broker", broker, "error", err)
		return nil
	}
	f := &fetcher{m: m, broker: broker, client: client, lanes: make(map[*lane]struct{}), wake: make(chan struct{}, 1),
		session: kafka.NewSession()}
	f.add(l)
	m.fetchers[broker] = append(m.fetchers[broker], f)
	m.tasks.Go(func() { f.run(m.work) })
	return f
}

func (m *Manager) fetcherCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, fs := range m.fetchers {
		n += len(fs)
	}
	return n
}

// wakeSender tells the senders of the lanes' target leaders that these lanes may have something to send. It takes no
// lane's lock, so that callers may hold one.
func (m *Manager) wakeSender(lanes ...*lane) {
	m.sendMu.Lock()
	defer m.sendMu.Unlock()
	var at *sender // of the lanes from here on
	first := 0
	for i, l := range lanes {
		s := m.senderLocked(l)
		if s != at && at != nil {
			at.ready.push(lanes[first:i]...)
		}
		if s != at {
			at, first = s, i
		}
	}
	if at != nil {
		at.ready.push(lanes[first:]...)
	}
}

// senderLocked returns the sender of a lane's target leader; without a leader the lane waits for one.
func (m *Manager) senderLocked(l *lane) *sender {
	leader, ok := m.dstLeaders.Lookup(l.dstPart())
	if !ok {
		m.unrouted[l] = struct{}{}
		return nil
	}
	s, ok := m.senders[leader.Broker]
	if !ok {
		s = m.startSenderLocked(leader.Broker)
	}
	return s
}

func (m *Manager) startSenderLocked(broker int32) *sender {
	ctx, cancel := context.WithCancel(m.work)
	s := &sender{m: m, broker: broker, ready: newQueue(), pipe: kafka.NewPipeline(m.opt.Target.Produce(), broker, sendWindow), cancel: cancel}
	m.senders[broker] = s
	m.tasks.Go(func() { s.run(ctx) })
	return s
}
