package config

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// maxSamples bounds the names that are tried for one pattern.
const maxSamples = 64

// samples returns topic names that the link selects, made from its own patterns: the literal names among them, and
// a few for each other pattern. There may be none although the link selects some.
func samples(l Link) []string {
	var names []string
	for _, pattern := range l.Topics.Include {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			continue
		}
		for _, filler := range []string{"orders", "t", ""} {
			names = append(names, matches(re, filler)...)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		ok, _ := l.Selects(name)
		return !ok || !legalTopic(name)
	})
}

// matches returns some texts that a pattern matches, at most maxSamples. filler stands for "any characters".
func matches(re *syntax.Regexp, filler string) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCharClass:
		return fromClass(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return []string{"x"}
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return []string{""}
	case syntax.OpCapture:
		return matches(re.Sub[0], filler)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return repeated(re, filler)
	case syntax.OpConcat:
		return joined(re.Sub, filler)
	case syntax.OpAlternate:
		return either(re.Sub, filler)
	default:
		return nil
	}
}

// fromClass returns the first character of a class that a topic name may have, letters before others.
func fromClass(ranges []rune) []string {
	const legalRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	for _, r := range legalRunes {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= r && r <= ranges[i+1] {
				return []string{string(r)}
			}
		}
	}
	return nil
}

func repeated(re *syntax.Regexp, filler string) []string {
	least := map[syntax.Op]int{syntax.OpStar: 0, syntax.OpPlus: 1, syntax.OpQuest: 0, syntax.OpRepeat: re.Min}[re.Op]
	sub := re.Sub[0]
	anything := sub.Op == syntax.OpAnyChar || sub.Op == syntax.OpAnyCharNotNL
	if anything && filler != "" && least <= 1 && (re.Op == syntax.OpStar || re.Op == syntax.OpPlus) {
		return []string{filler}
	}
	if least == 0 && filler != "" {
		least = 1
	}
	var texts []string
	for _, m := range matches(sub, filler) {
		if len(m)*least <= MaxTopicName {
			texts = append(texts, strings.Repeat(m, least))
		}
	}
	if least == 0 {
		return []string{""}
	}
	return texts
}

func joined(subs []*syntax.Regexp, filler string) []string {
	texts := []string{""}
	for _, sub := range subs {
		var longer []string
		tails := matches(sub, filler)
		for _, head := range texts {
			for _, tail := range tails {
				if len(head)+len(tail) <= MaxTopicName && len(longer) < maxSamples {
					longer = append(longer, head+tail)
				}
			}
		}
		texts = longer
	}
	return texts
}

func either(subs []*syntax.Regexp, filler string) []string {
	var texts []string
	for _, sub := range subs {
		texts = append(texts, matches(sub, filler)...)
		if len(texts) >= maxSamples {
			return texts[:maxSamples]
		}
	}
	return texts
}
