package term

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/replicator/batch"
)

const (
	// readsPerRequest, readBytes and answerBytes bound one fetch. A marker takes 78 bytes and mostly stands where reading
	// begins; what else there is, a stale owner wrote in the meantime.
	readsPerRequest = 500
	readBytes       = 1 << 20
	answerBytes     = 8 << 20
)

// readBack looks for each written job's marker in its partition's log until all are found or ctx ends. All partitions
// have their turn in each round, so that one whose marker is late does not hold back the others.
func (s *Sealer) readBack(ctx context.Context, jobs []*job) {
	pending := slices.DeleteFunc(healthy(jobs), func(j *job) bool { return !j.written })
	var wait backoff
	for {
		moved := s.readRound(ctx, pending)
		pending = slices.DeleteFunc(pending, func(j *job) bool { return j.marker >= 0 || j.err != nil })
		if len(pending) == 0 {
			return
		}
		if moved && ctx.Err() == nil {
			continue
		}
		if wait.wait(ctx) != nil {
			for _, j := range pending {
				j.err = fmt.Errorf("%w: read up to offset %d", ErrNoMarker, j.search)
			}
			return
		}
	}
}

// readRound reads once at each pending job's leader, all leaders at the same time, and reports whether anything was
// there to be read.
func (s *Sealer) readRound(ctx context.Context, jobs []*job) bool {
	s.findLeaders(ctx, jobs)
	before := searched(jobs)
	leaders := make(map[int32][]*job)
	for _, j := range jobs {
		if j.leader >= 0 {
			leaders[j.leader] = append(leaders[j.leader], j)
		}
	}
	var wg sync.WaitGroup
	for leader, js := range leaders {
		wg.Go(func() {
			for chunk := range slices.Chunk(js, readsPerRequest) {
				s.readChunk(ctx, leader, chunk)
			}
		})
	}
	wg.Wait()
	return searched(jobs) > before
}

// searched sums up how far jobs were read.
func searched(jobs []*job) (sum int64) {
	for _, j := range jobs {
		sum += j.search
	}
	return sum
}

// findLeaders looks for leaders that moved since. Without an answer the next round asks again.
func (s *Sealer) findLeaders(ctx context.Context, jobs []*job) {
	lost := slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return j.leader >= 0 })
	if len(lost) == 0 {
		return
	}
	meta, err := s.dst.Metadata(ctx, topics(lost)...)
	if err != nil {
		return
	}
	for _, j := range lost {
		if p, err := find(meta, j.Part); err == nil {
			j.leader = p.Leader
		}
	}
}

// readChunk reads many partitions by one fetch.
func (s *Sealer) readChunk(ctx context.Context, leader int32, jobs []*job) {
	answers, err := s.fetch(ctx, leader, jobs)
	for _, j := range jobs {
		p, ok := answers[j.part()]
		code := kerr.ErrorForCode(p.ErrorCode)
		switch {
		case err != nil, !ok:
			j.leader = -1
		case errors.Is(code, kerr.OffsetOutOfRange):
			s.skipTrimmed(ctx, j)
		case code != nil:
			j.leader = -1
		case !j.scan(p.RecordBatches) && p.HighWatermark > j.search:
			s.readAlone(ctx, j) // larger than its share of the answer
		}
	}
}

// fetch asks one broker for what partitions hold from where their jobs stand. By name, which every broker understands.
func (s *Sealer) fetch(ctx context.Context, leader int32, jobs []*job) (map[partition]kmsg.FetchResponseTopicPartition, error) {
	var resp kmsg.Response
	err := attempt(ctx, func(ctx context.Context) (err error) {
		req := kafka.Pinned{Request: fetchRequest(jobs), Max: kafka.FetchByID - 1}
		resp, err = s.dst.Read().Broker(int(leader)).Request(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make(map[partition]kmsg.FetchResponseTopicPartition, len(jobs))
	for _, t := range resp.(*kmsg.FetchResponse).Topics {
		for _, p := range t.Partitions {
			out[partition{t.Topic, p.Partition}] = p
		}
	}
	return out, nil
}

func fetchRequest(jobs []*job) *kmsg.FetchRequest {
	from := make(map[partition]int64, len(jobs))
	for _, j := range jobs {
		from[j.part()] = j.search
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch = -1, -1
	req.MinBytes, req.MaxBytes = 1, answerBytes
	for topic, indexes := range byTopic(partitions(jobs)) {
		t := kmsg.NewFetchRequestTopic()
		t.Topic = topic
		for _, index := range indexes {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.FetchOffset, p.PartitionMaxBytes = index, from[partition{topic, index}], readBytes
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// readAlone reads one partition, whose first batch is then returned however large it is.
func (s *Sealer) readAlone(ctx context.Context, j *job) {
	if p, err := s.dst.ReadAt(ctx, j.Part, j.search, readBytes, false); err == nil {
		j.scan(p.RecordBatches)
	}
}

// scan looks for the marker in what was read and moves on behind it. It returns false when there was nothing.
func (j *job) scan(raw []byte) bool {
	from := j.search
	for h, b := range batch.Split(raw) {
		if h.Next() <= j.search {
			continue // the answer begins with the whole batch that the offset lies in
		}
		mine := j.isMarker(h, b)
		switch {
		case mine:
			j.marker, j.markedAt = h.LastOffset(), h.LeaderEpoch // of several in a row, the last: nothing stands between them
		case j.marker >= 0:
			return true
		case h.Control() && h.PID == j.pid && h.Epoch > j.epoch:
			j.err = fmt.Errorf("%w: epoch %d at offset %d", ErrSuperseded, h.Epoch, h.BaseOffset)
			return true
		}
		j.search = h.Next()
	}
	return j.search > from
}

// isMarker reports whether a batch is the job's marker.
func (j *job) isMarker(h batch.Header, b []byte) bool {
	if !h.Control() || h.PID != j.pid || h.Epoch != j.epoch {
		return false
	}
	_, err := batch.ParseMarker(h, b)
	return err == nil
}

// skipTrimmed moves a job whose log start passed it to the log's start.
func (s *Sealer) skipTrimmed(ctx context.Context, j *job) {
	start := s.dst.ListOffsets(ctx, []kafka.Part{j.Part}, kafka.AtStart, false)[j.Part]
	if start.Err == nil && start.Offset > j.search {
		j.search = start.Offset
	}
}
