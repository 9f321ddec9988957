package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrNotSent is in every error that Send returns: nothing was sent, and done is never called.
var ErrNotSent = errors.New("the request was not sent")

var errPipelineEnded = fmt.Errorf("%w: the pipeline to the broker has ended", ErrNotSent)

// Pipeline sends requests to one broker on one connection: several of them unanswered, written in the order of Send,
// their answers handed out in that order by one goroutine. Requests are never repeated, except one of which not a
// byte was written.
//
// The client library keeps no order between goroutines, so a request is given to it only when the one before has been
// serialised, which its AppendTo tells: the library's queue to a broker is first in, first out from there on.
//
// The order ends where a connection is cut: a broker may work on the last bytes of the old connection after the first
// ones of the new. Only the batches' sequences and epochs guard against that.
type Pipeline struct {
	cl     *kgo.Client
	broker int32

	slots chan struct{} // one for each request without its done
	turn  chan struct{} // held by the Send that waits for its request to be serialised
	calls chan *call    // in order of issue; never blocks, there are as many places as slots

	ctx    context.Context // of all requests: it ends with Run's and with it alone
	cancel context.CancelFunc

	mu     sync.Mutex // guards closed, and orders the last entry into calls before Run's last look
	closed bool
}

// call is one request under way.
type call struct {
	ended chan struct{} // closed once resp and err are set
	resp  kmsg.Response
	err   error
	done  func(kmsg.Response, error)
}

// NewPipeline returns a pipeline of at most window unanswered requests to a broker. Nothing else may be sent with cl to
// the same kind of connection. Run must be called for answers to be handed out.
func NewPipeline(cl *kgo.Client, broker int32, window int) *Pipeline {
	ctx, cancel := context.WithCancel(context.Background())
	window = max(window, 1)
	return &Pipeline{
		cl: cl, broker: broker,
		slots: make(chan struct{}, window), turn: make(chan struct{}, 1), calls: make(chan *call, window),
		ctx: ctx, cancel: cancel,
	}
}

// Send issues a request after all earlier ones and returns when it has been serialised, or has failed before that.
// It waits while window requests are unanswered. A nil error promises exactly one call of done, from Run, after the
// dones of all earlier requests; an error, which is an ErrNotSent, promises that the request was not sent and that done
// is never called.
//
// ctx only ends the waiting for a free place: a request under way is never taken back, because that closes the
// connection with all that is outstanding on it. done must not call Send.
func (p *Pipeline) Send(ctx context.Context, req kmsg.Request, done func(kmsg.Response, error)) error {
	if err := p.acquire(ctx, p.turn); err != nil {
		return err
	}
	defer func() { <-p.turn }()
	if err := p.acquire(ctx, p.slots); err != nil {
		return err
	}
	w := &ordered{Request: req, serialised: make(chan struct{})}
	c := &call{ended: make(chan struct{}), done: done}
	if !p.enqueue(c) {
		<-p.slots
		return errPipelineEnded
	}
	go p.do(c, w)
	select {
	case <-w.serialised:
	case <-c.ended:
	}
	return nil
}

// acquire takes a place unless the wait, or the pipeline, ends first.
func (p *Pipeline) acquire(ctx context.Context, place chan<- struct{}) error {
	if ctx.Err() == nil {
		select {
		case place <- struct{}{}:
			return nil
		case <-ctx.Done():
		case <-p.ctx.Done():
			return errPipelineEnded
		}
	}
	return fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
}

func (p *Pipeline) enqueue(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.calls <- c
	return true
}

func (p *Pipeline) do(c *call, req kmsg.Request) {
	c.resp, c.err = p.cl.Broker(int(p.broker)).Request(p.ctx, req)
	close(c.ended)
}

// Outstanding returns the number of requests whose done has not returned yet.
func (p *Pipeline) Outstanding() int { return len(p.slots) }

// Run hands out answers until ctx ends. Then every outstanding request is given up, its done called with whatever
// became of it, and Run returns; the connection is closed by that if anything was outstanding. Run is called once.
func (p *Pipeline) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	defer p.cancel()
	for {
		select {
		case c := <-p.calls:
			p.finish(c)
		case <-ctx.Done():
			p.drain()
			return
		}
	}
}

func (p *Pipeline) finish(c *call) {
	<-c.ended
	c.done(c.resp, c.err)
	<-p.slots
}

func (p *Pipeline) drain() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for {
		select {
		case c := <-p.calls:
			p.finish(c)
		default:
			return
		}
	}
}

// ordered tells when a request is serialised. The library calls AppendTo right before it writes, and again when
// nothing could be written and it tries a new connection; nothing is written in between.
//
// It is a plain request to the library, which would otherwise replace a produce request's acks. Its key chooses the
// connection and its Timeout the patience, so both are the request's own.
type ordered struct {
	kmsg.Request
	once       sync.Once
	serialised chan struct{}
}

// AppendTo implements kmsg.Request.
func (o *ordered) AppendTo(dst []byte) []byte {
	dst = o.Request.AppendTo(dst)
	o.once.Do(func() { close(o.serialised) })
	return dst
}

// Timeout implements kmsg.TimeoutRequest.
func (o *ordered) Timeout() int32 { return waitMillis(o.Request) }
