package checkpoint

import (
	"maps"
	"slices"
)

// Wanting reports whether a group in this state needs an operator, or shows that something is wrong.
func (s State) Wanting() bool {
	switch s {
	case StateTypeConflict, StateMovedOnTarget, StateExistsOnTarget, StateSuspectSource, StateLaneHeld, StateTargetUnreadable,
		StateSourceUnreadable, StateNotAuthorized:
		return true
	default:
		return false
	}
}

// changes are the groups that a pass brought into another state, as far as that is news to an operator.
type changes struct {
	into map[State][]string // by the state that wants somebody
	over []string           // did want somebody
}

// note takes a group's state before (the zero State: not known) and now.
func (c *changes) note(group string, was, is State) {
	switch {
	case is == was:
	case is.Wanting():
		if c.into == nil {
			c.into = make(map[State][]string)
		}
		c.into[is] = append(c.into[is], group)
	case was.Wanting():
		c.over = append(c.over, group)
	}
}

// namedGroups is how many groups a line of the log names.
const namedGroups = 5

func some(groups []string) []string {
	slices.Sort(groups)
	return groups[:min(len(groups), namedGroups)]
}

// tellChanges logs one line for each state that groups came into, however many there are.
func (s *Syncer) tellChanges(c changes) {
	for _, state := range slices.SortedFunc(maps.Keys(c.into), State.Compare) {
		groups := c.into[state]
		s.log.Warn("groups are not in step", "state", string(state), "count", len(groups), "groups", some(groups),
			"remedy", "lockstep groups list --state "+string(state)+" tells more")
	}
	if len(c.over) > 0 {
		s.log.Info("groups are over what kept them back", "count", len(c.over), "groups", some(c.over))
	}
}
