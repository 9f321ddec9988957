package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

// Users tell which SCRAM users of the source the target lacks. It implements drift.Part, and writes nothing: no broker
// gives a secret away.
type Users struct{ o Options }

// NewUsers returns Users. It does no I/O.
func NewUsers(o Options) *Users { return &Users{o} }

// Kind implements drift.Part.
func (u *Users) Kind() drift.Kind { return drift.User }

// Pass implements drift.Part. Users are looked at where permissions or quotas, which name them, are carried over.
func (u *Users) Pass(ctx context.Context, s drift.Scope) drift.Outcome {
	if !s.Link.Quotas.Sync && !s.Link.ACLs.Sync || s.Promotes() || s.Order != nil && !s.Order.Covers("") {
		return drift.Outcome{Condition: drift.Off}
	}
	target, err := observeUsers(ctx, u.o.Target)
	if err != nil {
		return cannot(u.o.Target, "SCRAM users", "Describe", err)
	}
	named := u.named(ctx, s)
	source, err := observeUsers(ctx, u.o.Source)
	if err != nil {
		o := cannot(u.o.Source, "SCRAM users", "Describe", err)
		if o.Items = lackingUnread(named, target); len(o.Items) > 0 {
			o.Condition = drift.Partly
		}
		return o
	}
	return drift.Outcome{Condition: drift.OK, Items: lacking(source, target, named)}
}

// named returns the users that quotas of the source name. Without a word on quotas there are none: what that misses is
// told by the quotas' own outcome.
func (u *Users) named(ctx context.Context, s drift.Scope) map[string]bool {
	out := make(map[string]bool)
	if !s.Link.Quotas.Sync {
		return out
	}
	quotas, err := observe(ctx, u.o.Source)
	if err != nil {
		return out
	}
	for l := range quotas {
		if name, ok := l.entity.user(); ok && !l.entity.of(u.o.Own) {
			out[name] = true
		}
	}
	return out
}

// mechanisms are those of one user.
type mechanisms map[string]bool

// scramNames are the mechanisms by their numbers in the protocol.
var scramNames = map[int8]string{1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}

// observeUsers returns the SCRAM users of a cluster.
func observeUsers(ctx context.Context, c *kafka.Cluster) (map[string]mechanisms, error) {
	resp, err := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest().RequestWith(ctx, c.Admin())
	if err == nil {
		err = drift.BrokerError(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, fmt.Errorf("read the SCRAM users of cluster %s: %w", c.Name(), err)
	}
	out := make(map[string]mechanisms)
	for _, r := range resp.Results {
		if err := drift.BrokerError(r.ErrorCode, r.ErrorMessage); err != nil {
			if errors.Is(err, kerr.ResourceNotFound) {
				continue // removed while the broker answered
			}
			return nil, fmt.Errorf("read SCRAM user %s of cluster %s: %w", r.User, c.Name(), err)
		}
		has := make(mechanisms)
		for _, i := range r.CredentialInfos {
			if name, ok := scramNames[i.Mechanism]; ok {
				has[name] = true
			}
		}
		out[r.User] = has
	}
	return out, nil
}

// lacking returns the users and mechanisms that the target does not have. It is pure.
func lacking(source, target map[string]mechanisms, named map[string]bool) (items []drift.Item) {
	for _, user := range slices.Sorted(maps.Keys(source)) {
		for _, mechanism := range slices.Sorted(maps.Keys(source[user])) {
			has := target[user]
			if has[mechanism] {
				continue
			}
			i := missing(user, mechanism)
			i.Source = drift.Text("set")
			i.Why = "the target has no SCRAM user of this name, and a broker does not give a password away"
			if len(has) > 0 {
				i.Why = "the target's user lacks this mechanism, and a broker does not give a password away"
			}
			if named[user] {
				i.Why += "; a quota names it"
			}
			items = append(items, i)
		}
	}
	return items
}

// lackingUnread returns the users that quotas name and the target does not have, where the source's users are not known.
func lackingUnread(named map[string]bool, target map[string]mechanisms) (items []drift.Item) {
	for _, user := range slices.Sorted(maps.Keys(named)) {
		if _, ok := target[user]; ok {
			continue
		}
		i := missing(user, scramNames[1])
		i.Name = user
		i.Why = "a quota names it and the target has no SCRAM user of this name; it may log in some other way"
		items = append(items, i)
	}
	return items
}

func missing(user, mechanism string) drift.Item {
	return drift.Item{Kind: drift.User, Name: user + " " + mechanism, State: drift.Missing, Side: drift.Target,
		Remedy: fmt.Sprintf("kafka-configs.sh --bootstrap-server SERVER --alter --add-config '%s=[password=…]' --entity-type users --entity-name %s", mechanism, quoted(user))}
}

// quoted returns a word for a shell.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.@", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
