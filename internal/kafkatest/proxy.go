package kafkatest

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards TCP connections on loopback to one broker and can hurt them. Its methods are safe for concurrent
// use; Close ends it and waits for its goroutines.
type Proxy struct {
	listener net.Listener
	upstream string
	wg       sync.WaitGroup
	quit     chan struct{}

	// mu guards the fields below.
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	refuse bool
	closed bool

	delay   atomic.Int64 // nanoseconds per chunk and direction
	rate    atomic.Int64 // bytes per second, connection and direction; 0: as fast as it goes
	swallow atomic.Bool
	mute    atomic.Bool  // answers are swallowed
	muted   atomic.Int64 // bytes of answers that were
	budget  atomic.Int64 // answer bytes until the next cut; negative: no cut planned
	hit     atomic.Int64 // cuts made by CutAfter
}

// NewProxy starts a proxy before the broker at upstream ("host:port"), closed by t.Cleanup.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p, err := newProxy(upstream)
	if err != nil {
		t.Fatalf("start proxy: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

func newProxy(upstream string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, upstream: upstream, quit: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.budget.Store(-1)
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections now; new ones are taken.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// CutOne closes one connection, chosen at random; it does nothing when there is none.
func (p *Proxy) CutOne() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns { // in random order
		c.Close()
		return
	}
}

// CutAfter lets n more bytes of answers through, over all connections, then closes them all in the middle of the
// answer. Requests still reach the broker until then.
func (p *Proxy) CutAfter(n int64) { p.budget.Store(n) }

// Cuts returns how many times CutAfter struck.
func (p *Proxy) Cuts() int64 { return p.hit.Load() }

// Delay holds each chunk of bytes back for d in either direction; 0 ends it.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Rate lets so many bytes per second through each connection in either direction; 0 ends it.
func (p *Proxy) Rate(bytesPerSecond int64) { p.rate.Store(bytesPerSecond) }

// Mute swallows all answers while requests still reach the broker; connections are cut when it ends.
func (p *Proxy) Mute(on bool) {
	if on {
		p.muted.Store(0)
	}
	if was := p.mute.Swap(on); was && !on {
		p.Cut()
	}
}

// Muted returns how many bytes of answers the newest Mute has swallowed.
func (p *Proxy) Muted() int64 { return p.muted.Load() }

// Drop makes the proxy swallow all bytes while connections stay open, as a dead network does. Bytes swallowed are
// lost, so connections are cut when it ends.
func (p *Proxy) Drop(on bool) {
	if was := p.swallow.Swap(on); was && !on {
		p.Cut()
	}
}

// Refuse closes new connections at once, and the present ones now; false takes new ones again.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
	if on {
		p.Cut()
	}
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.mu.Unlock()
	close(p.quit)
	p.listener.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.wg.Go(func() { p.serve(c) })
		}
	}
}

// serve joins one client connection with one to the broker until either side ends.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	if !p.track(client) {
		return
	}
	defer p.untrack(client)
	broker, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return
	}
	defer broker.Close()
	if !p.track(broker) {
		return
	}
	defer p.untrack(broker)
	requests := make(chan struct{})
	go func() {
		defer close(requests)
		p.copy(broker, client, false)
		broker.Close() // ends the other direction
	}()
	p.copy(client, broker, true)
	client.Close()
	<-requests
}

// track remembers a connection for Cut; false when the proxy takes none.
func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuse {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) untrack(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// copy moves bytes from src to dst, which are answers or requests.
func (p *Proxy) copy(dst, src net.Conn, answers bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if err != nil || !p.wait(n) {
			return
		}
		if answers && p.mute.Load() {
			p.muted.Add(int64(n))
			continue
		}
		if p.swallow.Load() {
			continue
		}
		allowed, cut := int64(n), false
		if answers {
			allowed, cut = spend(&p.budget, allowed)
		}
		if _, err := dst.Write(buf[:allowed]); err != nil {
			return
		}
		if cut {
			p.hit.Add(1)
			p.Cut()
			return
		}
	}
}

// wait holds a chunk of n bytes back; false when the proxy was closed meanwhile.
func (p *Proxy) wait(n int) bool {
	d := time.Duration(p.delay.Load())
	if rate := p.rate.Load(); rate > 0 {
		d += time.Duration(n) * time.Second / time.Duration(rate)
	}
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.quit:
		return false
	}
}

// spend takes n bytes from the budget and returns how many may pass and whether the cut is due.
func spend(budget *atomic.Int64, n int64) (allowed int64, cut bool) {
	for {
		left := budget.Load()
		if left < 0 {
			return n, false
		}
		if n < left {
			if budget.CompareAndSwap(left, left-n) {
				return n, false
			}
		} else if budget.CompareAndSwap(left, -1) {
			return left, true
		}
	}
}
