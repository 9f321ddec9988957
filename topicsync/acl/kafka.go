package acl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

const (
	requestTimeout = 15 * time.Second
	// perRequest bounds the permissions in one request.
	perRequest = 500
)

// observe returns all permissions of a cluster.
func observe(ctx context.Context, c *kafka.Cluster) ([]Binding, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp, err := req.RequestWith(ctx, c.Admin())
	if err != nil {
		return nil, err
	}
	if err := drift.BrokerError(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	var out []Binding
	for _, r := range resp.Resources {
		for _, a := range r.ACLs {
			out = append(out, Binding{Type: r.ResourceType, Name: r.ResourceName, Pattern: r.ResourcePatternType, Principal: a.Principal, Host: a.Host,
				Operation: a.Operation, Deny: a.PermissionType == kmsg.ACLPermissionTypeDeny})
		}
	}
	slices.SortFunc(out, Binding.compare)
	return out, nil
}

func permission(b Binding) kmsg.ACLPermissionType {
	if b.Deny {
		return kmsg.ACLPermissionTypeDeny
	}
	return kmsg.ACLPermissionTypeAllow
}

// create creates permissions, and returns what became of each.
func create(ctx context.Context, c *kafka.Cluster, bs []Binding) []error {
	return inChunks(bs, func(bs []Binding, errs []error) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		req := kmsg.NewPtrCreateACLsRequest()
		for _, b := range bs {
			x := kmsg.NewCreateACLsRequestCreation()
			x.ResourceType, x.ResourceName, x.ResourcePatternType = b.Type, b.Name, b.Pattern
			x.Principal, x.Host, x.Operation, x.PermissionType = b.Principal, b.Host, b.Operation, permission(b)
			req.Creations = append(req.Creations, x)
		}
		resp, err := req.RequestWith(ctx, c.Admin())
		if err != nil {
			return err
		}
		for i := range min(len(bs), len(resp.Results)) {
			errs[i] = drift.BrokerError(resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage)
		}
		return nil
	})
}

// remove removes permissions, and returns what became of each.
func remove(ctx context.Context, c *kafka.Cluster, bs []Binding) []error {
	return inChunks(bs, func(bs []Binding, errs []error) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		req := kmsg.NewPtrDeleteACLsRequest()
		for _, b := range bs {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourceName, f.ResourcePatternType = b.Type, kmsg.StringPtr(b.Name), b.Pattern
			f.Principal, f.Host, f.Operation, f.PermissionType = kmsg.StringPtr(b.Principal), kmsg.StringPtr(b.Host), b.Operation, permission(b)
			req.Filters = append(req.Filters, f)
		}
		resp, err := req.RequestWith(ctx, c.Admin())
		if err != nil {
			return err
		}
		for i := range min(len(bs), len(resp.Results)) {
			r := resp.Results[i]
			errs[i] = drift.BrokerError(r.ErrorCode, r.ErrorMessage)
			for _, m := range r.MatchingACLs {
				if err := drift.BrokerError(m.ErrorCode, m.ErrorMessage); err != nil && errs[i] == nil {
					errs[i] = err
				}
			}
		}
		return nil
	})
}

// inChunks sends permissions in requests of a bounded size. send fills in what became of each; what the answer leaves out
// is an error.
func inChunks(bs []Binding, send func([]Binding, []error) error) []error {
	errs := make([]error, len(bs))
	for i := range errs {
		errs[i] = fmt.Errorf("the broker's answer leaves it out: %w", kerr.UnknownServerError)
	}
	for from := 0; from < len(bs); from += perRequest {
		to := min(from+perRequest, len(bs))
		if err := send(bs[from:to], errs[from:to]); err != nil {
			for i := range errs[from:to] {
				errs[from+i] = err
			}
		}
	}
	return errs
}
