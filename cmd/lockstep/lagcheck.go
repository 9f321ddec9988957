package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/config"
	"lockstep/internal/model"
	"lockstep/internal/when"
)

// The exit codes of monitoring plug-ins, and their words. Only `lag --warn --crit` uses them.
const (
	pluginOK = iota
	pluginWarning
	pluginCritical
	pluginUnknown
)

func pluginWord(code int) string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[code] }

// byWeight orders plug-in codes from good to bad: what is certainly wrong weighs more than what is not known.
func byWeight(code int) int { return [...]int{0, 2, 3, 1}[code] }

// threshold is what lag is judged by: records or seconds, never both.
type threshold struct {
	records int64
	wait    time.Duration
	inTime  bool
}

// parseThreshold reads a number of records, or a duration with its unit; none of a flag that is not given.
func parseThreshold(flag string, given *string) (*threshold, error) {
	if given == nil {
		return nil, nil
	}
	text := *given
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return &threshold{records: n}, nil
	}
	if d, err := when.ParseDuration(text); err == nil {
		return &threshold{wait: d, inTime: true}, nil
	}
	return nil, fmt.Errorf("%s %s: a number of records, such as 10000, or a duration with its unit, such as 30s or 5m", flag, cmp.Or(text, `""`))
}

func (t *threshold) String() string {
	switch {
	case t == nil:
		return ""
	case t.inTime:
		return config.Duration(t.wait).String()
	case t.records == 1:
		return "1 record"
	}
	return strconv.FormatInt(t.records, 10) + " records"
}

// lagSubject is one lane or group that is judged.
type lagSubject struct {
	name    string
	state   string
	records *int64
	seconds *float64
	more    bool // seconds are at least so many
	why     string
}

// exceeded reports whether a subject's lag is above the threshold. unsure says that it cannot be told.
func (t *threshold) exceeded(s lagSubject) (exceeded, unsure bool) {
	switch {
	case t == nil:
		return false, false
	case s.records == nil:
		return false, true
	case !t.inTime:
		return *s.records > t.records, false
	case *s.records == 0:
		return false, false
	case s.seconds == nil:
		return false, true
	}
	exceeded = *s.seconds > t.wait.Seconds()
	return exceeded, !exceeded && s.more
}

// judge returns a subject's code, and why it is not OK.
func judge(s lagSubject, warn, crit *threshold) (code int, detail string) {
	over, unsure := crit.exceeded(s)
	if over {
		return pluginCritical, lagText(s) + ", critical above " + crit.String()
	}
	if over, more := warn.exceeded(s); over {
		return pluginWarning, lagText(s) + ", warning above " + warn.String()
	} else if unsure || more {
		return pluginUnknown, lagText(s)
	}
	return pluginOK, ""
}

// lagText says how far a subject is behind, in both units.
func lagText(s lagSubject) string {
	if s.records == nil {
		return "lag is not known: " + cmp.Or(s.why, s.state)
	}
	text := plural(*s.records, "record")
	if s.seconds == nil {
		return text + " behind, seconds are not known"
	}
	if s.more {
		return text + " behind, for at least " + seconds(s.seconds)
	}
	return text + " behind, for " + seconds(s.seconds)
}

// lagSeen is what there is to judge.
type lagSeen struct {
	lanes, groups []lagSubject
	// missing are things that have no figures at all, and should.
	missing []api.LagFinding
}

// verdict judges all that was seen.
func (s lagSeen) verdict(warn, crit *threshold) *api.LagCheck {
	c := &api.LagCheck{Warn: warn.String(), Crit: crit.String(), Findings: slices.Clone(s.missing)}
	codes := make([]int, 0, len(s.missing))
	for range s.missing {
		codes = append(codes, pluginUnknown)
	}
	for _, subject := range s.worstFirst(warn, crit) {
		code, detail := judge(subject, warn, crit)
		if code != pluginOK {
			c.Findings = append(c.Findings, api.LagFinding{Status: pluginWord(code), Subject: subject.name, Detail: detail})
			codes = append(codes, code)
		}
	}
	slices.SortStableFunc(c.Findings, func(x, y api.LagFinding) int {
		return cmp.Compare(byWeight(pluginCode(y.Status)), byWeight(pluginCode(x.Status)))
	})
	for _, code := range codes {
		if byWeight(code) > byWeight(c.Code) {
			c.Code = code
		}
	}
	c.Status = pluginWord(c.Code)
	c.Summary = s.summary(c)
	return c
}

