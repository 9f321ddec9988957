package api

// LagAnswer is the answer of GET …/lag. The command adds groups and a judgement where it is asked for them.
type LagAnswer struct {
	Schema int        `json:"schema"`
	Lag    []Lag      `json:"lag"`
	Groups []GroupLag `json:"groups,omitempty"`
	Check  *LagCheck  `json:"check,omitempty"`
}

// Lag is how far one lane is behind: source offsets that can be read (up to the stable end, or to the end on a
// read-uncommitted link) and are not copied, and for how long the oldest has waited. A figure that is not known is null.
type Lag struct {
	Link      string   `json:"link"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	State     string   `json:"state"`
	Records   *int64   `json:"records"`
	Seconds   *float64 `json:"seconds"`
}

// GroupLag is how far a group, or one position of it, is behind on the source: source offsets that can be read and that it
// has not read, and for how long the oldest has been readable; with AtLeast it may be longer. A figure that is not known
// is null.
type GroupLag struct {
	Link      string   `json:"link"`
	Group     string   `json:"group"`
	Topic     string   `json:"topic,omitempty"` // of one position
	Partition *int32   `json:"partition,omitempty"`
	State     string   `json:"state"`
	Records   *int64   `json:"records"`
	Seconds   *float64 `json:"seconds"`
	AtLeast   bool     `json:"at_least,omitempty"`
	Alarms    []Alarm  `json:"alarms,omitempty"`
}

// GroupLagOf takes the lag out of groups' figures, in the same order. Groups that have no lag are left out: those that are
// excluded, have nothing to do with the link, or keep no offsets.
func GroupLagOf(groups []Group) []GroupLag {
	out := []GroupLag{}
	for _, g := range groups {
		if g.Aside() || g.State == GroupUnsupportedType {
			continue
		}
		out = append(out, GroupLag{Link: g.Link, Group: g.Group, State: g.State, Records: g.LagRecords, Seconds: g.LagSeconds, AtLeast: g.LagAtLeast, Alarms: g.Alarms})
	}
	return out
}

// PositionLagOf takes the lag out of a group's positions, in the same order.
func PositionLagOf(g GroupDetail) []GroupLag {
	out := []GroupLag{}
	for _, p := range g.Positions {
		out = append(out, GroupLag{Link: g.Link, Group: g.Group.Group, Topic: p.Topic, Partition: &p.Partition, State: p.State,
			Records: p.LagRecords, Seconds: p.LagSeconds, AtLeast: p.LagAtLeast})
	}
	return out
}

// LagCheck is lag judged by thresholds, as monitoring plug-ins do. Warn and Crit are as they were understood, with unit.
type LagCheck struct {
	Status   string       `json:"status"` // OK, WARNING, CRITICAL, UNKNOWN
	Code     int          `json:"code"`   // the exit code: 0, 1, 2, 3
	Warn     string       `json:"warn,omitempty"`
	Crit     string       `json:"crit,omitempty"`
	Summary  string       `json:"summary"`
	Findings []LagFinding `json:"findings"` // worst first
}

// LagFinding is something that is not OK.
type LagFinding struct {
	Status  string `json:"status"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}
