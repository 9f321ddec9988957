package term

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// partition is a partition by name, for requests that know no topic ids.
type partition struct {
	topic string
	index int32
}

// byTopic groups partitions by topic, in the order in which topics appear first.
func byTopic(parts []partition) iter.Seq2[string, []int32] {
	var names []string
	indexes := make(map[string][]int32)
	for _, p := range parts {
		if _, ok := indexes[p.topic]; !ok {
			names = append(names, p.topic)
		}
		indexes[p.topic] = append(indexes[p.topic], p.index)
	}
	return func(yield func(string, []int32) bool) {
		for _, name := range names {
			if !yield(name, indexes[name]) {
				return
			}
		}
	}
}

// job is one partition on its way through a Seal.
type job struct {
	Target
	pid         int64 // what the marker carries
	epoch       int16
	coordinator int32 // the coordinator epoch for a direct marker
	leader      int32
	isr         int
	replicas    int
	search      int64 // where reading back begins
	way         Way
	written     bool  // the marker is said to stand, or may: worth reading back
	refused     error // why the leader allows no direct marker
	marker      int64
	markedAt    int32 // leader epoch of the marker's batch
	silent      error // why the leader did not tell the log's end
	was         *kafka.Producer
	err         error
}

// part is the job's partition by name.
func (j *job) part() partition { return partition{j.Topic, j.Partition} }

// makeJobs works out which producer id and epoch each marker carries.
func makeJobs(t model.Term, targets []Target) []*job {
	jobs := make([]*job, len(targets))
	for i, target := range targets {
		jobs[i] = &job{Target: target, pid: t.PID, epoch: t.Epoch, leader: -1, marker: -1, markedAt: -1, way: WayNone}
		if target.Ends.N > 0 && target.Ends.PID != t.PID {
			jobs[i].pid, jobs[i].epoch = target.Ends.PID, lastEpoch
		}
	}
	return jobs
}

// splitJobs separates the partitions that end a term of the present producer id from those of an older id.
func splitJobs(jobs []*job, pid int64) (own, old []*job) {
	for _, j := range jobs {
		if j.pid == pid {
			own = append(own, j)
		} else {
			old = append(old, j)
		}
	}
	return own, old
}

// markOldID says of partitions of an old producer id that were refused why no other way is open to them.
func markOldID(jobs []*job) {
	for _, j := range jobs {
		if j.refused != nil {
			j.err = fmt.Errorf("%w %d: %w", ErrOldID, j.pid, j.refused)
		}
	}
}

// retract takes back the refusal of the direct way before the other way is gone, and returns the jobs that go it.
func retract(jobs []*job) []*job {
	var rest []*job
	for _, j := range jobs {
		if j.refused != nil {
			j.err = nil
			rest = append(rest, j)
		}
	}
	return rest
}

// neither names both permissions of which one is enough.
func neither(jobs []*job) {
	for _, j := range jobs {
		if j.refused != nil && errors.Is(j.err, ErrDenied) {
			j.way, j.err = WayNone, fmt.Errorf("%w; or, to seal directly: %w", j.err, j.refused)
		}
	}
}

// outcomes turns finished jobs into the caller's map.
func outcomes(jobs []*job) map[kafka.Part]Outcome {
	out := make(map[kafka.Part]Outcome, len(jobs))
	for _, j := range jobs {
		if j.err == nil && j.marker < 0 {
			j.err = ErrNoMarker // no path leads here; a partition without a marker is never sealed
		}
		out[j.Part] = Outcome{Marker: j.marker, PID: j.pid, Epoch: j.epoch, Way: j.way, LeaderEpoch: j.markedAt, Was: j.was, Err: j.err}
	}
	return out
}

// healthy returns the jobs that nothing has stopped so far.
func healthy(jobs []*job) []*job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return j.err != nil })
}

// fail gives every job that has no error yet this one.
func fail(jobs []*job, err error) {
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
	}
}

// parts returns the partitions of jobs as internal/kafka names them.
func parts(jobs []*job) []kafka.Part {
	ps := make([]kafka.Part, len(jobs))
	for i, j := range jobs {
		ps[i] = j.Part
	}
	return ps
}

// partitions returns the partitions of jobs by name.
func partitions(jobs []*job) []partition {
	ps := make([]partition, len(jobs))
	for i, j := range jobs {
		ps[i] = j.part()
	}
	return ps
}

// topics returns the names of the jobs' topics, each once, sorted.
func topics(jobs []*job) []string {
	var names []string
	for _, j := range jobs {
		names = append(names, j.Topic)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
