package grants

import (
	"regexp/syntax"
	"slices"
	"strings"
)

const (
	maxNames = 500 // that one pattern is taken apart into
	maxRunes = 8   // of a class such as [ab] that is taken apart
)

// namesOf returns what a pattern of the configuration can match, as few names as cover it: those that it spells out,
// else the beginnings of those that it can match. A pattern that could be a name is taken for one: its dots are meant.
func namesOf(pattern string) []Name {
	if plain(pattern) {
		return []Name{{Text: pattern}}
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	var out []Name
	for _, h := range heads(re) {
		if h.open || h.text != "" {
			out = append(out, h.name())
		}
	}
	return widest(out)
}

// plain reports whether the text has only characters that names of topics have.
func plain(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	})
}

// head is how what a pattern matches begins; open is that anything may follow.
type head struct {
	text string
	open bool
}

func (h head) name() Name {
	if h.open && h.text == "" {
		return all
	}
	return Name{Text: h.text, Prefixed: h.open}
}

// anything is the head of what is not known.
var anything = []head{{"", true}}

func heads(re *syntax.Regexp) []head {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return []head{{}}
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return anything
		}
		return []head{{text: string(re.Rune)}}
	case syntax.OpCharClass:
		return classHeads(re.Rune)
	case syntax.OpCapture:
		return heads(re.Sub[0])
	case syntax.OpQuest:
		return bounded(append(heads(re.Sub[0]), head{}))
	case syntax.OpPlus:
		return open(heads(re.Sub[0]))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return open(heads(re.Sub[0]))
		}
		return anything
	case syntax.OpAlternate:
		var out []head
		for _, sub := range re.Sub {
			out = append(out, heads(sub)...)
		}
		return bounded(out)
	case syntax.OpConcat:
		return concatHeads(re.Sub)
	}
	return anything
}

// classHeads takes a small class apart; bounds are pairs of its first and last characters.
func classHeads(bounds []rune) (out []head) {
	for i := 0; i < len(bounds); i += 2 {
		if int(bounds[i+1]-bounds[i])+1+len(out) > maxRunes {
			return anything
		}
		for r := bounds[i]; r <= bounds[i+1]; r++ {
			out = append(out, head{text: string(r)})
		}
	}
	return out
}

func concatHeads(subs []*syntax.Regexp) []head {
	acc := []head{{}}
	for _, sub := range subs {
		var next []head
		tails := heads(sub)
		if len(acc)*len(tails) > maxNames {
			return open(acc)
		}
		for _, a := range acc {
			if a.open {
				next = append(next, a)
				continue
			}
			for _, t := range tails {
				next = append(next, head{a.text + t.text, t.open})
			}
		}
		acc = next
	}
	return acc
}

func open(hs []head) []head {
	out := slices.Clone(hs)
	for i := range out {
		out[i].open = true
	}
	return out
}

// bounded gives up taking apart what has too many parts.
func bounded(hs []head) []head {
	if len(hs) > maxNames {
		return anything
	}
	return hs
}

// widest leaves out names that another one covers.
func widest(names []Name) (out []Name) {
	for i, n := range names {
		wider := func(o Name) bool { return o != n && o.covers(n) }
		if !slices.Contains(names[:i], n) && !slices.ContainsFunc(names, wider) {
			out = append(out, n)
		}
	}
	return out
}

// renamed returns what names become by a template in which the variable stands for the old name.
func renamed(names []Name, template, variable string) []Name {
	before, after, ok := strings.Cut(template, variable)
	if !ok {
		return names // the empty template
	}
	out := make([]Name, 0, len(names))
	for _, n := range names {
		switch {
		case n == all && before == "":
		case n == all:
			n = Name{Text: before, Prefixed: true}
		case n.Prefixed:
			n.Text = before + n.Text
		default:
			n.Text = before + n.Text + strings.ReplaceAll(after, variable, n.Text)
		}
		out = append(out, n)
	}
	return widest(out)
}
