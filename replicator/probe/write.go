package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
	"lockstep/replicator/term"
)

// encode makes a batch of n records of one time, without a producer.
func (p *prober) encode(n int, at time.Time) []byte {
	rs := make([]batch.Record, n)
	for i := range rs {
		rs[i] = batch.Record{Offset: int64(i), Timestamp: at.UnixMilli(), Key: []byte("k" + strconv.Itoa(i)), Value: []byte("lockstep tries this cluster")}
	}
	built, err := p.codecs.Encode(rs, batch.CodecLZ4, 0)
	if err != nil || len(built) != 1 {
		panic(fmt.Sprintf("probe: encode %d records: %d batches, %v", n, len(built), err))
	}
	return built[0].Bytes
}

// stamped makes a batch of n records as a lane of term t sends it.
func (p *prober) stamped(t model.Term, seq int32, n int) []byte {
	b := p.encode(n, time.Now())
	batch.Stamp(b, t.PID, t.Epoch, seq)
	return b
}

// produce sends one batch and returns its offset.
func (p *prober) produce(ctx context.Context, b []byte) (int64, error) {
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = 0, b
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.Partitions = p.part.Topic, append(rt.Partitions, rp)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(adminTimeout.Milliseconds())
	req.Topics = append(req.Topics, rt)
	resp, err := p.dst.Produce().Broker(int(p.leader)).Request(ctx, kafka.Pinned{Request: req, Max: kafka.ProduceByID - 1})
	if err != nil {
		return -1, err
	}
	for _, t := range resp.(*kmsg.ProduceResponse).Topics {
		for i := range t.Partitions {
			return t.Partitions[i].BaseOffset, kafka.ProduceError(&t.Partitions[i])
		}
	}
	return -1, errors.New("the answer to produce names no partition")
}

// take sends a batch of the present term that has to be taken at the log's end.
func (p *prober) take(ctx context.Context, n int) error {
	return p.takeBytes(ctx, p.stamped(p.term, p.seq, n), n)
}

func (p *prober) takeBytes(ctx context.Context, b []byte, n int) error {
	at, err := p.produce(ctx, b)
	switch {
	case err != nil:
		return fmt.Errorf("epoch %d, sequence %d: %w", p.term.Epoch, p.seq, err)
	case at != p.end:
		return fmt.Errorf("epoch %d, sequence %d: it is at offset %d, expected %d", p.term.Epoch, p.seq, at, p.end)
	}
	p.seq += int32(n)
	p.written(at, n)
	return nil
}

// written notes records that consumers should see.
func (p *prober) written(at int64, n int) {
	p.end, p.records = at+int64(n), p.records+n
	p.last = p.end - 1
}

// refuses sends a batch that has to be refused with one of the errors.
func (p *prober) refuses(ctx context.Context, what string, b []byte, want ...*kerr.Error) error {
	at, err := p.produce(ctx, b)
	for _, w := range want {
		if errors.Is(err, w) {
			return nil
		}
	}
	if err == nil {
		p.written(at, 1)
		return fmt.Errorf("%s: taken at offset %d, expected %s", what, at, want[0].Message)
	}
	return fmt.Errorf("%s: %w, expected %s", what, err, want[0].Message)
}

