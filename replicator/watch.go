package replicator

import (
	"context"
	"time"
)

// watchEvery is how often lanes are looked at that wait for something. It is a loop of its own: whatever they wait for may
// hold the other loops up.
const watchEvery = time.Second

// watch shows what has lasted too long, and gives up on brokers that hang.
func (m *Manager) watch(context.Context) {
	now := m.now()
	for _, l := range m.all() {
		l.overdue(now)
	}
	m.leaveHung()
	m.tellRest(now.Add(-crowdFor))
}

// hungAfter is how long a lane waits for the answer of a broker that does not lead it any more.
const hungAfter = 3 * time.Second

// leaveHung gives up on brokers that owe answers to lanes whose leadership has moved: a frozen broker keeps its
// connections open. What was sent to them is looked for in the new leaders' logs.
func (m *Manager) leaveHung() {
	for _, l := range m.all() {
		s := l.waitsFor(m.now())
		if s == nil {
			continue
		}
		if leader, ok := m.dstLeaders.Lookup(l.dstPart()); ok && leader.Broker != s.broker {
			m.log.Warn("a broker does not answer, and does not lead any more", "broker", s.broker, "lane", l.id.String())
			m.leave(s)
		}
	}
}

// leave ends a sender; the next batch for its broker starts another one.
func (m *Manager) leave(s *sender) {
	m.sendMu.Lock()
	defer m.sendMu.Unlock()
	if m.senders[s.broker] == s {
		delete(m.senders, s.broker)
	}
	s.cancel()
}

// leaveAll ends all senders.
func (m *Manager) leaveAll() {
	m.sendMu.Lock()
	defer m.sendMu.Unlock()
	for _, s := range m.senders {
		s.cancel()
	}
	clear(m.senders)
}

// waitsFor returns the sender that has owed the lane an answer for too long, nil when there is none.
func (l *lane) waitsFor(now time.Time) *sender {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.inflight) == 0 || now.Sub(l.sentAt) < hungAfter {
		return nil
	}
	return l.via
}
