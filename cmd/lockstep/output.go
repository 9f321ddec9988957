package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// table is a command's answer in rows, for people and for CSV.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// addLines adds one row whose cells are lines below each other.
func (t *table) addLines(cells ...[]string) {
	height := 0
	for _, c := range cells {
		height = max(height, len(c))
	}
	for i := range height {
		row := make([]string, len(cells))
		for j, c := range cells {
			row[j] = at(c, i)
		}
		t.rows = append(t.rows, row)
	}
}

// width returns how many characters the columns from one on take, with the blanks before them.
func (t *table) width(from int) (n int) {
	for i := from; i < len(t.head); i++ {
		widest := len(t.head[i])
		for _, r := range t.rows {
			widest = max(widest, utf8.RuneCountInString(r[i]))
		}
		n += widest + 2
	}
	return n
}

// column returns how a column of sentences is cut into lines, so that the table fits a terminal. CSV keeps them whole.
func (a *app) column(width int) func(text string) []string {
	if a.output != "table" {
		return func(text string) []string { return []string{text} }
	}
	return func(text string) []string { return wrap(text, width) }
}

// formats a command may print in.
func (a *app) checkOutput(allowed ...string) error {
	if slices.Contains(allowed, a.output) {
		return nil
	}
	return usage(fmt.Errorf("-o %s: this command prints %s", a.output, strings.Join(allowed, ", ")))
}

// print writes an answer: v as JSON, t as a table or as CSV.
func (a *app) print(v any, t *table) error {
	switch a.output {
	case "json":
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case "csv":
		return t.writeCSV(a.stdout)
	}
	return t.write(a.stdout)
}

func (t *table) writeCSV(w io.Writer) error {
	cw := csv.NewWriter(w)
	if err := cw.Write(lower(t.head)); err != nil {
		return err
	}
	if err := cw.WriteAll(t.rows); err != nil {
		return err
	}
	cw.Flush()
	return cw.Error()
}

func lower(head []string) []string {
	out := make([]string, len(head))
	for i, h := range head {
		out[i] = strings.ReplaceAll(strings.ToLower(h), " ", "_")
	}
	return out
}

func (t *table) write(w io.Writer) error {
	var aligned strings.Builder
	tw := tabwriter.NewWriter(&aligned, 0, 4, 2, ' ', 0)
	for _, r := range slices.Concat([][]string{t.head}, t.rows) {
		cells := make([]string, len(r))
		for i, text := range r {
			cells[i] = printable(text)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(aligned.String()) { // empty cells at the end of a row leave no blanks
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// printable shows a name as it is, quoted when it has characters that a terminal might act upon.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// harmless shows sentences that may hold names: what a terminal might act upon is escaped, lines stay.
func harmless(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// offset prints an offset, "-" when it is not known.
func offset(p *int64) string {
	if p == nil {
		return "-"
	}
	return strconv.FormatInt(*p, 10)
}

// seconds prints a number of seconds as a person says it, "-" when it is not known.
func seconds(p *float64) string {
	if p == nil {
		return "-"
	}
	d := time.Duration(*p * float64(time.Second))
	if d < 10*time.Second {
		return strconv.FormatFloat(*p, 'f', 1, 64) + "s"
	}
	return d.Round(time.Second).String()
}

// behindText prints how far something is behind, for so many seconds or, where they are a bound, more.
func behindText(records *int64, secs *float64, atLeast bool) string {
	if records == nil {
		return "not known"
	}
	return plural(*records, "record") + ", " + lagTime(secs, atLeast)
}

// age prints how long ago t was.
func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return time.Since(t).Round(time.Second).String()
}

// humanBytes prints a number of bytes with a binary unit.
func humanBytes(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if n < 1024 {
			return strconv.FormatFloat(n, 'f', 1, 64) + " " + unit
		}
		n /= 1024
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " TiB"
}

// grouped prints a count with separators, as 12,345,678.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// wrap cuts text into lines of at most width characters, between words. Words that are longer stay whole; no text is one
// empty line.
func wrap(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
