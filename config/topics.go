package config

import (
	"cmp"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// MaxTopicName is the longest name that Kafka accepts for a topic.
const MaxTopicName = 249

// topicVariable stands in topics.rename for the source topic's name.
const topicVariable = "{topic}"

// heartbeatsTopic is where MirrorMaker 2, and links for its readers, tell that they live.
const heartbeatsTopic = "heartbeats"

// brokerTopics belong to the brokers themselves. A copy of them would be read as the target's own state, so that no
// setting includes them.
var brokerTopics = []string{"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}

// hidden says which group of internal topics a name belongs to; pattern is "" for all other names. Only a literal
// name in topics.include selects an internal topic.
func hidden(topic string) (pattern, what string) {
	switch {
	case strings.HasPrefix(topic, "__"):
		return `__.*`, "an internal topic of Kafka or of a tool"
	case strings.HasPrefix(topic, "lockstep."):
		return `lockstep\..*`, "state of lockstep"
	case strings.HasPrefix(topic, "mm2-"):
		return `mm2-.*`, "state of MirrorMaker 2"
	case strings.HasSuffix(topic, ".internal"), strings.HasSuffix(topic, "-internal"):
		return `.*[-.]internal`, "named as MirrorMaker 2 names its state"
	case topic == heartbeatsTopic:
		return `heartbeats`, "the heartbeats of MirrorMaker 2"
	default:
		return "", ""
	}
}

// selector is a link's compiled topic patterns, and the texts they were made from.
type selector struct {
	include, exclude   []string
	includes, excludes []*regexp.Regexp
	literals           map[string]bool // names that topics.include gives literally
}

// newSelector compiles the patterns. The error names the first pattern that is not a regular expression.
func newSelector(t Topics) (*selector, error) {
	s := &selector{include: slices.Clone(t.Include), exclude: slices.Clone(t.Exclude), literals: map[string]bool{}}
	for _, p := range t.Include {
		re, err := compileWhole(p)
		if err != nil {
			return nil, err
		}
		s.includes = append(s.includes, re)
		s.literals[p] = true
		if name, ok := literalName(p); ok {
			s.literals[name] = true
		}
	}
	for _, p := range t.Exclude {
		re, err := compileWhole(p)
		if err != nil {
			return nil, err
		}
		s.excludes = append(s.excludes, re)
	}
	return s, nil
}

// compileWhole compiles a pattern so that it matches whole names only, of any characters: a group may have line breaks. It is compiled alone first, so that a closing
// parenthesis in it cannot end our group.
func compileWhole(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`(?s)\A(?:` + pattern + `)\z`)
}

// literalName returns the only name that a pattern matches, such as "a.b" for `a\.b`.
func literalName(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || re.Op != syntax.OpLiteral || re.Flags&syntax.FoldCase != 0 {
		return "", false
	}
	return string(re.Rune), true
}

// patterns returns the link's selector, compiled anew when the link's patterns are not those it was made from.
func (l Link) patterns() (*selector, error) {
	if s := l.selector; s != nil && slices.Equal(s.include, l.Topics.Include) && slices.Equal(s.exclude, l.Topics.Exclude) {
		return s, nil
	}
	return newSelector(l.Topics)
}

// Selects reports whether the link copies the source topic, and why not. topics.exclude wins over topics.include.
// Internal topics are selected only by their literal name in topics.include; the brokers' own never.
func (l Link) Selects(topic string) (bool, string) {
	if why := l.refuses(topic); why != "" {
		return false, why
	}
	if target := l.TargetTopic(topic); len(target) > MaxTopicName {
		return false, fmt.Sprintf("topics.rename makes a name of %d characters, more than the %d that Kafka accepts", len(target), MaxTopicName)
	}
	return true, ""
}

// refuses says why the link's patterns leave the topic out; "" is that they do not.
func (l Link) refuses(topic string) string {
	s, err := l.patterns()
	if err != nil {
		return fmt.Sprintf("the link's topic patterns are not valid: %v", err)
	}
	why := s.refuses(topic)
	if why == "" && l.returns(topic) && !s.literals[topic] {
		return fmt.Sprintf("it is what a link from %s writes for readers of MirrorMaker 2; to copy it, name it literally in topics.include", l.Target)
	}
	return why
}

// returns reports whether a link in the other direction, with mirrormaker.topics, writes the topic on this one's source.
// Where the separator is a dot, checkpoints are internal by their name anyway.
func (l Link) returns(topic string) bool {
	sep := cmp.Or(l.MirrorMaker.Separator, ".")
	return topic == l.Target+sep+heartbeatsTopic || topic == strings.Join([]string{l.Target, "checkpoints", "internal"}, sep)
}

func (s *selector) refuses(topic string) string {
	if slices.Contains(brokerTopics, topic) {
		return "it belongs to the brokers and is never copied"
	}
	for i, re := range s.excludes {
		if re.MatchString(topic) {
			return fmt.Sprintf("topics.exclude %q matches", s.exclude[i])
		}
	}
	if s.literals[topic] {
		return ""
	}
	if !slices.ContainsFunc(s.includes, func(re *regexp.Regexp) bool { return re.MatchString(topic) }) {
		return "no pattern of topics.include matches"
	}
	if pattern, what := hidden(topic); pattern != "" {
		return fmt.Sprintf("it is %s (%s); to copy it, name it literally in topics.include", what, pattern)
	}
	return ""
}

// TargetTopic returns the name that the source topic has on the target.
func (l Link) TargetTopic(src string) string {
	if l.Topics.Rename == "" {
		return src
	}
	return strings.ReplaceAll(l.Topics.Rename, topicVariable, src)
}

// Filter returns a function that reports whether a topic setting of that name follows the source. The error names a
// pattern of exclude that is not a regular expression; a configuration from Load has none.
func (c Configs) Filter() (func(setting string) bool, error) {
	var excludes []*regexp.Regexp
	for _, p := range c.Exclude {
		re, err := compileWhole(p)
		if err != nil {
			return nil, fmt.Errorf("compile configs.exclude %q: %w", p, err)
		}
		excludes = append(excludes, re)
	}
	return func(setting string) bool {
		return c.Sync && !slices.ContainsFunc(excludes, func(re *regexp.Regexp) bool { return re.MatchString(setting) })
	}, nil
}
