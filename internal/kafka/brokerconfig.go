package kafka

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// BrokerConfig asks one broker of the cluster for the value of a setting that all brokers share; false when it does not
// have it. It needs DESCRIBE_CONFIGS on the cluster.
func (c *Cluster) BrokerConfig(ctx context.Context, name string) (string, bool, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	meta, err := c.Metadata(ctx)
	if err != nil {
		return "", false, err
	}
	for id := range meta.Brokers {
		return c.BrokerConfigOf(ctx, id, name)
	}
	return "", false, fmt.Errorf("ask cluster %s for %s: it names no broker", c.Name(), name)
}

// BrokerConfigOf asks one broker for the value of one of its settings; false when it does not have it. It needs
// DESCRIBE_CONFIGS on the cluster. The context needs a deadline.
func (c *Cluster) BrokerConfigOf(ctx context.Context, broker int32, name string) (string, bool, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(broker)), []string{name}
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return "", false, fmt.Errorf("ask cluster %s for %s: %w", c.Name(), name, err)
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return "", false, fmt.Errorf("ask cluster %s for %s: %w", c.Name(), name, err)
		}
		for _, cfg := range r.Configs {
			if cfg.Name == name && cfg.Value != nil {
				return *cfg.Value, true, nil
			}
		}
	}
	return "", false, nil
}
