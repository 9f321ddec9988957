package mm2

import (
	"testing"

	"lockstep/checkpoint"
)

func at(up, down int64, opening uint64) written {
	return written{Checkpoint{Group: "g", Key: orders3, Upstream: up, Downstream: down}, opening}
}

func TestDue(t *testing.T) {
	t.Parallel()
	stands := func(w written) *written { return &w }
	for _, c := range []struct {
		name string
		last *written
		now  written
		end  int64
		want bool
	}{
		{"the first", nil, at(0, 0, 1), 10, true},
		{"nothing new", stands(at(5, 5, 1)), at(5, 5, 1), 10, false},
		{"the translation grew", stands(at(5, 5, 1)), at(6, 6, 1), 10, true},
		{"it grew for the same position: the group is ahead of the copy", stands(at(9, 5, 1)), at(9, 6, 1), 10, true},
		{"the group moved in a hole", stands(at(5, 5, 1)), at(6, 5, 1), 10, false},
		{"the group went back", stands(at(5, 5, 1)), at(4, 4, 1), 10, true},
		{"the group went back in a hole", stands(at(5, 5, 1)), at(4, 5, 1), 10, true},
		{"a restart with a map that says less", stands(at(5, 5, 1)), at(5, 4, 1), 10, false},
		{"a map that changed: the target was made anew", stands(at(5, 5, 1)), at(5, 2, 2), 10, true},
		{"MirrorMaker was ahead of us", stands(at(5, 5, 0)), at(6, 4, 2), 10, false},
		{"MirrorMaker was ahead of us, the end is not known", stands(at(5, 5, 0)), at(6, 4, 2), -1, false},
		{"MirrorMaker wrote of another log", stands(at(5, 50, 0)), at(6, 4, 2), 10, true},
	} {
		if got := due(c.last, c.now, c.end); got != c.want {
			t.Errorf("%s: due = %t, want %t", c.name, got, c.want)
		}
	}
}

// Where a row does not tell where the group of the source stands, what was written before stays.
func TestCheckpointOf_OnlyWhatHolds(t *testing.T) {
	t.Parallel()
	want := map[checkpoint.State]bool{
		checkpoint.StateSynced: true, checkpoint.StatePending: true, checkpoint.StateSyncOff: true, checkpoint.StateTypeConflict: true,
		checkpoint.StateActiveOnTarget: true, checkpoint.StateMovedOnTarget: true, checkpoint.StateExistsOnTarget: true,
		checkpoint.StateTargetUnreadable: true,
	}
	lanes := map[checkpoint.Key]checkpoint.Lane{orders3: {Opening: 7, DstEnd: 99}}
	row := checkpoint.Row{Group: "g", DstGroup: "dr.g", Key: orders3, DstTopic: "A.orders", Source: 5, Translated: 4, Target: 1, Metadata: "m"}
	for _, s := range checkpoint.States() {
		row.State = s
		c, end, ok := checkpointOf(row, lanes)
		if ok != want[s] {
			t.Errorf("%s: written %t, want %t", s, ok, want[s])
		}
		is := written{Checkpoint{"dr.g", checkpoint.Key{Topic: "A.orders", Partition: 3}, 5, 4, "m"}, 7}
		if ok && (c != is || end != 99) {
			t.Errorf("%s: got %+v, end %d; want %+v, end 99", s, c, end, is)
		}
	}
	row.State = checkpoint.StateSynced
	for name, spoil := range map[string]func(*checkpoint.Row, map[checkpoint.Key]checkpoint.Lane){
		"no position on the source":   func(r *checkpoint.Row, _ map[checkpoint.Key]checkpoint.Lane) { r.Source = -1 },
		"no translation":              func(r *checkpoint.Row, _ map[checkpoint.Key]checkpoint.Lane) { r.Translated = -1 },
		"not copied":                  func(r *checkpoint.Row, _ map[checkpoint.Key]checkpoint.Lane) { r.DstTopic = "" },
		"a row about the whole group": func(r *checkpoint.Row, _ map[checkpoint.Key]checkpoint.Lane) { r.Key = checkpoint.Key{} },
		"a held lane": func(r *checkpoint.Row, lanes map[checkpoint.Key]checkpoint.Lane) {
			lanes[orders3] = checkpoint.Lane{Held: "recreated"}
		},
	} {
		r, ls := row, map[checkpoint.Key]checkpoint.Lane{orders3: lanes[orders3]}
		spoil(&r, ls)
		if c, _, ok := checkpointOf(r, ls); ok {
			t.Errorf("%s: %+v was written", name, c)
		}
	}
}
