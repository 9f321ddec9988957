package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// measureTopic returns what a load's topic takes on the broker's disk, and in how many batches.
func measureTopic(ctx context.Context, cl *kgo.Client, name string) (bytes, batches int64, err error) {
	f := &floor{}
	if err := f.prepareSource(ctx, cl, name); err != nil {
		return 0, 0, err
	}
	for f.remaining() {
		resp, err := f.src.Request(ctx, f.fetchRequest())
		if err != nil {
			return 0, 0, fmt.Errorf("fetch %s: %w", name, err)
		}
		r := resp.(*kmsg.FetchResponse)
		if err := f.advance(r); err != nil {
			return 0, 0, err
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				eachBatch(p.RecordBatches, func(b []byte) { bytes, batches = bytes+int64(len(b)), batches+1 })
			}
		}
	}
	return bytes, batches, nil
}
