package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

func refusedDial() error {
	return fmt.Errorf("unable to dial: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
}

func cutConnection() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		action Action
		reason model.Reason
	}{
		{nil, None, model.ReasonNone},
		{kerr.NotLeaderForPartition, Refresh, model.ReasonLeaderUnavailable},
		{kerr.UnknownTopicID, Refresh, model.ReasonLeaderUnavailable},
		{kerr.FencedLeaderEpoch, Refresh, model.ReasonLeaderUnavailable},
		{kerr.KafkaStorageError, Refresh, model.ReasonLeaderUnavailable},
		{kerr.UnknownLeaderEpoch, Retry, model.ReasonLeaderUnavailable},
		{kerr.NotEnoughReplicas, Wait, model.ReasonLeaderUnavailable},
		{kerr.RequestTimedOut, Refresh, model.ReasonNetwork},
		{kerr.OffsetOutOfRange, Reopen, model.ReasonGap},
		{kerr.OutOfOrderSequenceNumber, Reopen, model.ReasonDiverged},
		{kerr.InvalidProducerEpoch, Reopen, model.ReasonSuperseded},
		{kerr.TopicAuthorizationFailed, Wait, model.ReasonNotAuthorized},
		{kerr.ClusterAuthorizationFailed, Wait, model.ReasonNotAuthorized},
		{kerr.SaslAuthenticationFailed, Wait, model.ReasonNotAuthorized},
		{kerr.MessageTooLarge, Stop, model.ReasonTooLarge},
		{kerr.InvalidTimestamp, Stop, model.ReasonTimestampRefused},
		{kerr.CorruptMessage, Stop, model.ReasonCorrupt},
		{kerr.InvalidRecord, Stop, model.ReasonRefused},
		{kerr.ThrottlingQuotaExceeded, Wait, model.ReasonThrottled},
		{kerr.FetchSessionIDNotFound, Retry, model.ReasonNetwork},
		{kerr.ConcurrentTransactions, Retry, model.ReasonLeaderUnavailable},
		{kerr.ElectionNotNeeded, Refresh, model.ReasonLeaderUnavailable}, // retriable by Kafka's word, otherwise not listed
		{kerr.InvalidConfig, Stop, model.ReasonRefused},                  // not retriable, not listed
		{fmt.Errorf("%w: %w", ErrRecreated, kerr.UnknownTopicID), Refresh, model.ReasonRecreated},
		{&RefusedError{Err: kerr.InvalidRecord}, Stop, model.ReasonRefused},
		{refusedDial(), Refresh, model.ReasonNetwork},
		{cutConnection(), Refresh, model.ReasonNetwork},
		{io.EOF, Refresh, model.ReasonNetwork},
		{io.ErrUnexpectedEOF, Refresh, model.ReasonNetwork},
		{net.ErrClosed, Refresh, model.ReasonNetwork},
		{errOmitted, Refresh, model.ReasonNetwork},
		{errors.New("unknown broker"), Refresh, model.ReasonNetwork},
		{fmt.Errorf("%w: %w", errNoAnswer, context.DeadlineExceeded), Refresh, model.ReasonNetwork},
		{context.DeadlineExceeded, Refresh, model.ReasonNetwork},
		{context.Canceled, Retry, model.ReasonNetwork},
		{kgo.ErrClientClosed, Retry, model.ReasonNetwork},
		{errPipelineEnded, Retry, model.ReasonNetwork},
		{&secretError{user: "u", err: os.ErrNotExist}, Wait, model.ReasonNotAuthorized},
		{&certError{os.ErrNotExist}, Wait, model.ReasonNotAuthorized},
	} {
		for _, err := range []error{tc.err, wrap(tc.err)} {
			if action, reason := Classify(err); action != tc.action || reason != tc.reason {
				t.Errorf("Classify(%v) = %v, %q; want %v, %q", err, action, reason, tc.action, tc.reason)
			}
		}
	}
}

// wrap does what the layers above do.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read t/0: %w", err)
}

func TestClassify_KnowsEveryCode(t *testing.T) {
	t.Parallel()
	for code := int16(-1); code < 200; code++ {
		err := kerr.ErrorForCode(code)
		if err == nil {
			continue
		}
		if action, reason := Classify(err); action == None || reason == model.ReasonNone {
			t.Errorf("Classify(%v) = %v, %q", err, action, reason)
		}
	}
}

