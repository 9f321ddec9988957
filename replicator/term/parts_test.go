package term

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

func TestMarkerRequest_OneEntryPerIDEpochAndCoordinator(t *testing.T) {
	t.Parallel()
	jobs := makeJobs(model.Term{N: 2, PID: 1, Epoch: 3}, targets("a", 3))
	jobs[1].coordinator = 4
	jobs[2].Topic = "b"
	old := makeJobs(model.Term{N: 2, PID: 9, Epoch: lastEpoch}, targets("c", 1))
	type entry struct {
		PID         int64
		Epoch       int16
		Coordinator int32
		Parts       map[string][]int32
	}
	var got []entry
	for _, m := range markerRequest(append(jobs, old...)).Markers {
		if m.Committed {
			t.Error("the marker commits")
		}
		e := entry{m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch, map[string][]int32{}}
		for _, mt := range m.Topics {
			e.Parts[mt.Topic] = mt.Partitions
		}
		got = append(got, e)
	}
	want := []entry{
		{1, 3, 0, map[string][]int32{"a": {0}, "b": {2}}},
		{1, 3, 4, map[string][]int32{"a": {1}}},
		{9, lastEpoch, 0, map[string][]int32{"c": {0}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMarkerError_WhatAnswersMean(t *testing.T) {
	t.Parallel()
	for code, want := range map[int16]error{
		kerr.ClusterAuthorizationFailed.Code: ErrDenied,
		kerr.InvalidProducerEpoch.Code:       ErrSuperseded,
		kerr.NotEnoughReplicas.Code:          kerr.NotEnoughReplicas,
	} {
		if err := markerError(code); !errors.Is(err, want) {
			t.Errorf("code %d: %v, want %v", code, err, want)
		}
	}
	if err := markerError(0); err != nil {
		t.Errorf("code 0: %v", err)
	}
}

func TestAgain_OnlyWhatMayPass(t *testing.T) {
	t.Parallel()
	for _, err := range []error{kerr.NotLeaderForPartition, kerr.TransactionCoordinatorFenced, ErrNoLeader, errors.New("EOF")} {
		if !again(err) {
			t.Errorf("%v is given up", err)
		}
	}
	for _, err := range []error{nil, ErrSuperseded, ErrUnknownPartition, kerr.NotEnoughReplicas, denied(kerr.ClusterAuthorizationFailed, "Alter", "--cluster")} {
		if again(err) {
			t.Errorf("%v is sent again", err)
		}
	}
}

func TestRefuse_LeavesOutWhatTheCoordinatorNames(t *testing.T) {
	t.Parallel()
	jobs := makeJobs(model.Term{N: 1}, targets("t", 4))
	rest, err := refuse("id", jobs, map[partition]error{
		{"t", 0}: kerr.OperationNotAttempted,
		{"t", 1}: kerr.TopicAuthorizationFailed,
		{"t", 2}: kerr.UnknownTopicOrPartition,
		{"t", 3}: kerr.OperationNotAttempted,
	})
	if err != nil || len(rest) != 2 || rest[0] != jobs[0] || rest[1] != jobs[3] {
		t.Fatalf("%d left, %v", len(rest), err)
	}
	if !errors.Is(jobs[1].err, ErrDenied) || !errors.Is(jobs[2].err, ErrUnknownPartition) {
		t.Errorf("errors %v, %v", jobs[1].err, jobs[2].err)
	}
}

func TestRefuse_WhatConcernsTheWhole(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer, want error
	}{
		"newer term":             {kerr.ProducerFenced, ErrSuperseded},
		"transactional id":       {kerr.TransactionalIDAuthorizationFailed, ErrDenied},
		"none attempted, no why": {kerr.OperationNotAttempted, kerr.OperationNotAttempted},
	} {
		jobs := makeJobs(model.Term{N: 1}, targets("t", 2))
		_, err := refuse("id", jobs, map[partition]error{{"t", 0}: tc.answer, {"t", 1}: tc.answer})
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddErrors_RepeatsWhatConcernsTheTransaction(t *testing.T) {
	t.Parallel()
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	rt := kmsg.NewAddPartitionsToTxnResponseTopic()
	rp := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
	rp.ErrorCode = kerr.ConcurrentTransactions.Code
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	if _, err := addErrors(resp); !errors.Is(err, kerr.ConcurrentTransactions) {
		t.Errorf("error %v", err)
	}
}
