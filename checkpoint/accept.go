package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/internal/model"
)

// Accept puts groups where they stand on the source, whatever keeps passes from doing so: a position that others moved on
// the target, or a source position that is suspect. Groups with members on the target stay as they are. With dryRun
// nothing is done. Steps are one for each position that changes, or one for a group of which nothing can be done; an error
// says that nothing was done at all.
func (s *Syncer) Accept(ctx context.Context, groups []string, dryRun bool) ([]model.OrderStep, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.give()
	a := s.begin()
	if err := a.mayAccept(); err != nil {
		return nil, err
	}
	groups = slices.Compact(slices.Sorted(slices.Values(groups)))
	if err := a.see(ctx, a.chosen.want); err != nil { // all of them: a group that is not wanted is forgotten, see Sides
		return nil, err
	}
	a.accept = make(map[string]bool, len(groups))
	var names []string
	refused, bases := make(map[string]string), s.opt.Store.All()
	for _, g := range groups {
		if why := a.refuses(g, bases); why != "" {
			refused[g] = why
			continue
		}
		names, a.accept[g] = append(names, g), true
	}
	rows, err := a.decide(ctx, names)
	if err != nil {
		return nil, err
	}
	planned := byGroup(rows)
	if !dryRun {
		if rows, err = a.write(ctx, rows); err == nil || anyWritten(rows) {
			a.rememberAccepted(ctx, names, rows)
		}
		if err != nil {
			return nil, err
		}
	}
	return a.steps(groups, refused, planned, byGroup(rows), dryRun), nil
}

func (a *attempt) mayAccept() error {
	switch {
	case a.hold.Source != "":
		return fmt.Errorf("the source was replaced: %s", a.hold.Source)
	case a.hold.Writes != "":
		return errors.New(a.hold.Writes)
	case !a.settings.Sync:
		return errors.New("groups.sync is false: no positions are written")
	}
	return nil
}

// refuses says why nothing can be decided about a group; "" is that something can.
func (a *attempt) refuses(group string, bases map[string]map[Key]Base) string {
	if why := a.settings.Filter.Excludes(group); why != "" {
		return "the group is left out: " + why
	}
	if err := a.source.Failed[group]; err != nil {
		return fmt.Sprintf("its positions on the source cannot be read: %v", err)
	}
	_, there := a.source.Groups[group]
	_, known := bases[group]
	switch {
	case !there && a.source.Partial != nil:
		return fmt.Sprintf("it may be on the source, which did not list all of its groups: %v", a.source.Partial)
	case !there && !known:
		return "there is no such group on the source"
	}
	return ""
}

func anyWritten(rows []Row) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.State == StateSynced })
}

// rememberAccepted shows what became of groups at once. The next pass decides about them again.
func (a *attempt) rememberAccepted(ctx context.Context, names []string, rows []Row) {
	of := byGroup(rows)
	for _, name := range names {
		if rs := of[name]; len(rs) > 0 {
			a.m.put(name, rs)
			a.m.groups[name].open = true
		}
	}
	p := a.s.Last()
	if p.At.IsZero() {
		return // before the first pass there is nothing that these rows could be shown with
	}
	p.Rows = a.m.all()
	a.s.publish(ctx, p)
}

// steps tells what happens, or what became of it.
func (a *attempt) steps(groups []string, refused map[string]string, planned, rows map[string][]Row, dryRun bool) []model.OrderStep {
	var out []model.OrderStep
	for _, g := range groups {
		if why := refused[g]; why != "" {
			out = append(out, a.refusal(g, "-", why))
			continue
		}
		before := len(out)
		for i, r := range planned[g] {
			if r.Write || r.Forget {
				out = append(out, a.step(r, rows[g][i], dryRun))
			}
		}
		if len(out) == before {
			state, detail := worst(planned[g])
			out = append(out, a.refusal(g, string(state), nothingToDo(state, detail)))
		}
	}
	return out
}

func (a *attempt) refusal(group, state, why string) model.OrderStep {
	return model.OrderStep{Subject: a.s.opt.Link + ":" + group, State: state, Refused: why}
}

func nothingToDo(state State, detail string) string {
	if state == StateSynced {
		return "it stands where it stands on the source already"
	}
	return detail
}

// worst returns the state of a group that has these rows, and the detail of the first row that has it.
func worst(rows []Row) (State, string) {
	state, detail := StateSynced, ""
	for i := range rows {
		if rows[i].State.Compare(state) > 0 {
			state, detail = rows[i].State, rows[i].Detail
		}
	}
	return state, detail
}

// step is one position: what was planned, and how it ended.
func (a *attempt) step(plan, end Row, dryRun bool) model.OrderStep {
	s := model.OrderStep{Subject: fmt.Sprintf("%s:%s %s", a.s.opt.Link, plan.Group, plan.Key), State: a.stateBefore(plan), CanUndo: plan.Target >= 0}
	if plan.Forget {
		s.CanUndo, s.Does = false, plan.Detail
		s.Done = !dryRun
		return s
	}
	from := "nowhere"
	if plan.Target >= 0 {
		from = fmt.Sprint(plan.Target)
	}
	s.Does = fmt.Sprintf("target %s/%d: %s -> %d, as the source stands at %d", plan.DstTopic, plan.Partition, from, plan.Translated, plan.Source)
	switch {
	case plan.Target >= 0 && plan.Translated < plan.Target:
		s.Does += fmt.Sprintf("; back by %d offsets, which are read again", plan.Target-plan.Translated)
	case plan.Target >= 0:
		s.Does += fmt.Sprintf("; forward by %d offsets, which are not read", plan.Translated-plan.Target)
	}
	if dryRun {
		return s
	}
	if s.Done = end.State == StateSynced; !s.Done {
		s.Error = fmt.Sprintf("%s: %s", end.State, end.Detail)
	}
	return s
}

// stateBefore is the state that a position is in without being accepted.
func (a *attempt) stateBefore(r Row) string {
	if k := a.m.groups[r.Group]; k != nil {
		for i := range k.rows {
			if k.rows[i].Key == r.Key {
				return string(k.rows[i].State)
			}
		}
	}
	return "-"
}
