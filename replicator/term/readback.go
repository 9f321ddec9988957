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
	// readers is how many partitions are read at the same time.
	readers = 16
	// readBytes is how much of a log one read asks for. A marker takes 78 bytes and mostly stands where reading begins.
	readBytes = 64 << 10
)

// readBack looks for each written job's marker in its partition's log until all are found or ctx ends. All partitions
// have their turn in each round, so that one whose marker is late does not hold back the others.
func (s *Sealer) readBack(ctx context.Context, jobs []*job) {
	pending := slices.DeleteFunc(healthy(jobs), func(j *job) bool { return !j.written })
	var wait backoff
	for {
		s.readRound(ctx, pending)
		pending = slices.DeleteFunc(pending, func(j *job) bool { return j.marker >= 0 || j.err != nil })
		if len(pending) == 0 {
			return
		}
		if cause := wait.wait(ctx); cause != nil {
			fail(pending, fmt.Errorf("%w: read up to offset %d", ErrNoMarker, pending[0].search))
			return
		}
	}
}

func (s *Sealer) readRound(ctx context.Context, jobs []*job) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, readers)
	for _, j := range jobs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.readOne(ctx, j)
		})
	}
	wg.Wait()
}

// readOne reads a job's log from where it stands to its end. Errors that may pass are left to the next round.
func (s *Sealer) readOne(ctx context.Context, j *job) {
	for j.marker < 0 && j.err == nil && ctx.Err() == nil {
		p, err := s.dst.ReadAt(ctx, j.Part, j.search, readBytes, false)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			s.skipTrimmed(ctx, j)
			return // the next round goes on there
		}
		if err != nil || !j.scan(p) {
			return
		}
	}
}

// scan looks for the marker in what was read and moves on behind it. It returns false when there was nothing.
func (j *job) scan(p kmsg.FetchResponseTopicPartition) bool {
	from := j.search
	for h, b := range batch.Split(p.RecordBatches) {
		if h.Next() <= j.search {
			continue // the answer begins with the whole batch that the offset lies in
		}
		switch {
		case j.marker >= 0 && !j.isMarker(h, b):
			return true
		case j.isMarker(h, b):
			j.marker = h.LastOffset() // of several in a row, the last: nothing stands between them
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
