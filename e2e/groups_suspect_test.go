package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// Somebody resets a group on the source to nonsense. The target keeps the good position, through restarts too, until the
// operator accepts the new one; the history has both.
func TestGroups_SuspectSource(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(200, 1))
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic}, "max_rewind: 10", "rewind_hold: 1h")).start()
	mistakes := map[string]int64{prefix + "to zero": 0, prefix + "far back": 100, prefix + "in future": 5000}
	for name, mistake := range mistakes {
		stand(t, src, name, at(topic, 0, 150))
		s.awaitStands(dst, name, at(topic, 0, 150))
		stand(t, src, name, at(topic, 0, mistake))
	}
	small := prefix + "a little back"
	stand(t, src, small, at(topic, 0, 150))
	s.awaitStands(dst, small, at(topic, 0, 150))
	stand(t, src, small, at(topic, 0, 145)) // that is no mistake
	s.awaitStands(dst, small, at(topic, 0, 145))
	gone := prefix + "deleted"
	stand(t, src, gone, at(topic, 0, 150))
	s.awaitStands(dst, gone, at(topic, 0, 150))
	deleteGroup(t, src, gone)

	for name := range mistakes {
		s.groupIs(name, "suspect_source")
	}
	s.groupIs(gone, "suspect_source")
	s.kill()
	s.start()
	s.pass(src, dst, prefix, topic)
	for name := range mistakes {
		s.groupIs(name, "suspect_source")
		stillStands(t, dst, name, at(topic, 0, 150))
	}
	stillStands(t, dst, gone, at(topic, 0, 150))
	for name, mistake := range mistakes {
		follows := min(mistake, kafkatest.End(t, dst, topic, 0)) // far in future is nothing: the end of what was copied
		s.command("groups", "accept", name, "--link", s.link(), "--yes").want(t, 0)
		s.awaitStands(dst, name, at(topic, 0, follows))
		s.historyHas(name, topic, 150, follows)
	}
	s.stop()
}

func deleteGroup(t testing.TB, c kafkatest.Target, group string) {
	t.Helper()
	if _, err := kadm.NewClient(c.Admin()).DeleteGroup(t.Context(), group); err != nil {
		t.Fatalf("delete group %s: %v", group, err)
	}
}

// historyHas waits until the history of a group has been at each of the target offsets.
func (s *service) historyHas(group, topic string, dst ...int64) {
	s.t.Helper()
	kafkatest.Eventually(s.t, 30*time.Second, func() (bool, string) {
		r := s.command("groups", "history", group, "--link", s.link(), "-o", "json").want(s.t, 0)
		var got api.GroupHistory
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
			s.t.Fatalf("read %q: %v", r.stdout, err)
		}
		been := make(map[int64]bool)
		for _, m := range got.History {
			for _, p := range m.Positions {
				if p.Topic == topic && p.TargetOffset != nil {
					been[*p.TargetOffset] = true
				}
			}
		}
		for _, want := range dst {
			if !been[want] {
				return false, r.stdout
			}
		}
		return true, ""
	})
}

// The process dies after it noted what it is about to commit and before it does: its own writing must not look like a
// stranger's afterwards, nor the position stay behind.
func TestGroups_CrashBetweenBaseAndCommit(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(200, 1))
	group := prefix + "billing"
	stand(t, src, group, at(topic, 0, 10))
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	s.awaitStands(dst, group, at(topic, 0, 10))
	for round, point := range []string{"after_bases:1", "after_commit:1", "after_bases:1"} {
		s.kill()
		next := int64(20 + 10*round)
		stand(t, src, group, at(topic, 0, next))
		s.launch("LOCKSTEP_FAILPOINT=" + point)
		s.diesByItself(t, point)
		stand(t, src, group, at(topic, 0, next+5)) // it moves on meanwhile
		s.start()
		s.awaitStands(dst, group, at(topic, 0, next+5))
		s.groupIs(group, "synced")
	}
	s.stop()
}
