package checkpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
)

func TestChanged(t *testing.T) {
	t.Parallel()
	at := func(offset int64) Group {
		return Group{Name: "g", Type: TypeClassic, State: "Empty", Offsets: map[Key]Committed{{topic, 0}: {Offset: offset}}}
	}
	with := func(g Group, change func(*Group)) Group { change(&g); return g }
	row := planned("g", 5, 9)
	for _, c := range []struct {
		name string
		now  Picture
		row  Row
		want State
	}{
		{"as planned", Picture{Groups: map[string]Group{"g": at(5)}}, row, ""},
		{"dead", Picture{Groups: map[string]Group{"g": with(at(5), func(g *Group) { g.State = "Dead" })}}, row, ""},
		{"absent as planned", Picture{}, planned("g", -1, 9), ""},
		{"absent, not as planned", Picture{}, row, StateMovedOnTarget},
		{"moved", Picture{Groups: map[string]Group{"g": at(6)}}, row, StateMovedOnTarget},
		{"already there", Picture{Groups: map[string]Group{"g": at(9)}}, row, StateSynced},
		{"appeared", Picture{Groups: map[string]Group{"g": at(6)}}, planned("g", -1, 9), StateExistsOnTarget},
		{"already there, with members", Picture{Groups: map[string]Group{"g": with(at(9), func(g *Group) { g.State = "Stable" })}}, row, StateActiveOnTarget},
		{"rebalancing", Picture{Groups: map[string]Group{"g": with(at(5), func(g *Group) { g.State = "PreparingRebalance" })}}, row, StateActiveOnTarget},
		{"state not known", Picture{Groups: map[string]Group{"g": with(at(5), func(g *Group) { g.State = "" })}}, row, StateActiveOnTarget},
		{"share", Picture{Groups: map[string]Group{"g": {Name: "g", Type: TypeShare, State: "Empty"}}}, planned("g", -1, 9), StateTypeConflict},
		{"streams", Picture{Groups: map[string]Group{"g": {Name: "g", Type: TypeStreams, State: "Empty"}}}, planned("g", -1, 9), StateTypeConflict},
		{"a type of tomorrow", Picture{Groups: map[string]Group{"g": {Name: "g", Type: "tomorrow", State: "Empty"}}}, planned("g", -1, 9), StateTypeConflict},
		{"connect workers", Picture{Groups: map[string]Group{"g": {Name: "g", Type: TypeClassic, Protocol: "connect", State: "Empty"}}}, planned("g", -1, 9), StateTypeConflict},
		{"transaction", Picture{Groups: map[string]Group{"g": with(at(5), func(g *Group) { g.Unstable = map[Key]error{{topic, 0}: kerr.UnstableOffsetCommit} })}}, row, StatePending},
		{"unreadable", Picture{Failed: map[string]error{"g": kerr.NotCoordinator}}, row, StateTargetUnreadable},
		{"not authorized", Picture{Failed: map[string]error{"g": kerr.GroupAuthorizationFailed}}, row, StateNotAuthorized},
	} {
		state, detail := changed(c.now, c.row)
		if state != c.want || (detail == "") != (state == "" || state == StateSynced) {
			t.Errorf("%s: %q, %q; want %q", c.name, state, detail, c.want)
		}
	}
}

func TestUnauthorized_NamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	row := planned("g", 5, 9)
	for _, c := range []struct {
		err  error
		want string
	}{
		{kerr.GroupAuthorizationFailed, "READ on group g of the target"},
		{kerr.TopicAuthorizationFailed, "READ on topic orders of the target"},
		{kerr.SaslAuthenticationFailed, "SASL_AUTHENTICATION_FAILED"},
	} {
		if state, detail := refusal(c.err, row); state != StateNotAuthorized || !strings.Contains(detail, c.want) {
			t.Errorf("%v: %s, %s", c.err, state, detail)
		}
	}
	if state, _ := refusal(errors.New("something else"), row); state != StatePending {
		t.Errorf("something else: %s", state)
	}
}

func TestCoordinators_MovedTo(t *testing.T) {
	t.Parallel()
	of := func(leaders ...kafka.Leader) coordinators {
		c := coordinators{leaders: map[int32]kafka.Leader{}}
		for i, l := range leaders {
			c.leaders[int32(i)] = l
		}
		return c
	}
	for _, c := range []struct {
		name          string
		before, after coordinators
		want          error
	}{
		{"all stay", of(kafka.Leader{Broker: 1, Epoch: 4}, kafka.Leader{Broker: 2, Epoch: 1}), of(kafka.Leader{Broker: 1, Epoch: 4}, kafka.Leader{Broker: 2, Epoch: 1}), nil},
		{"not seen", of(), of(), nil},
		{"another broker", of(kafka.Leader{Broker: 1, Epoch: 4}), of(kafka.Leader{Broker: 2, Epoch: 5}), kerr.NotCoordinator},
		{"there and back", of(kafka.Leader{Broker: 1, Epoch: 4}), of(kafka.Leader{Broker: 1, Epoch: 6}), kerr.NotCoordinator},
		{"without leader all the time", of(kafka.Leader{Broker: -1, Epoch: 4}), of(kafka.Leader{Broker: -1, Epoch: 4}), kerr.CoordinatorNotAvailable},
		{"lost its leader", of(kafka.Leader{Broker: 1, Epoch: 4}), of(kafka.Leader{Broker: -1, Epoch: 5}), kerr.CoordinatorNotAvailable},
	} {
		if err := c.before.movedTo(c.after); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
