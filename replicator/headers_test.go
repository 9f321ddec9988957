package replicator

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// A quota makes the client wait for longer than a question may take. Reading goes on where it was.
func TestHeaders_ThrottledReadsGetThrough(t *testing.T) {
	t.Parallel()
	fake := kafkatest.NewFake(t, kfake.NumBrokers(1))
	topic := kafkatest.Topic(t, fake)
	kafkatest.Produce(t, fake, topic, 0, kafkatest.Records(3, 1))
	c, err := kafka.Dial(config.Cluster{Name: "slow", Brokers: fake.Brokers()}, kafka.Options{Timeout: 400 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p := kafka.Part{Topic: topic}
	if _, err := c.ReadAt(t.Context(), p, 0, headersFetch, false); err != nil {
		t.Fatal(err)
	}
	fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.ThrottleMillis = 1500
		return resp, nil, true // once
	})
	n := 0
	for h, err := range Headers(t.Context(), c, p, 0, 3) {
		if err != nil {
			t.Fatal(err)
		}
		n += int(h.Count)
	}
	if n != 3 {
		t.Fatalf("read %d records, want 3", n)
	}
}
