package checkpoint

import "fmt"

// target returns a group of the target, and why nothing may be written into it whatever its positions are: it has
// members, is of another kind, or is not known. A group that is not there is as good as an empty one.
func (p *planner) target(dst string) (g Group, blocked State, detail string) {
	g, there := p.Target.Groups[dst]
	switch err := p.Target.Failed[dst]; {
	case err != nil:
		return Group{}, StateTargetUnreadable, err.Error()
	case !there && p.Target.Partial != nil:
		return Group{}, StateTargetUnreadable, p.Target.Partial.Error()
	case !there:
		return Group{}, "", ""
	}
	switch {
	case !g.Supported() || !g.plain():
		return g, StateTypeConflict, fmt.Sprintf("on the target %s is a group of type %s and protocol %q", dst, g.Type, g.Protocol)
	case g.State == "":
		return g, StateActiveOnTarget, "whether it has members on the target is not known"
	case !g.Idle():
		return g, StateActiveOnTarget, "on the target it is " + g.State
	}
	return g, "", ""
}

// theirs returns the target's position for a key of the target, -1 when there is none. An error says that it is not
// known at present.
func (g Group) theirs(k Key) (int64, error) {
	if err := g.Unstable[k]; err != nil {
		return -1, err
	}
	if c, ok := g.Offsets[k]; ok {
		return c.Offset, nil
	}
	return -1, nil
}
