package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// groupVariable stands in groups.rename for the source group's name.
const groupVariable = "{group}"

// ownGroups begins the names that are lockstep's own.
const ownGroups = "lockstep."

// GroupFilter decides which consumer groups a link keeps on the target, and under which names.
type GroupFilter struct {
	include, exclude []*regexp.Regexp
	excludes         []string // the texts that exclude was made from
	rename           string
}

// Filter compiles the patterns. The error names one that is not a regular expression; a configuration from Load has none.
func (g Groups) Filter() (*GroupFilter, error) {
	f := &GroupFilter{excludes: slices.Clone(g.Exclude), rename: g.Rename}
	var err error
	if f.include, err = compileAll("groups.include", g.Include); err != nil {
		return nil, err
	}
	if f.exclude, err = compileAll("groups.exclude", g.Exclude); err != nil {
		return nil, err
	}
	return f, nil
}

func compileAll(key string, patterns []string) ([]*regexp.Regexp, error) {
	out := make([]*regexp.Regexp, 0, len(patterns))
	for _, p := range patterns {
		re, err := compileWhole(p)
		if err != nil {
			return nil, fmt.Errorf("compile %s %q: %w", key, p, err)
		}
		out = append(out, re)
	}
	return out, nil
}

// Excludes says why a source group is left out; "" is that it is not. groups.exclude wins over groups.include.
func (f *GroupFilter) Excludes(group string) string {
	if strings.HasPrefix(group, ownGroups) {
		return "it is lockstep's own"
	}
	for i, re := range f.exclude {
		if re.MatchString(group) {
			return fmt.Sprintf("groups.exclude %q matches", f.excludes[i])
		}
	}
	if !slices.ContainsFunc(f.include, func(re *regexp.Regexp) bool { return re.MatchString(group) }) {
		return "no pattern of groups.include matches"
	}
	return ""
}

// Target returns the name that a source group has on the target.
func (f *GroupFilter) Target(group string) string {
	if f.rename == "" {
		return group
	}
	return strings.Replace(f.rename, groupVariable, group, 1)
}
