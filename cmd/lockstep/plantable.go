package main

import (
	"fmt"
	"strconv"
	"strings"

	"lockstep/internal/model"
)

// The ends of a step, as they are shown.
const (
	outcomeDone    = "done"
	outcomeRefused = "refused"
	outcomeFailed  = "failed"
	outcomePending = "not yet"
)

func outcome(s model.OrderStep) string {
	switch {
	case s.Done:
		return outcomeDone
	case s.Refused != "":
		return outcomeRefused
	case s.Error != "":
		return outcomeFailed
	}
	return outcomePending
}

const (
	// maxSteps is how many steps a table shows; JSON has all of them.
	maxSteps  = 20
	planWidth = 100 // of the whole table, where subjects are not too long
	minText   = 28  // of the column that is wrapped
	maxState  = 20
)

// planTable shows what is going to happen. Sentences are wrapped, so that the table fits a terminal.
func planTable(steps []model.OrderStep) *table {
	t := &table{head: []string{"SUBJECT", "STATE", "DOES", "LEAVES", "DELETES"}}
	shown := steps[:min(len(steps), maxSteps)]
	subject, state, leaves, deletes := len(t.head[0]), len(t.head[1]), len(t.head[3]), len(t.head[4])
	for _, s := range shown {
		subject = max(subject, len(s.Subject))
		for _, line := range wrap(s.State, maxState) {
			state = max(state, len(line))
		}
		leaves, deletes = max(leaves, len(grouped(s.Leaves))), max(deletes, len(grouped(s.Deletes)))
	}
	text := max(minText, planWidth-subject-state-leaves-deletes-4*len("  "))
	for _, s := range shown {
		does, costs := s.Does, []string{grouped(s.Leaves), grouped(s.Deletes)}
		if s.Refused != "" {
			does, costs = "refused: "+s.Refused, []string{"-", "-"}
		}
		t.addLines([]string{s.Subject}, wrap(s.State, maxState), wrap(does, text), costs[:1], costs[1:])
	}
	if n := len(steps) - len(shown); n > 0 {
		t.add(fmt.Sprintf("and %s more", grouped(int64(n))), "", "-o json lists all", "", "")
	}
	return t
}

// planSummary says in one line each what the whole plan costs.
func planSummary(steps []model.OrderStep) string {
	var leaves, deletes int64
	refusals, final := 0, 0
	for _, s := range steps {
		if s.Refused != "" {
			refusals++
			continue
		}
		leaves, deletes = leaves+s.Leaves, deletes+s.Deletes
		if !s.CanUndo {
			final++
		}
	}
	out := []string{plural(len(steps)-refusals, "step")}
	if refusals > 0 {
		out[0] += fmt.Sprintf(", %d refused", refusals)
	}
	if leaves > 0 {
		out = append(out, plural(leaves, "source offset")+" will not be copied and go to the ledger")
	}
	if deletes > 0 {
		out = append(out, plural(deletes, "record")+" will be deleted on the target")
	}
	if final > 0 {
		out = append(out, plural(final, "step")+" cannot be undone")
	}
	return strings.Join(out, "\n")
}

func plural[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return grouped(int64(n)) + " " + what
}

// resultTable shows how steps ended. Of many, those that are done are only counted.
func resultTable(steps []model.OrderStep) *table {
	t := &table{head: []string{"SUBJECT", "RESULT", "DETAIL"}}
	many := len(steps) > maxSteps
	subject := 0
	for _, s := range steps {
		subject = max(subject, len(s.Subject))
	}
	text := max(minText, planWidth-subject-len(outcomeRefused)-2*len("  "))
	counts := make(map[string]int)
	for _, s := range steps {
		result := outcome(s)
		counts[result]++
		if many && (result == outcomeDone || counts[result] > maxSteps/2) {
			continue
		}
		t.addLines([]string{s.Subject}, []string{result}, wrap(resultDetail(s), text))
	}
	if many {
		for _, result := range []string{outcomeDone, outcomePending, outcomeFailed, outcomeRefused} {
			if counts[result] > 0 {
				t.add(strconv.Itoa(counts[result])+" in all", result, "")
			}
		}
	}
	return t
}

func resultDetail(s model.OrderStep) string {
	switch outcome(s) {
	case outcomeRefused:
		return s.Refused
	case outcomeFailed:
		return s.Error
	}
	return s.Does
}
