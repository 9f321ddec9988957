package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions from which requests name topics by id.
const (
	ProduceByID int16 = 13
	FetchByID   int16 = 13
)

// Pinned is a request that is sent in version Max or lower. Setting a request's Version does nothing: the client
// library overwrites it with the highest version that broker and MaxVersion allow.
//
// Wrapped like this a produce request keeps its own acks, which the library rewrites on the bare type.
type Pinned struct {
	kmsg.Request
	Max int16
}

// MaxVersion implements kmsg.Request.
func (p Pinned) MaxVersion() int16 { return min(p.Max, p.Request.MaxVersion()) }

// Timeout implements kmsg.TimeoutRequest: the library waits that much longer for the answer, in milliseconds.
func (p Pinned) Timeout() int32 { return waitMillis(p.Request) }

// waitMillis returns how long a broker may hold a request back before it answers.
func waitMillis(r kmsg.Request) int32 {
	switch r := r.(type) {
	case *kmsg.FetchRequest:
		return r.MaxWaitMillis
	case kmsg.TimeoutRequest:
		return r.Timeout()
	}
	return 0
}

// ProduceMaxVersion returns the highest produce version that every broker offers: from ProduceByID on, batches go by
// topic id. Requests may carry
// names and ids both, so this is only for knowing what the cluster protects. The answer is remembered once all brokers
// have given it; ForgetVersions drops it.
func (c *Cluster) ProduceMaxVersion(ctx context.Context) (int16, error) {
	return c.maxVersion(ctx, kmsg.Produce.Int16())
}

// FetchMaxVersion returns the highest fetch version that every broker offers.
func (c *Cluster) FetchMaxVersion(ctx context.Context) (int16, error) {
	return c.maxVersion(ctx, kmsg.Fetch.Int16())
}

// ForgetVersions makes the next ProduceMaxVersion and FetchMaxVersion ask the brokers again.
func (c *Cluster) ForgetVersions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.max)
}

func (c *Cluster) maxVersion(ctx context.Context, key int16) (int16, error) {
	c.mu.Lock()
	v, ok := c.max[key]
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, all, err := c.askVersion(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("ask cluster %s for its versions: %w", c.cfg.Name, err)
	}
	if all {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.max[key] = v
	}
	return v, nil
}

// askVersion asks every broker, because a cluster in the middle of an upgrade speaks two versions. A broker that does
// not answer is left out; all says whether none was.
func (c *Cluster) askVersion(ctx context.Context, key int16) (lowest int16, all bool, err error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	meta, err := c.metadata(ctx, c.admin, []string{})
	if err != nil {
		return 0, false, err
	}
	lowest, all = -1, true
	for broker := range meta.Brokers {
		v, berr := c.brokerVersion(ctx, broker, key)
		if berr != nil {
			all, err = false, fmt.Errorf("broker %d: %w", broker, berr)
			continue
		}
		if lowest < 0 || v < lowest {
			lowest = v
		}
	}
	if lowest < 0 {
		return 0, false, err
	}
	return lowest, all, nil
}

func (c *Cluster) brokerVersion(ctx context.Context, broker int32, key int16) (int16, error) {
	offers, err := c.brokerOffers(ctx, broker)
	if err != nil {
		return 0, err
	}
	if o, ok := offers[key]; ok {
		return o.max, nil
	}
	return 0, fmt.Errorf("%s: %w", kmsg.NameForKey(key), kerr.UnsupportedVersion)
}

// offer is which versions of a request a broker takes.
type offer struct{ min, max int16 }

// brokerOffers asks one broker which requests it takes, by their keys.
func (c *Cluster) brokerOffers(ctx context.Context, broker int32) (map[int16]offer, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "lockstep", "1"
	resp, err := req.RequestWith(ctx, c.admin.Broker(int(broker)))
	if err != nil {
		return nil, err
	}
	out := make(map[int16]offer, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		out[k.ApiKey] = offer{k.MinVersion, k.MaxVersion}
	}
	return out, nil
}
