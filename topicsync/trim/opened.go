package trim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

const (
	keyRetention = "retention.ms"
	keyPolicy    = "cleanup.policy"
	open         = "-1"
)

// chunk is how many topics one request asks about.
const chunk = 500

// opened returns the target topics whose retention is open and that delete at all. Somebody who set another retention on
// the target by hand wants the mirror to keep that.
func opened(ctx context.Context, c *kafka.Cluster, parts map[kafka.Part]int64) (map[string]bool, error) {
	out := make(map[string]bool)
	for p := range parts {
		out[p.Topic] = false
	}
	names := make([]string, 0, len(out))
	for name := range out {
		names = append(names, name)
	}
	for group := range slices.Chunk(names, chunk) {
		req := kmsg.NewPtrDescribeConfigsRequest()
		for _, name := range group {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, name, []string{keyRetention, keyPolicy}
			req.Resources = append(req.Resources, r)
		}
		resp, err := req.RequestWith(ctx, c.Admin())
		if err != nil {
			return nil, fmt.Errorf("read retention on cluster %s: %w", c.Name(), err)
		}
		for _, r := range resp.Resources {
			if err := drift.BrokerError(r.ErrorCode, r.ErrorMessage); err == nil {
				out[r.ResourceName] = isOpen(r.Configs)
			}
		}
	}
	return out, nil
}

func isOpen(cs []kmsg.DescribeConfigsResponseResourceConfig) bool {
	values := make(map[string]string)
	for _, c := range cs {
		if c.Value != nil {
			values[c.Name] = *c.Value
		}
	}
	return values[keyRetention] == open && slices.Contains(strings.Split(strings.ReplaceAll(values[keyPolicy], " ", ""), ","), "delete")
}
