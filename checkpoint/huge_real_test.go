package checkpoint

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// hugeGroup has so much metadata that no broker stores it in one batch: of a group's members, each commits only its own.
func hugeGroup(topic string, parts int32) map[Key]Committed {
	out := map[Key]Committed{}
	for p := range parts {
		out[Key{topic, p}] = Committed{Offset: int64(p), LeaderEpoch: -1, Metadata: strings.Repeat("m", 4000)}
	}
	return out
}

func TestCommit_HugeGroup(t *testing.T) {
	kafkatest.Long(t)
	const parts = 300
	k := kafkatest.StartAll(t, kafkatest.Options{})[0]
	c := dial(t, k.Brokers(), kafka.Options{})
	topic := kafkatest.Topic(t, k, kafkatest.TopicOptions{Partitions: parts})
	mustCommit(t, c, "huge", hugeGroup(topic, parts))
	if g := observed(t, c, "huge").Groups["huge"]; len(g.Offsets) != parts || g.Offsets[Key{topic, 299}] != hugeGroup(topic, parts)[Key{topic, 299}] {
		t.Errorf("%d positions, the last at %d", len(g.Offsets), g.Offsets[Key{topic, 299}].Offset)
	}
}

// The parts of a commit have all positions, each once.
func TestCommit_InParts(t *testing.T) {
	t.Parallel()
	fake, c, groups := fakeGroups(t, 1)
	sent, largest := map[Key]int{}, 0
	answerAlways(fake, kmsg.OffsetCommit, func(r kmsg.Request) (kmsg.Response, error) {
		req := r.(*kmsg.OffsetCommitRequest)
		size := 0
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				sent[Key{t.Topic, p.Partition}]++
				size += len(*p.Metadata)
			}
		}
		largest = max(largest, size)
		return commitAnswer(req, 0), nil
	})
	refused, err := Commit(testContext(t), c, groups[0], hugeGroup(topic, 300))
	if err != nil || len(refused) > 0 {
		t.Fatalf("refused %v, error %v", refused, err)
	}
	for k, n := range sent {
		if n != 1 {
			t.Errorf("%s was committed %d times", k, n)
		}
	}
	if len(sent) != 300 || largest > 500_000 {
		t.Errorf("%d positions, %d bytes at once", len(sent), largest)
	}
}