func TestAction_String(t *testing.T) {
	t.Parallel()
	for a, want := range map[Action]string{None: "none", Retry: "retry", Refresh: "refresh", Reopen: "reopen", Wait: "wait", Stop: "stop"} {
		if a.String() != want {
			t.Errorf("%d: %q", a, a)
		}
	}
}

// answered builds the error of a produce answer.
func answered(e *kerr.Error, base int64) error {
	p := kmsg.NewProduceResponseTopicPartition()
	p.BaseOffset = base
	if e != nil {
		p.ErrorCode = e.Code
	}
	return ProduceError(&p)
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want Certainty
	}{
		{nil, OutcomeWritten},
		{answered(nil, 5), OutcomeWritten},
		{answered(kerr.DuplicateSequenceNumber, -1), OutcomeWritten},
		{answered(kerr.OutOfOrderSequenceNumber, -1), OutcomeNotWritten},
		{answered(kerr.InvalidProducerEpoch, -1), OutcomeNotWritten},
		{answered(kerr.MessageTooLarge, -1), OutcomeNotWritten},
		{answered(kerr.InvalidTimestamp, -1), OutcomeNotWritten},
		{answered(kerr.InvalidRecord, -1), OutcomeNotWritten},
		{answered(kerr.TopicAuthorizationFailed, -1), OutcomeNotWritten},
		{answered(kerr.NotEnoughReplicas, -1), OutcomeNotWritten},
		{kerr.MessageTooLarge, OutcomeNotWritten},
		// Refused at once, or after the append: the base offset tells, and without it nothing does.
		{answered(kerr.NotLeaderForPartition, -1), OutcomeNotWritten},
		{answered(kerr.NotLeaderForPartition, 17), OutcomeUnknown},
		{kerr.NotLeaderForPartition, OutcomeUnknown},
		{answered(kerr.UnknownTopicOrPartition, -1), OutcomeNotWritten},
		{answered(kerr.UnknownTopicOrPartition, 0), OutcomeUnknown},
		{answered(kerr.UnknownTopicID, -1), OutcomeNotWritten},
		{answered(kerr.KafkaStorageError, -1), OutcomeUnknown},
		{answered(kerr.NotEnoughReplicasAfterAppend, 17), OutcomeUnknown},
		{answered(kerr.RequestTimedOut, 17), OutcomeUnknown},
		{answered(kerr.RequestTimedOut, -1), OutcomeUnknown},
		{answered(kerr.UnknownServerError, -1), OutcomeUnknown},
		{cutConnection(), OutcomeUnknown},
		{io.EOF, OutcomeUnknown},
		{context.Canceled, OutcomeUnknown},
		{kgo.ErrClientClosed, OutcomeUnknown},
		{refusedDial(), OutcomeNotWritten},
		{errPipelineEnded, OutcomeNotWritten},
	} {
		for _, err := range []error{tc.err, wrap(tc.err)} {
			if got := Outcome(err); got != tc.want {
				t.Errorf("Outcome(%v) = %v, want %v", err, got, tc.want)
			}
		}
	}
	if OutcomeWritten.String() != "written" || OutcomeNotWritten.String() != "not written" || OutcomeUnknown.String() != "unknown" {
		t.Error("names of outcomes")
	}
}

func TestProduceError_SaysWhatTheBrokerSaid(t *testing.T) {
	t.Parallel()
	p := kmsg.NewProduceResponseTopicPartition()
	p.ErrorCode, p.ErrorMessage = kerr.InvalidRecord.Code, kmsg.StringPtr("one or more records were rejected")
	if got := ProduceError(&p).Error(); got != kerr.InvalidRecord.Error()+": one or more records were rejected" {
		t.Error(got)
	}
	p.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{
		{RelativeOffset: 3}, {RelativeOffset: 4, ErrorMessage: kmsg.StringPtr("no key")}, {RelativeOffset: 5, ErrorMessage: kmsg.StringPtr("no key")},
	}
	if got := ProduceError(&p).Error(); got != kerr.InvalidRecord.Error()+": record 4: no key" {
		t.Error(got)
	}
}
