package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

// observe returns all quotas of a cluster. Entities of types that this lockstep does not know are left out.
func observe(ctx context.Context, c *kafka.Cluster) (map[limit]float64, error) {
	resp, err := kmsg.NewPtrDescribeClientQuotasRequest().RequestWith(ctx, c.Admin())
	if err == nil {
		err = drift.BrokerError(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, fmt.Errorf("read the quotas of cluster %s: %w", c.Name(), err)
	}
	out := make(map[limit]float64)
	for _, q := range resp.Entries {
		var e entity
		known := len(q.Entity) > 0
		for _, part := range q.Entity {
			known = e.add(part.Type, part.Name) && known
		}
		if !known {
			continue
		}
		for _, v := range q.Values {
			out[limit{e, v.Key}] = v.Value
		}
	}
	return out, nil
}

// add gives an entity a component; a nil name is the default. It reports false for a type that is not known.
func (e *entity) add(kind string, name *string) bool {
	i := slices.Index(types, kind)
	if i < 0 {
		return false
	}
	e[i] = limb{has: true, isOther: name == nil}
	if name != nil {
		e[i].name = *name
	}
	return true
}

// chunk is how many entities one request changes.
const chunk = 500

// errOmitted says that an answer does not tell what became of a change.
var errOmitted = errors.New("the broker did not answer for it")

// alter carries out changes of the target, and returns what became of each. Changes of one entity stand or fall together
// in Kafka: those of a refused one are tried one by one.
func alter(ctx context.Context, c *kafka.Cluster, ws []write) []error {
	errs := make([]error, len(ws))
	var alone []int
	for group := range slices.Chunk(byEntity(ws), chunk) {
		for n, err := range alterGroup(ctx, c, ws, group) {
			for _, i := range group[n] {
				errs[i] = err
				if refused(err) && len(group[n]) > 1 {
					alone = append(alone, i)
				}
			}
		}
	}
	for _, i := range alone {
		errs[i] = alterGroup(ctx, c, ws, [][]int{{i}})[0]
	}
	return errs
}

// refused reports whether a broker did not like a change itself.
func refused(err error) bool {
	return errors.Is(err, kerr.InvalidRequest) || errors.Is(err, kerr.InvalidConfig) || errors.Is(err, kerr.PolicyViolation)
}

// byEntity groups writes, by their indices.
func byEntity(ws []write) (groups [][]int) {
	at := make(map[entity]int)
	for i, w := range ws {
		n, ok := at[w.entity]
		if !ok {
			n = len(groups)
			at[w.entity], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], i)
	}
	return groups
}

// alterGroup sends one request, and returns one error for each entity.
func alterGroup(ctx context.Context, c *kafka.Cluster, ws []write, groups [][]int) []error {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	at, errs := make(map[entity]int), make([]error, len(groups))
	for n, group := range groups {
		at[ws[group[0]].entity], errs[n] = n, errOmitted
		req.Entries = append(req.Entries, entryOf(ws, group))
	}
	resp, err := req.RequestWith(ctx, c.Admin())
	if err != nil {
		return slices.Repeat([]error{err}, len(groups))
	}
	for _, r := range resp.Entries {
		var e entity
		for _, part := range r.Entity {
			e.add(part.Type, part.Name)
		}
		if n, ok := at[e]; ok {
			errs[n] = drift.BrokerError(r.ErrorCode, r.ErrorMessage)
		}
	}
	return errs
}

func entryOf(ws []write, group []int) kmsg.AlterClientQuotasRequestEntry {
	out := kmsg.NewAlterClientQuotasRequestEntry()
	for i, l := range ws[group[0]].entity {
		if !l.has {
			continue
		}
		part := kmsg.NewAlterClientQuotasRequestEntryEntity()
		part.Type = types[i]
		if !l.isOther {
			part.Name = &l.name
		}
		out.Entity = append(out.Entity, part)
	}
	for _, i := range group {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Remove = ws[i].key, ws[i].value == nil
		if !op.Remove {
			op.Value = *ws[i].value
		}
		out.Ops = append(out.Ops, op)
	}
	return out
}