// worstFirst are all subjects, those with the largest lag first, in the unit that is judged.
func (s lagSeen) worstFirst(warn, crit *threshold) []lagSubject {
	all := slices.Concat(s.lanes, s.groups)
	inTime := cmp.Or(crit, warn).inTime
	slices.SortStableFunc(all, func(x, y lagSubject) int {
		if inTime {
			return cmp.Or(cmp.Compare(orZero(y.seconds), orZero(x.seconds)), cmp.Compare(orZero(y.records), orZero(x.records)))
		}
		return worseLag(x.records, y.records, x.seconds, y.seconds)
	})
	return all
}

func pluginCode(word string) int {
	for code := range pluginUnknown + 1 {
		if pluginWord(code) == word {
			return code
		}
	}
	return pluginUnknown
}

// summary is the line for people: the worst finding, or how far the worst are behind where there is none.
func (s lagSeen) summary(c *api.LagCheck) string {
	if len(c.Findings) > 0 {
		f := c.Findings[0]
		text := f.Subject + ": " + f.Detail
		if n := len(c.Findings) - 1; n > 0 {
			text += fmt.Sprintf(" (and %d more)", n)
		}
		return text
	}
	var parts []string
	for _, kind := range []struct {
		word string
		of   []lagSubject
	}{{"lane", s.lanes}, {"group", s.groups}} {
		if records, secs := worstOf(kind.of); len(kind.of) > 0 {
			parts = append(parts, fmt.Sprintf("%s at most %s behind, %s", plural(len(kind.of), kind.word), plural(records, "record"), seconds(&secs)))
		}
	}
	return cmp.Or(strings.Join(parts, "; "), "nothing to judge")
}

// worstOf returns the largest known figures.
func worstOf(of []lagSubject) (records int64, secs float64) {
	for _, s := range of {
		records, secs = max(records, orZero(s.records)), max(secs, orZero(s.seconds))
	}
	return records, secs
}

// perfdata are the figures behind the bar, as plug-ins give them: the worst of lanes and of groups, with the thresholds of
// their unit. Where something is not known the worst of the others is no figure of all.
func (s lagSeen) perfdata(warn, crit *threshold) string {
	var out []string
	for _, kind := range []struct {
		label string
		of    []lagSubject
	}{{"lanes", s.lanes}, {"groups", s.groups}} {
		if len(kind.of) == 0 {
			continue
		}
		records, secs := worstOf(kind.of)
		r, t := strconv.FormatInt(records, 10), strconv.FormatFloat(secs, 'f', -1, 64)+"s"
		if slices.ContainsFunc(kind.of, func(s lagSubject) bool { return s.records == nil }) {
			r, t = "U", "U"
		} else if slices.ContainsFunc(kind.of, func(s lagSubject) bool { return *s.records > 0 && s.seconds == nil }) {
			t = "U"
		}
		out = append(out, fmt.Sprintf("%s_records=%s;%s;%s;0", kind.label, r, perf(warn, false), perf(crit, false)),
			fmt.Sprintf("%s_seconds=%s;%s;%s;0", kind.label, t, perf(warn, true), perf(crit, true)))
	}
	return strings.Join(out, " ")
}

func perf(t *threshold, inTime bool) string {
	switch {
	case t == nil || t.inTime != inTime:
		return ""
	case inTime:
		return strconv.FormatFloat(t.wait.Seconds(), 'f', -1, 64)
	}
	return strconv.FormatInt(t.records, 10)
}

// lagCheck judges lag. Whatever is in the way of that is UNKNOWN, never OK: also what is wrong with the command line.
func (a *app) lagCheck(cmd *cobra.Command, w lagWanted, wrong error) error {
	if wrong != nil {
		return a.lagUnknown(wrong)
	}
	code, err := a.checkLag(cmd, w)
	if err != nil {
		return a.lagUnknown(err)
	}
	if code == pluginOK {
		return nil
	}
	return &exitError{code, fmt.Errorf("lag is %s", pluginWord(code))}
}

func (a *app) lagUnknown(err error) error {
	if a.output != "json" && a.output != "csv" {
		fmt.Fprintln(a.stdout, plugLine("LAG UNKNOWN - "+err.Error()))
	}
	return &exitError{pluginUnknown, err}
}

// lagFlagError is for a flag that cannot be read. To a monitoring system the code of a wrong command line says CRITICAL,
// and whether this is a check is not parsed yet.
func (a *app) lagFlagError(_ *cobra.Command, err error) error {
	if slices.ContainsFunc(a.args, func(arg string) bool { return strings.HasPrefix(arg, "--warn") || strings.HasPrefix(arg, "--crit") }) {
		return a.lagUnknown(err)
	}
	return usage(err)
}

// plugLine makes text one line, and leaves the bar to what stands behind it.
func plugLine(text string) string { return strings.NewReplacer("\n", " ", "|", "/").Replace(text) }

