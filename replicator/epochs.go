package replicator

import (
	"context"
	"slices"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// fork is what the source's leader says about the branch that was copied: whether its log still has it, and below which
// source offset both are the same.
type fork struct {
	common int64 // records below it are on both; top when the branches do not part
	split  bool  // the source's log took another branch below top, or ends there
	leader int32 // the leader's present epoch, -1 when it is not known
	last   int32 // the newest leader epoch of what was copied, -1 when none is known
	end    int64 // where the leader's log ends the last epoch that was asked for
}

// rewound reports whether the source as a whole is older than what was copied of it: in a living cluster the leader epoch
// grows with each election, and the end of a past epoch never moves back. Only a copy that was restored forgets both.
func (f fork) rewound() bool { return f.split && f.leader >= 0 && f.last >= 0 && f.leader <= f.last }

// search finds the common offset of two logs as followers of Kafka do (KIP-101, KIP-279): history is what was copied, the
// other side answers for its log. It holds no state of brokers and can be driven by a table.
type search struct {
	history []model.EpochStart
	top     int64 // source offset behind what was copied
	ask     int32 // the epoch to ask for next
	lowest  bool  // the leader knows none of the history's epochs; its own present one was asked for
}

func newSearch(history []model.EpochStart, top int64) *search {
	return &search{history: history, top: top, ask: history[len(history)-1].Epoch}
}

// take hands in the answer to ask: the leader's largest epoch up to it, and that one's end, both -1 when the leader's log
// knows nothing that new; leader is its present epoch. It returns the common offset once both sides have met, and else
// wants the next answer.
func (s *search) take(epoch int32, end int64, leader int32) (common int64, met bool) {
	if epoch < 0 || end < 0 {
		return s.takeUnknown(leader)
	}
	i := s.upTo(epoch)
	if i < 0 { // the history does not reach back so far: what it has cannot be on that side
		return min(s.history[0].Src, end, s.top), true
	}
	if own := s.history[i].Epoch; own < epoch {
		s.ask = own
		return 0, false
	}
	return min(end, s.ends(i)), true
}

// takeUnknown goes on behind an answer that the leader's log is older than what was asked for.
func (s *search) takeUnknown(leader int32) (int64, bool) {
	i := s.upTo(s.ask - 1)
	switch {
	case i >= 0:
		s.ask = s.history[i].Epoch
	case s.lowest || leader < 0 || leader >= s.ask:
		return min(s.history[0].Src, s.top), true
	default:
		s.ask, s.lowest = leader, true
	}
	return 0, false
}

// upTo returns the index of the newest own epoch that is not above the given one, -1 when there is none.
func (s *search) upTo(epoch int32) int {
	i := len(s.history) - 1
	for i >= 0 && s.history[i].Epoch > epoch {
		i--
	}
	return i
}

// ends returns where an own epoch ends.
func (s *search) ends(i int) int64 {
	if i+1 < len(s.history) {
		return min(s.history[i+1].Src, s.top)
	}
	return s.top
}

// findFork asks the source's leader until it is known where its log and what was copied part. history must not be empty.
func (m *Manager) findFork(ctx context.Context, p kafka.Part, history []model.EpochStart, top int64) (fork, error) {
	s := newSearch(history, top)
	f := fork{common: top, leader: -1, last: s.ask}
	for range len(history) + 2 { // each question is for an older epoch
		a := m.src.EpochEnds(ctx, map[kafka.Part]int32{p: s.ask})[p]
		if a.Err != nil {
			return f, a.Err
		}
		if f.leader >= 0 && a.Leader != f.leader {
			return f, errElected
		}
		f.leader, f.end = a.Leader, a.End
		common, met := s.take(a.Epoch, a.End, a.Leader)
		if met {
			f.common, f.split = common, common < top
			break
		}
	}
	return f, nil
}

// sourceLog is what a source's leader tells of its own log.
type sourceLog struct {
	known  int32              // the newest epoch that was known before, -1 when none was
	leader int32              // its present epoch, -1 when it knows none
	end    int64              // the log's end
	starts []model.EpochStart // where the epochs begin that are newer than what was asked for, oldest first
}

// mostEpochs is about how many epochs a leader is asked at most.
const mostEpochs = 1000

// leaderEpoch asks for the source leader's present epoch.
func (m *Manager) leaderEpoch(ctx context.Context, p kafka.Part) (int32, error) {
	a := m.src.EpochEnds(ctx, map[kafka.Part]int32{p: 0})[p]
	return a.Leader, a.Err
}

// epochStarts asks a source's leader where the epochs of its log begin that are newer than a known one. It knows them even
// where compaction removed all records. With a leader that knows no epochs there are none.
func (m *Manager) epochStarts(ctx context.Context, p kafka.Part, known int32) (log sourceLog, err error) {
	log.known = known
	if log.leader, err = m.leaderEpoch(ctx, p); err != nil {
		return log, err
	}
	at := kafka.EpochEnd{Epoch: -1}
	if log.leader >= 0 {
		at = m.src.EpochEnds(ctx, map[kafka.Part]int32{p: log.leader})[p]
	}
	for at.Err == nil && at.Epoch > known && len(log.starts) < mostEpochs {
		s := model.EpochStart{Epoch: at.Epoch}
		if at.Epoch > 0 {
			at = m.src.EpochEnds(ctx, map[kafka.Part]int32{p: s.Epoch - 1})[p]
			s.Src = max(0, at.End)
		}
		n := len(log.starts)
		if n > 0 && s.Src >= log.starts[n-1].Src {
			break // that one is not in the log: asked for less than its oldest, a leader tells where that begins
		}
		log.starts = append(log.starts, s)
		if s.Epoch == 0 || at.Leader != log.leader {
			break
		}
	}
	slices.Reverse(log.starts)
	end := m.src.ListOffsets(ctx, []kafka.Part{p}, kafka.AtEnd, false)[p]
	log.end = end.Offset
	return log, firstErr(at.Err, end.Err)
}

// historyOf returns the leader epochs of what was copied below a cursor. Where only the cursor's own is known, all that is
// certain is that its last record has it.
func historyOf(c model.Cursor, epochs []model.EpochStart) []model.EpochStart {
	if len(epochs) == 0 && c.SrcEpoch >= 0 && c.Src > 0 {
		return []model.EpochStart{{Epoch: c.SrcEpoch, Src: c.Src - 1}}
	}
	return epochs
}

// newestEpoch is the newest leader epoch of a history, -1 when none is known.
func newestEpoch(history []model.EpochStart) int32 {
	if n := len(history); n > 0 {
		return history[n-1].Epoch
	}
	return -1
}

// copied is what a lane knows of its own copying.
type copied struct {
	opening uint64
	term    uint64
	cursor  model.Cursor
	epochs  []model.EpochStart
}

func (l *lane) copiedSoFar() copied {
	l.mu.Lock()
	defer l.mu.Unlock()
	return copied{l.opening, l.term.N, l.cursor, l.epochsLocked()}
}

// epochsLocked returns the leader epochs of what was copied below the cursor: preparation runs ahead of it.
func (l *lane) epochsLocked() []model.EpochStart {
	return model.EpochsBelow(l.at.epochs, l.cursor.Src)
}

// inherit gives a lane what is known of the leader epochs below the origin of its next opening.
func (l *lane) inherit(epochs []model.EpochStart, origin model.Cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inherited = historyOf(origin, epochs)
}
