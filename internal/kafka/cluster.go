package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/config"
	"lockstep/internal/model"
)

// Options are what a Cluster needs besides its settings. The zero value is usable.
type Options struct {
	Logger *slog.Logger // nothing is logged when nil
	// ClientID is appended to the cluster's client id, after a dash: what the broker's quotas and logs show.
	ClientID string
	// Dialer opens the TCP connection below TLS. Tests cut connections with it; nil dials.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Hooks are given to every client: metrics.
	Hooks []kgo.Hook
	// Timeout bounds each call that asks something, all its repetitions included; 15 s when 0.
	Timeout time.Duration
}

// Part names one partition. Topics have names up to produce version 12 and fetch version 12, ids after; ID is zero
// where it is not known.
type Part struct {
	Topic     string
	ID        model.TopicID
	Partition int32
}

// String returns "topic/partition".
func (p Part) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Leader is the broker that leads a partition, and since which leader epoch; Epoch is -1 where it is not known.
type Leader struct {
	Broker int32
	Epoch  int32
}

// Cluster holds the clients of one Kafka cluster, one for each role: a write that blocks on one connection holds up
// every other connection of the same client to that broker.
type Cluster struct {
	cfg  config.Cluster
	opts Options
	log  *slog.Logger
	auth *auth

	admin, read, produce *kgo.Client
	throttles            *throttles

	commits ways

	mu      sync.Mutex             // guards the fields below
	leaders map[partKey]leaderInfo // for ReadAt only; a wrong entry costs one repetition
	max     map[int16]int16        // request key → lowest maximal version of all brokers
}

// partKey finds a partition whether or not its topic's id is known.
type partKey struct {
	topic     string
	partition int32
}

func (p Part) key() partKey { return partKey{p.Topic, p.Partition} }

const (
	connIdle       = 9 * time.Minute // below the brokers' connections.max.idle.ms of 10 min
	maxAnswerBytes = 1 << 30         // a first batch may exceed every limit that the request names
	defaultTimeout = 15 * time.Second
	minMetadataAge = 100 * time.Millisecond // of the admin client, and between two refreshes of Leaders
)

// Dial builds the clients of a cluster. It opens no connection: it fails only for settings that cannot work, such as
// a certificate file that cannot be read. The caller closes the Cluster.
func Dial(cfg config.Cluster, opts Options) (*Cluster, error) {
	if len(cfg.Brokers) == 0 {
		return nil, fmt.Errorf("dial cluster %s: no brokers are configured", cfg.Name)
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Timeout = cmp.Or(opts.Timeout, defaultTimeout)
	a, err := newAuth(cfg, opts.Dialer)
	if err != nil {
		return nil, fmt.Errorf("dial cluster %s: %w", cfg.Name, err)
	}
	c := &Cluster{
		cfg: cfg, opts: opts, log: opts.Logger.With("cluster", cfg.Name), auth: a,
		leaders: map[partKey]leaderInfo{}, max: map[int16]int16{}, throttles: &throttles{},
	}
	if err := c.dialRoles(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) dialRoles() (err error) {
	if c.admin, err = c.NewClient("admin"); err != nil {
		return err
	}
	c.commits.all = []*way{{cl: c.admin}}
	if c.read, err = c.NewClient("read"); err != nil {
		return err
	}
	c.produce, err = c.NewClient("produce")
	return err
}

// Name returns the cluster's name in the configuration.
func (c *Cluster) Name() string { return c.cfg.Name }

// Rack returns the rack that fetch requests name, "" for none.
func (c *Cluster) Rack() string { return c.cfg.Rack }

// Admin returns the client for metadata, offsets, groups, configs and ACLs.
func (c *Cluster) Admin() *kgo.Client { return c.admin }

// Read returns the client for single reads; long polls do not belong on it.
func (c *Cluster) Read() *kgo.Client { return c.read }

// Produce returns the client for produce pipelines. Nothing else may be sent with it.
func (c *Cluster) Produce() *kgo.Client { return c.produce }

// NewFetch returns a client for one fetch shard: a client has one fetch connection per broker, and a broker serves
// one request of a connection at a time. The caller closes it.
func (c *Cluster) NewFetch() (*kgo.Client, error) { return c.NewClient("fetch") }

// NewClient returns a further client with the cluster's brokers and authentication. Role "admin" gets a metadata
// cache of 100 ms and reports client metrics to the brokers; no other role does. The caller closes it.
func (c *Cluster) NewClient(role string, extra ...kgo.Opt) (*kgo.Client, error) {
	dials := &failedDials{}
	opts := append(c.baseOpts(role, dials), extra...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make %s client of cluster %s: %w", role, c.cfg.Name, err)
	}
	dials.client.Store(cl)
	return cl, nil
}

func (c *Cluster) baseOpts(role string, dials *failedDials) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.cfg.Brokers...),
		kgo.ClientID(c.clientID()),
		kgo.WithLogger(newLogAdapter(c.log.With("role", role))),
		kgo.Dialer(c.auth.dial),
		kgo.BrokerMaxReadBytes(maxAnswerBytes),
		kgo.ConnIdleTimeout(connIdle),
		// Below the deadline of a call, so that its error is what really failed and not the deadline.
		kgo.RetryTimeout(c.opts.Timeout * 3 / 4),
		kgo.WithHooks(append([]kgo.Hook{dials, c.throttles}, c.opts.Hooks...)...),
	}
	if m := c.auth.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	if role == "admin" {
		return append(opts, kgo.MetadataMinAge(minMetadataAge))
	}
	return append(opts, kgo.MetadataMinAge(time.Second), kgo.DisableClientMetrics())
}

func (c *Cluster) clientID() string {
	id := cmp.Or(c.cfg.ClientID, "lockstep")
	if c.opts.ClientID != "" {
		id += "-" + c.opts.ClientID
	}
	return id
}

// Close closes the cluster's own clients; what NewFetch and NewClient returned stays open.
func (c *Cluster) Close() {
	c.commits.close()
	for _, cl := range []*kgo.Client{c.admin, c.read, c.produce} {
		if cl != nil {
			cl.Close()
		}
	}
}

// deadline bounds a call that asks something. It keeps the earlier of the two ends.
func (c *Cluster) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.opts.Timeout, errNoAnswer)
}

// errNoAnswer is the cause when a call's own deadline passes: no broker answered in time.
var errNoAnswer = errors.New("no answer from the cluster in time")

// failedDials makes a client learn the brokers' addresses anew when one cannot be dialled. Requests sent to a broker
// by number never do so by themselves: a broker that came back under another address would stay lost for minutes.
type failedDials struct {
	client atomic.Pointer[kgo.Client]
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (f *failedDials) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if cl := f.client.Load(); cl != nil {
		cl.ForceMetadataRefresh()
	}
}