func (a *app) checkLag(cmd *cobra.Command, w lagWanted) (code int, err error) {
	warn, err := parseThreshold("--warn", w.warn)
	if err != nil {
		return 0, err
	}
	crit, err := parseThreshold("--crit", w.crit)
	if err != nil {
		return 0, err
	}
	if warn != nil && crit != nil && warn.inTime == crit.inTime && (warn.records > crit.records || warn.wait > crit.wait) {
		return 0, fmt.Errorf("--warn %s is above --crit %s", warn, crit)
	}
	seen := lagSeen{}
	err = a.ask(cmd, w.link, func(svc *api.Client, name string) error { return seen.read(cmd.Context(), svc, name, w) })
	if err != nil {
		return 0, err
	}
	if w.group != "" && len(seen.groups) == 0 && len(seen.missing) == 0 {
		return 0, fmt.Errorf("no group %q that has lag: lockstep groups list --all shows the groups", w.group)
	}
	c := seen.verdict(warn, crit)
	return c.Code, a.printCheck(seen, c, w, warn, crit)
}

// read takes what a link shows.
func (s *lagSeen) read(ctx context.Context, svc *api.Client, name string, w lagWanted) error {
	link, err := svc.Link(ctx, name)
	if err != nil {
		return err
	}
	if w.lanes() {
		if err := s.readLanes(ctx, svc, link); err != nil {
			return err
		}
	}
	return s.readGroups(ctx, svc, link, w.group)
}

func (s *lagSeen) readLanes(ctx context.Context, svc *api.Client, link api.Link) error {
	lanes, err := svc.Lanes(ctx, link.Name)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if l.State == string(model.StateClosed) {
			continue // its topic is gone: it owes nothing
		}
		s.lanes = append(s.lanes, lagSubject{name: fmt.Sprintf("lane %s:%s/%d", l.Link, l.Topic, l.Partition), state: l.Shown(),
			records: l.LagRecords, seconds: l.LagSeconds, why: l.Reason})
	}
	if len(lanes) == 0 {
		s.missing = append(s.missing, unknown("link "+link.Name, "it has no lanes: "+cmp.Or(link.Detail, link.State)))
	}
	for _, p := range link.Problems {
		s.missing = append(s.missing, unknown(fmt.Sprintf("topic %s:%s", link.Name, p.Topic), "it is not copied: "+p.Detail))
	}
	return nil
}

func unknown(subject, detail string) api.LagFinding {
	return api.LagFinding{Status: pluginWord(pluginUnknown), Subject: subject, Detail: detail}
}

func (s *lagSeen) readGroups(ctx context.Context, svc *api.Client, link api.Link, only string) error {
	groups, err := svc.Groups(ctx, link.Name)
	if err != nil {
		return err
	}
	if link.GroupsUnread != "" {
		s.missing = append(s.missing, unknown("groups of link "+link.Name, "they are not known: "+link.GroupsUnread))
	}
	for _, g := range api.GroupLagOf(groups) {
		if only != "" && g.Group != only || g.State == api.GroupActiveOnTarget {
			continue
		}
		s.groups = append(s.groups, lagSubject{name: fmt.Sprintf("group %s:%s", g.Link, printable(g.Group)), state: g.State,
			records: g.Records, seconds: g.Seconds, more: g.AtLeast})
	}
	return nil
}

// checkShown is how many findings are shown where --top does not say.
const checkShown = 10

// printCheck prints the line of figures, and the findings below it.
func (a *app) printCheck(seen lagSeen, c *api.LagCheck, w lagWanted, warn, crit *threshold) error {
	if shown := cmp.Or(w.top, checkShown); a.output == "table" {
		c.Findings = c.Findings[:min(shown, len(c.Findings))]
	}
	t := &table{head: []string{"STATUS", "SUBJECT", "DETAIL"}}
	for _, f := range c.Findings {
		t.add(f.Status, f.Subject, f.Detail)
	}
	if a.output != "table" {
		return a.print(api.LagAnswer{Schema: api.Schema, Lag: []api.Lag{}, Check: c}, t)
	}
	limits := strings.Join(slices.DeleteFunc([]string{limit("warning", warn), limit("critical", crit)}, func(s string) bool { return s == "" }), ", ")
	line := fmt.Sprintf("LAG %s - %s", c.Status, c.Summary)
	if c.Code == pluginOK {
		line += " (" + limits + ")"
	}
	line = plugLine(line)
	if p := seen.perfdata(warn, crit); p != "" {
		line += " | " + p
	}
	fmt.Fprintln(a.stdout, line)
	if len(c.Findings) < 2 {
		return nil
	}
	return t.write(a.stdout)
}

func limit(word string, t *threshold) string {
	if t == nil {
		return ""
	}
	return word + " above " + t.String()
}
