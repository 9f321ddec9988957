package term

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// directRounds is how often a marker is sent again after an answer that may pass, such as a leader that moved. More
	// is the caller's decision: it has other partitions waiting for this call.
	directRounds = 5
	// markersPerRequest bounds the partitions of one request: a leader writes 1,000 markers in about 0.1 s.
	markersPerRequest = 1000
)

// direct writes each job's marker at its partition's leader. Afterwards every job is either written or has an error.
func (s *Sealer) direct(ctx context.Context, jobs []*job) {
	var wait backoff
	pending := jobs
	for round := 1; ; round++ {
		s.writeMarkers(ctx, healthy(pending))
		pending = slices.DeleteFunc(slices.Clone(pending), func(j *job) bool { return !again(j.err) })
		if len(pending) == 0 || round == directRounds || wait.wait(ctx) != nil {
			return
		}
		s.prepare(ctx, pending)
	}
}

// again reports whether a marker that was answered with err is worth sending once more in this call.
func again(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, kerr.NotLeaderForPartition),
		errors.Is(err, kerr.LeaderNotAvailable),
		errors.Is(err, kerr.UnknownLeaderEpoch),
		errors.Is(err, kerr.FencedLeaderEpoch),
		errors.Is(err, kerr.RequestTimedOut),
		errors.Is(err, kerr.TransactionCoordinatorFenced), // its epoch changed since it was asked for
		errors.Is(err, kerr.UnknownTopicOrPartition),      // a new leader that has not heard yet
		errors.Is(err, ErrNoLeader):                       // often a leader on its way
		return true
	case errors.Is(err, ErrDenied), errors.Is(err, ErrUnknownPartition), errors.Is(err, kgo.ErrClientClosed):
		return false
	}
	// What is left of brokers' answers is final for this call. Anything else is a connection.
	var answer *kerr.Error
	return !errors.As(err, &answer) && !errors.Is(err, ErrSuperseded)
}

// writeMarkers sends one request per leader and chunk, all leaders at the same time.
func (s *Sealer) writeMarkers(ctx context.Context, jobs []*job) {
	leaders := make(map[int32][]*job)
	for _, j := range jobs {
		j.way = WayDirect
		leaders[j.leader] = append(leaders[j.leader], j)
	}
	var wg sync.WaitGroup
	for leader, js := range leaders {
		wg.Go(func() {
			for chunk := range slices.Chunk(js, markersPerRequest) {
				s.writeChunk(ctx, leader, chunk)
			}
		})
	}
	wg.Wait()
}

// writeChunk sends one request and gives each job its partition's answer.
func (s *Sealer) writeChunk(ctx context.Context, leader int32, jobs []*job) {
	var resp kmsg.Response
	err := attempt(ctx, func(ctx context.Context) (err error) {
		resp, err = s.dst.Admin().Broker(int(leader)).Request(ctx, markerRequest(jobs))
		return err
	})
	if err != nil {
		fail(jobs, fmt.Errorf("write marker at broker %d: %w", leader, err))
		return
	}
	answers := markerErrors(resp.(*kmsg.WriteTxnMarkersResponse))
	for _, j := range jobs {
		code, ok := answers[j.part()]
		if !ok {
			code = kerr.UnknownServerError.Code
		}
		j.err = markerError(code)
		switch {
		case j.err == nil:
			j.written = true
		case errors.Is(j.err, kerr.ClusterAuthorizationFailed):
			j.refused = j.err
		}
	}
}

// marker is what the partitions of one marker entry share.
type marker struct {
	pid         int64
	epoch       int16
	coordinator int32
}

// markerRequest builds one request with an entry per producer id, epoch and coordinator epoch.
func markerRequest(jobs []*job) *kmsg.WriteTxnMarkersRequest {
	var order []marker
	parts := make(map[marker][]partition)
	for _, j := range jobs {
		m := marker{j.pid, j.epoch, j.coordinator}
		if _, ok := parts[m]; !ok {
			order = append(order, m)
		}
		parts[m] = append(parts[m], j.part())
	}
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, m := range order {
		entry := kmsg.NewWriteTxnMarkersRequestMarker()
		entry.ProducerID, entry.ProducerEpoch, entry.CoordinatorEpoch = m.pid, m.epoch, m.coordinator
		for topic, ps := range byTopic(parts[m]) {
			t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			t.Topic, t.Partitions = topic, ps
			entry.Topics = append(entry.Topics, t)
		}
		req.Markers = append(req.Markers, entry)
	}
	return req
}

// markerErrors returns each partition's error code.
func markerErrors(resp *kmsg.WriteTxnMarkersResponse) map[partition]int16 {
	codes := make(map[partition]int16)
	for _, m := range resp.Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				codes[partition{t.Topic, p.Partition}] = p.ErrorCode
			}
		}
	}
	return codes
}

// markerError says what a leader's answer to a direct marker means; nil: it stands in the log.
func markerError(code int16) error {
	err := kerr.ErrorForCode(code)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return denied(err, "Alter", "--cluster")
	case errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.ProducerFenced):
		return fmt.Errorf("%w: %w", ErrSuperseded, err)
	}
	return fmt.Errorf("write marker: %w", err)
}
