package kafkatest

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The Java consumer goes on where its group stands, by either protocol, and commits when asked to.
func TestJavaConsumer_GoesOn(t *testing.T) {
	t.Parallel()
	c := Shared(t, Kafka4, 1)
	java := NewJavaConsumer(t)
	topic := Topic(t, c)
	Produce(t, c, topic, 0, []*kgo.Record{{Value: []byte("a")}, {Value: []byte("b b")}, {Value: nil}, {Value: []byte("é")}, {Value: []byte("e")}})
	for _, protocol := range []string{"classic", "consumer"} {
		group := TopicName(t)
		var at kadm.Offsets
		at.Add(kadm.Offset{Topic: topic, At: 1, LeaderEpoch: -1})
		if err := c.Kadm().CommitAllOffsets(t.Context(), group, at); err != nil {
			t.Fatal(err)
		}
		got := java.Consume(t, c, JavaConsumer{Group: group, Topics: []string{topic}, Protocol: protocol, Records: 3, Commit: true})
		want := []Consumed{{topic, 0, 1, "b b"}, {topic, 0, 2, ""}, {topic, 0, 3, "é"}}
		if !slices.Equal(got, want) {
			t.Errorf("%s: read %+v, want %+v", protocol, got, want)
		}
		stands, err := c.Kadm().FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := stands.Lookup(topic, 0); o.At != 4 {
			t.Errorf("%s: the group stands at %d, want 4", protocol, o.At)
		}
	}
}
