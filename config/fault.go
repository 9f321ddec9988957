package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Place is where a value was given: a line of a file, or the name of an environment variable or of a flag.
type Place struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // from 1; 0 means the file as a whole
	Name string `json:"name,omitempty"` // LOCKSTEP_… or --flag
}

// String returns "file:line", the name of the variable or of the flag.
func (p Place) String() string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Line == 0:
		return p.File
	default:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
}

// compare orders places as an operator goes through them: the file from top to bottom, then variables and flags.
func (p Place) compare(o Place) int {
	return cmp.Or(cmp.Compare(p.Name, o.Name), cmp.Compare(p.File, o.File), cmp.Compare(p.Line, o.Line))
}

// Fault is one thing that is wrong with the configuration.
type Fault struct {
	Place   Place  `json:"place"`
	Key     string `json:"key,omitempty"`     // links[0].start; "" when the fault is not about one key
	What    string `json:"what"`              // what is wrong
	Allowed string `json:"allowed,omitempty"` // what would be right
	Nearest string `json:"nearest,omitempty"` // what was probably meant
}

// String returns "place: key: what is wrong; allowed: …; did you mean …?", leaving out what is empty.
func (f Fault) String() string {
	var b strings.Builder
	for _, part := range []string{f.Place.String(), f.Key} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(f.What)
	if f.Allowed != "" {
		b.WriteString("; allowed: " + f.Allowed)
	}
	if f.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %q?", f.Nearest)
	}
	return b.String()
}

// Errors is every fault of a configuration, in the order of their places. It is never empty.
type Errors struct {
	Faults []Fault `json:"faults"`
}

// Error returns one line for each fault.
func (e *Errors) Error() string {
	lines := make([]string, 0, len(e.Faults))
	for _, f := range e.Faults {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

func newErrors(faults []Fault) *Errors {
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Place.compare(b.Place) })
	return &Errors{Faults: faults}
}
