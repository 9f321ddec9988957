package probe

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/grants"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/term"
)

// sealsDirectly seals as a link does that has not chosen its way yet.
func (p *prober) sealsDirectly(ctx context.Context) (string, error) {
	old, oldSeq := p.term, p.seq
	if err := p.nextTerm(ctx); err != nil {
		return "", err
	}
	detail, way, err := p.seal(ctx, p.link(), term.WayUnknown, old, oldSeq)
	if way != term.WayTransaction && way != term.WayNone {
		return detail, err
	}
	return "", errors.New("direct markers are not allowed (CLUSTER_AUTHORIZATION_FAILED); grant them: " +
		grants.Hint("Alter", grants.Named(grants.Cluster, grants.Name{})))
}

// sealsByTransaction tries the other way under another transactional id: the two ways must not be mixed.
func (p *prober) sealsByTransaction(ctx context.Context) (string, error) {
	link := p.link() + ".txn"
	if err := p.takeTerm(ctx, link, model.Term{}); err != nil {
		return "", err
	}
	if err := p.take(ctx, 2); err != nil {
		return "", err
	}
	old, oldSeq := p.term, p.seq
	if err := p.takeTerm(ctx, link, old); err != nil {
		return "", err
	}
	detail, _, err := p.seal(ctx, link, term.WayTransaction, old, oldSeq)
	return detail, err
}

// takeTerm makes the term behind last of a transactional id the present one.
func (p *prober) takeTerm(ctx context.Context, link string, last model.Term) error {
	t, err := term.Take(ctx, p.dst, link, last, "probe")
	if errors.Is(err, term.ErrDenied) {
		return errors.New("transactional ids are not allowed; a link uses lockstep.LINK. Grant them: " +
			grants.Hint("Write", grants.Named(grants.TransactionalID, grants.Name{Text: "lockstep.", Prefixed: true})))
	}
	if err != nil {
		return err
	}
	p.term, p.seq = t, 0
	return nil
}

// seal ends the old term by a marker of the present one, and shows that the marker does what it is for: the old term is
// refused, the new one begins at sequence 0 behind the marker.
func (p *prober) seal(ctx context.Context, link string, way term.Way, old model.Term, oldSeq int32) (string, term.Way, error) {
	sealer := term.NewSealer(p.dst, link, term.Options{Logger: p.opt.Logger, Way: way})
	out, used := sealer.Seal(ctx, p.term, []term.Target{{Part: p.part, From: p.end, Ends: old}})
	o := out[p.part]
	if !o.Sealed() {
		return "", used, errors.Join(errors.New("no marker stands in the log"), o.Err)
	}
	h, _, err := p.newest(ctx, o.Marker)
	switch {
	case err != nil:
		return "", used, fmt.Errorf("read the marker: %w", err)
	case !h.Control() || h.PID != p.term.PID || h.Epoch < p.term.Epoch:
		return "", used, fmt.Errorf("at offset %d stands no marker of epoch %d", o.Marker, p.term.Epoch)
	case o.Marker != p.end:
		return "", used, fmt.Errorf("the marker is at offset %d, expected %d", o.Marker, p.end)
	}
	p.end = o.Marker + 1
	if _, err := p.isFenced(ctx, old, oldSeq); err != nil {
		return "", used, err
	}
	if err := p.refuses(ctx, "new epoch at sequence 7", p.stamped(p.term, 7, 1), kerr.OutOfOrderSequenceNumber); err != nil {
		return "", used, err
	}
	if err := p.take(ctx, 1); err != nil {
		return "", used, err
	}
	return fmt.Sprintf("marker at offset %d, read back; the old epoch is refused", o.Marker), used, nil
}

// hidesMarkers reads everything as consumers of both kinds do.
func (p *prober) hidesMarkers(ctx context.Context) (string, error) {
	for _, level := range []kgo.IsolationLevel{kgo.ReadCommitted(), kgo.ReadUncommitted()} {
		n, err := p.consume(ctx, level)
		if err != nil {
			return "", err
		}
		if n != p.records {
			return "", fmt.Errorf("a consumer sees %d records, %d were written", n, p.records)
		}
	}
	markers := p.end - int64(p.records)
	if markers == 0 {
		return "no marker could be written, so there is none to hide", nil
	}
	return fmt.Sprintf("consumers see %d records up to offset %d, with %d markers between them", p.records, p.end, markers), nil
}

func (p *prober) consume(ctx context.Context, level kgo.IsolationLevel) (n int, err error) {
	from := map[string]map[int32]kgo.Offset{p.part.Topic: {0: kgo.NewOffset().AtStart()}}
	cl, err := p.dst.NewClient("probe", kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	stable := p.dst.ListOffsets(ctx, []kafka.Part{p.part}, kafka.AtEnd, true)[p.part]
	if stable.Err != nil {
		return 0, stable.Err
	}
	if stable.Offset != p.end {
		return 0, fmt.Errorf("the stable end is %d, the log's end %d: a marker holds it back", stable.Offset, p.end)
	}
	for last := int64(-1); last < p.last; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return n, err
		}
		if err := firstErr(fetches); err != nil {
			return n, err
		}
		fetches.EachRecord(func(r *kgo.Record) { n, last = n+1, r.Offset })
	}
	return n, nil
}

func firstErr(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		return e.Err
	}
	return nil
}
