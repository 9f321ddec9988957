package reset

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/checkpoint"
	"lockstep/internal/kafka"
)

// Place is a position in a log.
type Place struct {
	checkpoint.Key
	Offset int64
}

// Record is what a consumer reads next at a place.
type Record struct {
	Offset int64 // higher than the place's where that offset holds no record
	Key    []byte
	Time   time.Time // in UTC
	End    bool      // there is no record: the place is the log's end, or an open transaction holds what follows
	Err    error     // it could not be read
}

const (
	peekBytes    = 64 << 10 // of one fetch; a first batch may be larger
	peekFetches  = 3        // for one place: behind markers and holes the next batch is looked at
	peeksAtOnce  = 8
	peekPatience = 10 * time.Second // for all places together
)

// Peek reads the records at places, each by one fetch or a few, and all of them within ten seconds. Places that it had no
// time for have an Err.
func Peek(ctx context.Context, c *kafka.Cluster, places []Place) map[Place]Record {
	ctx, cancel := context.WithTimeout(ctx, peekPatience)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	out := make(map[Place]Record, len(places))
	slots := make(chan struct{}, peeksAtOnce)
	for _, p := range places {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r := peek(ctx, c, p)
			mu.Lock()
			defer mu.Unlock()
			out[p] = r
		})
	}
	wg.Wait()
	return out
}

func peek(ctx context.Context, c *kafka.Cluster, p Place) Record {
	part := kafka.Part{Topic: p.Topic, Partition: p.Partition}
	next := p.Offset
	for range peekFetches {
		resp, err := c.ReadAt(ctx, part, next, peekBytes, true)
		if err != nil {
			return Record{Err: err}
		}
		opts := kgo.ProcessFetchPartitionOpts{Offset: next, IsolationLevel: kgo.ReadCommitted(), Topic: p.Topic, Partition: p.Partition}
		fp, behind := kgo.ProcessFetchPartition(opts, &resp, kgo.DefaultDecompressor(), nil)
		if len(fp.Records) > 0 {
			r := fp.Records[0]
			return Record{Offset: r.Offset, Key: r.Key, Time: r.Timestamp.UTC()}
		}
		if fp.Err != nil {
			return Record{Err: fp.Err}
		}
		if behind <= next {
			return Record{End: true}
		}
		next = behind
	}
	return Record{Err: errNothingNear}
}

// errNothingNear says that only markers and holes were found.
var errNothingNear = errors.New("no record near it")
