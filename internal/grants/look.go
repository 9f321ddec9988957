package grants

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
)

// Report is what a cluster's user has of what a link needs there.
type Report struct {
	// Authorizer is false on a cluster that checks no permissions: then nothing is missing.
	Authorizer bool
	// Missing are needed and not given.
	Missing []Grant
	// Later are given for every topic that exists, but not for those to come.
	Later []Grant
	// Barred are given, but not for single topics that they should be for: a DENY stands against them.
	Barred []Barred
	// Unknown may be given or not: the cluster does not tell.
	Unknown []Grant
	// Options are not given, or not known to be, and lockstep can do without them.
	Options []Grant
}

// Barred is a grant that is refused on single topics.
type Barred struct {
	Grant
	Topics []string
}

// OK reports whether everything that is needed is given.
func (r Report) OK() bool {
	return len(r.Missing)+len(r.Later)+len(r.Barred)+len(r.Unknown) == 0
}

// Look finds out which of the needed grants the cluster's user has. existing are topics of the cluster that patterns among
// the grants stand for. It changes nothing. The error means that the cluster does not answer; what it answers no question
// about is in Unknown. The context bounds all of it.
func Look(ctx context.Context, c *kafka.Cluster, needed []Grant, existing []string) (Report, error) {
	a, err := newAsker(ctx, c)
	if err != nil {
		return Report{}, err
	}
	if a.unguarded(ctx) {
		return Report{}, nil
	}
	if err := a.ask(ctx, needed, existing); err != nil {
		return Report{}, err
	}
	r := Report{Authorizer: true}
	for _, g := range needed {
		r.sort(g, a, existing)
	}
	return r, nil
}

// sort puts a grant where it belongs.
func (r *Report) sort(g Grant, a *asker, existing []string) {
	general, allowed, denied := a.verdict(g, g.Name.sample()), []string(nil), []string(nil)
	for _, topic := range among(g, existing) {
		switch a.verdict(g, topic) {
		case isAllowed:
			allowed = append(allowed, topic)
		case isDenied:
			denied = append(denied, topic)
		}
	}
	if general == notKnown && len(denied) == 0 && len(allowed) > 0 {
		general = isAllowed
	}
	switch {
	case general == isAllowed && len(denied) == 0:
	case g.Optional:
		r.Options = append(r.Options, g)
	case general == isAllowed:
		r.Barred = append(r.Barred, Barred{g, denied})
	case general == notKnown && len(denied) == 0:
		r.Unknown = append(r.Unknown, g)
	case len(allowed) > 0 && len(denied) == 0:
		r.Later = append(r.Later, g)
	default:
		r.Missing = append(r.Missing, g)
	}
}

// among returns the existing topics that a grant's pattern stands for. Whether they may be made again is not asked.
func among(g Grant, existing []string) []string {
	if g.Resource != Topic || g.Operation == Create || g.Name != all && !g.Name.Prefixed {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(existing), func(topic string) bool { return !g.Name.covers(Name{Text: topic}) })
}

// verdict is what a cluster said about an operation.
type verdict int

const (
	notKnown verdict = iota
	isAllowed
	isDenied
)

// topicRefused is TOPIC_AUTHORIZATION_FAILED.
var topicRefused = kerr.TopicAuthorizationFailed.Code

// judge reads a broker's answer to a request that it judges before it does anything: whatever it is, if it is no refusal,
// the request got past the authorizer. Answers that come before that say nothing.
func judge(code int16) verdict {
	err := kerr.ErrorForCode(code)
	switch {
	case refusal(err):
		return isDenied
	case errors.Is(err, kerr.UnsupportedVersion), errors.Is(err, kerr.NotController), errors.Is(err, kerr.RequestTimedOut),
		errors.Is(err, kerr.UnknownServerError):
		return notKnown
	}
	return isAllowed
}

func refusal(err error) bool {
	for _, no := range []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.TransactionalIDAuthorizationFailed} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
