package checkpoint

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// State is where one position of a group stands between source and target. A group's state is the worst of its
// positions'.
type State string

// The states, from good to bad.
const (
	// StateSynced: the target has the translation of the source's position, or of the cursor where the group is ahead.
	StateSynced State = "synced"
	// StatePending: it will be written by the present pass, or was refused for a passing reason and comes again.
	StatePending State = "pending"
	// StateUnstable: an open transaction holds the source's position; the target keeps the one before.
	StateUnstable State = "unstable"
	// StateSyncOff: groups.sync is false; the translation is only shown.
	StateSyncOff State = "sync_off"
	// StateExcluded: groups.exclude, or a default of it, leaves the group out.
	StateExcluded State = "excluded"
	// StateNoMirroredTopics: the group has no position in a topic that the link copies.
	StateNoMirroredTopics State = "no_mirrored_topics"
	// StateNotYetCopied: the topic is to be copied and its lane is not open yet.
	StateNotYetCopied State = "not_yet_copied"
	// StateUnsupportedType: a share or streams group, or another protocol's; it has no offsets that could be translated.
	StateUnsupportedType State = "unsupported_type"
	// StateTypeConflict: on the target a group of another kind has this name.
	StateTypeConflict State = "type_conflict"
	// StateActiveOnTarget: it has members on the target, which is where it lives now.
	StateActiveOnTarget State = "active_on_target"
	// StateMovedOnTarget: somebody else moved it on the target.
	StateMovedOnTarget State = "moved_on_target"
	// StateExistsOnTarget: the target had a position before lockstep ever wrote one.
	StateExistsOnTarget State = "exists_on_target"
	// StateSuspectSource: the source's position jumped back far, points beyond its log, or vanished.
	StateSuspectSource State = "suspect_source"
	// StateLaneHeld: the lane waits for an operator in a way that makes the source's offsets mean something else.
	StateLaneHeld State = "lane_held"
	// StateTargetUnreadable and StateSourceUnreadable: that side's positions could not be read; nothing is concluded.
	StateTargetUnreadable State = "target_unreadable"
	StateSourceUnreadable State = "source_unreadable"
	// StateNotAuthorized: a permission is missing; the detail names it.
	StateNotAuthorized State = "not_authorized"
)

// States returns all states, from good to bad.
func States() []State {
	return []State{StateSynced, StatePending, StateUnstable, StateSyncOff, StateExcluded, StateNoMirroredTopics, StateNotYetCopied,
		StateUnsupportedType, StateTypeConflict, StateActiveOnTarget, StateMovedOnTarget, StateExistsOnTarget, StateSuspectSource,
		StateLaneHeld, StateTargetUnreadable, StateSourceUnreadable, StateNotAuthorized}
}

// Compare orders states from good to bad.
func (s State) Compare(o State) int { return cmp.Compare(rank(s), rank(o)) }

func rank(s State) int {
	for i, t := range States() {
		if s == t {
			return i
		}
	}
	return len(States())
}

// Remedy tells the operator what brings a group of this link out of a state.
func Remedy(s State, link, group string) string {
	accept := fmt.Sprintf("lockstep groups accept %s --link %s", shellWord(group), shellWord(link))
	switch s {
	case StateSynced:
		return ""
	case StatePending, StateUnstable, StateNotYetCopied, StateTargetUnreadable, StateSourceUnreadable:
		return "by itself"
	case StateSyncOff:
		return "set groups.sync to true to have positions written"
	case StateExcluded:
		return "name the group in groups.include, or take it out of groups.exclude"
	case StateNoMirroredTopics:
		return "none needed; topics.include decides which topics are copied"
	case StateUnsupportedType:
		return "none: such groups keep no offsets that could be translated; start them on the target with a policy of their own"
	case StateTypeConflict:
		return "delete or rename the group on the target, or give it another name there with groups.rename"
	case StateActiveOnTarget:
		return "none while it works on the target; when its members there are gone it follows again, unless they moved it"
	case StateMovedOnTarget, StateExistsOnTarget:
		return accept + " puts it where it stands on the source"
	case StateSuspectSource:
		return "look whether that is meant on the source; " + accept + " follows it"
	case StateLaneHeld:
		return "lockstep lanes list --link " + shellWord(link) + " tells why and what helps"
	case StateNotAuthorized:
		return "give the missing permission (the detail names it); it goes on by itself"
	}
	return ""
}

// shellWord quotes a word for a shell where that is needed: group names may hold any character, also ones that a terminal
// would act upon.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:/@+=", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" && s[0] != '-' {
		return s
	}
	if q := strconv.Quote(s); strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return "$'" + strings.ReplaceAll(q[1:len(q)-1], "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
