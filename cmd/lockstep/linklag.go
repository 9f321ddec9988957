package main

import (
	"time"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/internal/model"
)

// laneAges tells ages of records from what a link's lanes remember.
type laneAges struct{ l *link }

// Age implements checkpoint.Ages.
func (a laneAges) Age(k checkpoint.Key, src int64) (age time.Duration, atLeast bool) {
	return a.l.manager.Age(model.Lane{Link: a.l.cfg.Name, Topic: k.Topic, Partition: k.Partition}, src)
}

// ages tells for how long records of the source have been readable.
func (l *link) ages() checkpoint.Ages { return laneAges{l} }

func apiAlarms(as []checkpoint.Alarm) (out []api.Alarm) {
	for _, a := range as {
		out = append(out, api.Alarm{Kind: string(a.Kind), Severity: string(a.Severity), Topic: a.Topic, Detail: a.Detail, Since: a.Since.UTC()})
	}
	return out
}

func countAlarms(as []checkpoint.Alarm) (n api.AlarmCounts) {
	for _, a := range as {
		if a.Severity == checkpoint.Critical {
			n.Critical++
		} else {
			n.Warning++
		}
	}
	return n
}

// groupsUnread says why nothing is known of the groups of a link, "" when something is.
func groupsUnread(p checkpoint.Pass) string {
	switch {
	case !p.At.IsZero():
		return ""
	case p.Err != nil:
		return p.Err.Error()
	}
	return "the source's groups were not read yet"
}
