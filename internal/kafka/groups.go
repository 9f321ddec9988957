package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// GroupListing is what a broker tells of a group that it coordinates.
type GroupListing struct {
	Name     string
	Type     string // "classic", "consumer", "share", "streams"; "" where the broker is older than Kafka 3.8
	Protocol string // the protocol type: "consumer", "connect", …
	State    string // "Empty", "Stable", …; "" where it is not known
}

// stateless is the last version of ListGroups without states, which brokers older than Kafka 2.6 speak.
const stateless = 3

// ListGroups asks one broker for the groups that it coordinates, of all types. It sees those that the user may describe.
// The states of a broker that does not list them are asked for group by group; only those of wanted groups.
func (c *Cluster) ListGroups(ctx context.Context, broker int32, want func(string) bool) ([]GroupListing, error) {
	resp, err := twice(ctx, func() (*kmsg.ListGroupsResponse, error) {
		return kmsg.NewPtrListGroupsRequest().RequestWith(ctx, c.admin.Broker(int(broker)))
	})
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("list groups of broker %d of cluster %s: %w", broker, c.Name(), err)
	}
	out := make([]GroupListing, 0, len(resp.Groups))
	for _, g := range resp.Groups {
		if want == nil || want(g.Group) {
			out = append(out, GroupListing{g.Group, strings.ToLower(g.GroupType), g.ProtocolType, g.GroupState})
		}
	}
	if resp.Version <= stateless {
		err = c.describeStates(ctx, broker, out)
	}
	return out, err
}

// describeStates fills in the states of groups. A state that the broker does not tell stays unknown.
func (c *Cluster) describeStates(ctx context.Context, broker int32, groups []GroupListing) error {
	if len(groups) == 0 {
		return nil
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	at := make(map[string]*GroupListing, len(groups))
	for i := range groups {
		req.Groups = append(req.Groups, groups[i].Name)
		at[groups[i].Name] = &groups[i]
	}
	resp, err := twice(ctx, func() (*kmsg.DescribeGroupsResponse, error) {
		return req.RequestWith(ctx, c.admin.Broker(int(broker)))
	})
	if err != nil {
		return fmt.Errorf("describe groups of broker %d of cluster %s: %w", broker, c.Name(), err)
	}
	for _, g := range resp.Groups {
		if l := at[g.Group]; l != nil && g.ErrorCode == 0 {
			l.State = g.State
		}
	}
	return nil
}

// GroupNames asks every broker for its groups, of all types. It sees those that the user may describe. The error says that
// some brokers did not answer, so that groups are missing.
func (c *Cluster) GroupNames(ctx context.Context) ([]string, error) {
	meta, err := c.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards the two below
	var names []string
	var errs []error
	c.EachBroker(ctx, slices.Sorted(maps.Keys(meta.Brokers)), BrokerPatience, func(ctx context.Context, broker int32, heard func()) {
		groups, err := c.ListGroups(ctx, broker, func(string) bool { return false })
		heard()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err)
		}
		for _, g := range groups {
			names = append(names, g.Name)
		}
	})
	slices.Sort(names)
	return slices.Compact(names), errors.Join(errs...)
}