func (p *prober) takeProducer(ctx context.Context) (string, error) {
	if err := p.nextTerm(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("producer id %d, epoch %d", p.term.PID, p.term.Epoch), nil
}

// nextTerm takes a term of the probe's own transactional id, or a plain one where that is not allowed.
func (p *prober) nextTerm(ctx context.Context) error {
	t, err := term.Take(ctx, p.dst, p.link(), p.term, "probe")
	if errors.Is(err, term.ErrDenied) {
		t, err = term.TakePlain(ctx, p.dst, p.term, "probe")
	}
	if err != nil {
		return err
	}
	p.term, p.seq = t, 0
	return nil
}

// link is the name under which the probe takes terms: its transactional id is the scratch topic's name.
func (p *prober) link() string { return "probe." + p.id }

func (p *prober) passThrough(ctx context.Context) (string, error) {
	if err := p.take(ctx, 3); err != nil {
		return "", err
	}
	_, raw, err := p.newest(ctx, p.end-3)
	if err != nil {
		return "", err
	}
	b := append([]byte(nil), raw...)
	batch.Stamp(b, p.term.PID, p.term.Epoch, p.seq)
	if err := p.takeBytes(ctx, b, 3); err != nil {
		return "", err
	}
	return fmt.Sprintf("lz4, %d bytes, at offset %d", len(b), p.end-3), nil
}

// newest reads the batch that begins at an offset.
func (p *prober) newest(ctx context.Context, at int64) (batch.Header, []byte, error) {
	got, err := p.dst.ReadAt(ctx, p.part, at, 1<<20, false)
	if err != nil {
		return batch.Header{}, nil, err
	}
	var fault error
	for h, b := range batch.SplitErr(got.RecordBatches, &fault) {
		if h.BaseOffset == at {
			return h, b, nil
		}
	}
	return batch.Header{}, nil, errors.Join(fmt.Errorf("no batch begins at offset %d", at), fault)
}

func (p *prober) keepsHeaders(ctx context.Context) (string, error) {
	h, _, err := p.newest(ctx, p.end-3)
	if err != nil {
		return "", err
	}
	if h.PID != p.term.PID || h.Epoch != p.term.Epoch || h.BaseSeq != p.seq-3 || h.LastOffsetDelta != 2 {
		return "", fmt.Errorf("the log has producer id %d, epoch %d, sequence %d, last offset delta %d; sent %d, %d, %d, 2",
			h.PID, h.Epoch, h.BaseSeq, h.LastOffsetDelta, p.term.PID, p.term.Epoch, p.seq-3)
	}
	return fmt.Sprintf("sequence %d of epoch %d at offset %d", h.BaseSeq, h.Epoch, h.BaseOffset), nil
}

func (p *prober) repeats(ctx context.Context) (string, error) {
	at, err := p.produce(ctx, p.stamped(p.term, p.seq-3, 3))
	if errors.Is(err, kerr.DuplicateSequenceNumber) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	if at != p.end-3 {
		p.written(at, 3)
		return "", fmt.Errorf("it is written a second time, at offset %d", at)
	}
	return fmt.Sprintf("answered with its offset %d", at), nil
}

func (p *prober) skips(ctx context.Context) (string, error) {
	if err := p.refuses(ctx, "sequence skips by 5", p.stamped(p.term, p.seq+5, 1), kerr.OutOfOrderSequenceNumber); err != nil {
		return "", err
	}
	end, err := p.logEnd(ctx)
	if err == nil && end != p.end {
		err = fmt.Errorf("it was refused, and yet the end moved from %d to %d", p.end, end)
	}
	return kerr.OutOfOrderSequenceNumber.Message, err
}

// takesOldTimes writes without a producer, since a broker forgets one whose records are old.
func (p *prober) takesOldTimes(ctx context.Context) (string, error) {
	at, err := p.produce(ctx, p.encode(1, time.Now().AddDate(-10, 0, 0)))
	if err != nil {
		return "", fmt.Errorf("%w: lanes with such records stop as timestamp_refused until message.timestamp.before.max.ms is raised", err)
	}
	p.written(at, 1)
	return "", nil
}

func (p *prober) takesStrangers(ctx context.Context) (string, error) {
	t, err := term.TakePlain(ctx, p.dst, model.Term{}, "probe")
	if err != nil {
		return "", err
	}
	at, err := p.produce(ctx, p.stamped(t, 1000, 1))
	if errors.Is(err, kerr.OutOfOrderSequenceNumber) {
		return "", fmt.Errorf("sequence 1000: %w: a lane whose producer was forgotten goes on in a new term", err)
	}
	if err != nil {
		return "", err
	}
	p.written(at, 1)
	return "sequence 1000 is taken first: one batch at a time is sent until the first answer", nil
}

func (p *prober) describesProducers(ctx context.Context) (string, error) {
	answer := p.dst.DescribeProducers(ctx, []kafka.Part{p.part})[p.part]
	if answer.Err != nil {
		return "", answer.Err
	}
	mine, ok := answer.Find(p.term.PID)
	if !ok {
		return "", fmt.Errorf("producer id %d is not listed", p.term.PID)
	}
	if mine.Epoch != p.term.Epoch || mine.LastSequence != p.seq-1 {
		return "", fmt.Errorf("it shows epoch %d, sequence %d; written were %d, %d", mine.Epoch, mine.LastSequence, p.term.Epoch, p.seq-1)
	}
	return fmt.Sprintf("sequence %d of epoch %d", mine.LastSequence, mine.Epoch), nil
}

func (p *prober) nextEpoch(ctx context.Context) (string, error) {
	old, oldSeq := p.term, p.seq
	if err := p.nextTerm(ctx); err != nil {
		return "", err
	}
	if p.term.PID != old.PID {
		return "", fmt.Errorf("the next term has producer id %d instead of %d", p.term.PID, old.PID)
	}
	if err := p.refuses(ctx, "next epoch at sequence 5", p.stamped(p.term, 5, 1), kerr.OutOfOrderSequenceNumber); err != nil {
		return "", err
	}
	if err := p.take(ctx, 2); err != nil {
		return "", err
	}
	return p.isFenced(ctx, old, oldSeq)
}

// isFenced shows that an older term writes nothing more.
func (p *prober) isFenced(ctx context.Context, old model.Term, seq int32) (string, error) {
	err := p.refuses(ctx, fmt.Sprintf("old epoch %d", old.Epoch), p.stamped(old, seq, 1), kerr.InvalidProducerEpoch, kerr.ProducerFenced)
	return "the old epoch gets " + kerr.InvalidProducerEpoch.Message, err
}

func (p *prober) deletesRecords(ctx context.Context) (string, error) {
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = 0, -1
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = p.part.Topic, append(rt.Partitions, rp)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = int32(adminTimeout.Milliseconds())
	req.Topics = append(req.Topics, rt)
	resp, err := p.dst.Admin().Broker(int(p.leader)).Request(ctx, req)
	if err != nil {
		return "", err
	}
	for _, t := range resp.(*kmsg.DeleteRecordsResponse).Topics {
		for _, part := range t.Partitions {
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				return "", err
			}
		}
	}
	o := p.dst.ListOffsets(ctx, []kafka.Part{p.part}, kafka.AtStart, false)[p.part]
	if o.Err == nil && o.Offset != p.end {
		o.Err = fmt.Errorf("the log starts at %d afterwards, expected %d", o.Offset, p.end)
	}
	return fmt.Sprintf("the log starts at %d", o.Offset), o.Err
}

func (p *prober) remembersProducer(ctx context.Context) (string, error) {
	if err := p.refuses(ctx, "sequence skips by 5", p.stamped(p.term, p.seq+5, 1), kerr.OutOfOrderSequenceNumber); err != nil {
		return "", err
	}
	return "", p.take(ctx, 1)
}
