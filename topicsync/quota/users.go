package quota

import (
	"cmp"
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

// Users tells which SCRAM users of the source are missing on the target: nobody can read their secrets, so only an
// operator can make them there. It implements drift.Part, and looks when permissions or quotas follow.
type Users struct{ Source, Target *kafka.Cluster }

// Kind implements drift.Part.
func (Users) Kind() drift.Kind { return drift.User }

// Pass implements drift.Part. It changes nothing.
func (u Users) Pass(ctx context.Context, s drift.Scope) drift.Outcome {
	if !s.Link.ACLs.Sync && !s.Link.Quotas.Sync || s.Promotes() {
		return drift.Outcome{Condition: drift.Off}
	}
	source, err := scramUsers(ctx, u.Source)
	if err != nil {
		return cannot(u.Source, "read the users", "Describe", err)
	}
	if len(source) == 0 {
		return drift.Outcome{Condition: drift.NotApplicable, Why: fmt.Sprintf("cluster %s has no SCRAM users", u.Source.Name())}
	}
	target, err := scramUsers(ctx, u.Target)
	if err != nil {
		return cannot(u.Target, "read the users", "Describe", err)
	}
	return drift.Outcome{Condition: drift.OK, Items: missing(source, target)}
}

// missing lists what the target lacks. It is pure.
func missing(source, target map[string][]string) (items []drift.Item) {
	for _, user := range slices.Sorted(maps.Keys(source)) {
		var lacks []string
		for _, m := range source[user] {
			if !slices.Contains(target[user], m) {
				lacks = append(lacks, m)
			}
		}
		if len(lacks) == 0 {
			continue
		}
		i := drift.Item{Kind: drift.User, Name: user, Source: drift.Text(strings.Join(source[user], ", ")), State: drift.Missing, Side: drift.Target,
			Why: "the target does not have this user; its secret cannot be read from the source"}
		if has := target[user]; len(has) > 0 {
			i.Target, i.Why = drift.Text(strings.Join(has, ", ")), "the target's user lacks "+strings.Join(lacks, ", ")+"; the secret cannot be read from the source"
		}
		i.Remedy = fmt.Sprintf("kafka-configs.sh --bootstrap-server SERVER --alter --entity-type users --entity-name %s --add-config '%s=[password=SECRET]'", quote(user), lacks[0])
		items = append(items, i)
	}
	return items
}

// quote makes a name one word of a shell.
func quote(s string) string {
	if strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// scramUsers returns the mechanisms of every SCRAM user.
func scramUsers(ctx context.Context, c *kafka.Cluster) (map[string][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest().RequestWith(ctx, c.Admin())
	if err != nil {
		return nil, err
	}
	if err := drift.BrokerError(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	out := make(map[string][]string, len(resp.Results))
	for _, r := range resp.Results {
		if err := drift.BrokerError(r.ErrorCode, r.ErrorMessage); err != nil && !errors.Is(err, kerr.ResourceNotFound) {
			return nil, fmt.Errorf("user %s: %w", r.User, err)
		}
		for _, i := range r.CredentialInfos {
			out[r.User] = append(out[r.User], mechanism(i.Mechanism))
		}
		slices.SortFunc(out[r.User], cmp.Compare[string])
	}
	return out, nil
}

func mechanism(m int8) string {
	switch m {
	case 1:
		return "SCRAM-SHA-256"
	case 2:
		return "SCRAM-SHA-512"
	}
	return fmt.Sprintf("mechanism %d", m)
}
