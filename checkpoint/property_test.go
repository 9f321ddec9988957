package checkpoint

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The next record that is read on the target is the next record that the group would read on the source. Always.
func TestPlan_NextRecordIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newCopying(t)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			c.step(t)
		}
		lane := c.lane(t, rapid.Bool().Draw(t, "the map forgets what the target trimmed"))
		for src := int64(0); src <= c.srcEnd; src++ {
			r := planOne(lane, start, group(src), nil, nil)
			if !r.Write {
				t.Fatalf("source %d: %s %s\n%s", src, r.State, r.Detail, c)
			}
			c.check(t, src, r.Translated)
		}
	})
}

// The same over time: what was written stays right whatever the copying does, as soon as the next pass has seen it.
func TestPlan_NextRecordStaysTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newCopying(t)
		var base *Base
		var target *Group
		src, now := c.first, start
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			c.step(t)
			if rapid.Bool().Draw(t, "the group moves") {
				src = rapid.Int64Range(0, c.srcEnd).Draw(t, "to")
			}
			now = now.Add(2 * time.Second)
			r := planOne(c.lane(t, false), now, group(src), target, base)
			if r.Write {
				g := group(r.Translated)
				target = &g
			}
			if r.Save {
				base = &r.Base
			}
			switch {
			case src > c.srcEnd && r.State == StateSuspectSource:
				continue // its log was cut off below it
			case r.State != StateSynced && !r.Write:
				t.Fatalf("%s: %s\n%+v\n%s", r.State, r.Detail, r, c)
			}
			c.check(t, src, target.Offsets[orders].Offset)
		}
	})
}

// planOne plans one group with usual rules, but without any suspicion of a moved source.
func planOne(lane Lane, now time.Time, source Group, target *Group, base *Base) Row {
	in := Input{
		Now: now, Rules: usual(), Lanes: map[Key]Lane{orders: lane},
		Source: Picture{Groups: map[string]Group{"billing": source}}, Target: Picture{Groups: map[string]Group{}},
	}
	in.Rules.MaxRewind = 1 << 40
	if target != nil {
		in.Target.Groups["billing"] = *target
	}
	if base != nil {
		in.Bases = map[string]map[Key]Base{"billing": {orders: *base}}
	}
	return Plan(in)[0]
}
