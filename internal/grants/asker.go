package grants

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
)

// question is one operation on one resource.
type question struct {
	Resource
	name string
	Operation
}

// asker collects a cluster's answers.
type asker struct {
	c       *kafka.Cluster
	broker  int32 // takes the questions that no broker in particular has to answer
	answers map[question]verdict
}

func newAsker(ctx context.Context, c *kafka.Cluster) (*asker, error) {
	meta, err := c.Metadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at permissions on cluster %s: %w", c.Name(), err)
	}
	if len(meta.Brokers) == 0 {
		return nil, fmt.Errorf("look at permissions on cluster %s: it names no broker", c.Name())
	}
	return &asker{c: c, broker: slices.Min(slices.Collect(maps.Keys(meta.Brokers))), answers: map[question]verdict{}}, nil
}

// verdict returns the answer about a grant's operation on the resource of that name.
func (a *asker) verdict(g Grant, name string) verdict {
	return a.answers[question{g.Resource, name, g.Operation}]
}

func (a *asker) note(r Resource, name string, op Operation, v verdict) {
	a.answers[question{r, name, op}] = v
}

// unguarded reports whether the cluster checks no permissions. It asks for those of a topic that nobody has.
func (a *asker) unguarded(ctx context.Context) bool {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = kmsg.ACLResourceTypeTopic, kmsg.StringPtr(all.sample()), kmsg.ACLResourcePatternTypeLiteral
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp, err := req.RequestWith(ctx, a.c.Admin())
	return err == nil && errors.Is(kerr.ErrorForCode(resp.ErrorCode), kerr.SecurityDisabled)
}

// ask puts all questions that the grants raise. Its error is that the cluster stopped answering.
func (a *asker) ask(ctx context.Context, needed []Grant, existing []string) error {
	topics := named(needed, Topic)
	steps := []func() error{
		func() error { return a.askTopics(ctx, slices.Concat(topics, existing)) },
		func() error { return a.askCreate(ctx, namedFor(needed, Topic, Create)) },
		func() error { return a.askCluster(ctx) },
	}
	for _, group := range named(needed, Group) {
		steps = append(steps, func() error { return a.askGroup(ctx, group) })
	}
	for _, id := range named(needed, TransactionalID) {
		steps = append(steps, func() error { return a.askTransactionalID(ctx, id) })
	}
	for _, step := range steps {
		// What a broker does not understand or answer stays not known.
		if err := step(); err != nil && ctx.Err() != nil {
			return fmt.Errorf("look at permissions on cluster %s: %w", a.c.Name(), err)
		}
	}
	return nil
}

// named returns one name for each of the grants' resources of a kind.
func named(grants []Grant, r Resource) []string { return namedFor(grants, r, "") }

// namedFor does the same for grants of one operation; "" is any.
func namedFor(grants []Grant, r Resource, op Operation) (out []string) {
	seen := make(map[string]bool)
	for _, g := range grants {
		name := g.Name.sample()
		if g.Resource == r && (op == "" || g.Operation == op) && !seen[name] {
			seen[name], out = true, append(out, name)
		}
	}
	return out
}

// codes are the bits by which a broker lists operations.
var codes = map[Operation]kmsg.ACLOperation{
	Read: kmsg.ACLOperationRead, Write: kmsg.ACLOperationWrite, Create: kmsg.ACLOperationCreate, Delete: kmsg.ACLOperationDelete,
	Alter: kmsg.ACLOperationAlter, Describe: kmsg.ACLOperationDescribe, DescribeConfigs: kmsg.ACLOperationDescribeConfigs,
	AlterConfigs: kmsg.ACLOperationAlterConfigs, IdempotentWrite: kmsg.ACLOperationIdempotentWrite,
}

// listed notes what a broker's list of operations says about a resource. Kafka says nothing by the lowest number.
func (a *asker) listed(r Resource, name string, bits int32, ops ...Operation) bool {
	if bits == math.MinInt32 {
		return false
	}
	for _, op := range ops {
		v := isDenied
		if bits&(1<<codes[op]) != 0 {
			v = isAllowed
		}
		a.note(r, name, op, v)
	}
	return true
}
