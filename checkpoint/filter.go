package checkpoint

import "sync"

// Filter decides which groups of the source are kept on the target, and under which names.
type Filter interface {
	// Excludes says why a group is left out; "" is that it is not.
	Excludes(group string) string
	// Target returns the name on the target. Different groups have different ones.
	Target(group string) string
}

// chosen is a filter at work: it remembers which of the groups that were listed it left out.
type chosen struct {
	filter Filter

	mu       sync.Mutex        // guards excluded while groups are being listed
	excluded map[string]string // group → why
}

func newChosen(f Filter) *chosen { return &chosen{filter: f, excluded: make(map[string]string)} }

// want reports whether a group is kept. Several goroutines may call it.
func (c *chosen) want(group string) bool {
	why := c.filter.Excludes(group)
	if why != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.excluded[group] = why
	}
	return why == ""
}

// row is what is shown of a group that is left out.
func (c *chosen) row(group string) Row {
	return Row{Group: group, DstGroup: c.filter.Target(group), Source: -1, Translated: -1, Target: -1, State: StateExcluded, Detail: c.excluded[group]}
}
