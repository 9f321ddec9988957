package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/internal/model"
)

// How long an order may take when its request names no timeout, and at most.
const (
	defaultOrderTimeout = time.Minute
	maxOrderTimeout     = 10 * time.Minute
	// answerGrace is what comes on top for sending the answer and for a client that waits for it.
	answerGrace = 10 * time.Second
)

// OrderAnswer is the answer of POST …/orders: the order's plan, and with which end each of its steps was done.
type OrderAnswer struct {
	Schema int               `json:"schema"`
	Steps  []model.OrderStep `json:"steps"`
}

// order carries out what an operator orders, or with dry_run plans it. The query timeout (60s, "2m") bounds how long
// subjects may take; those that did not get there in time have an error in the answer that says so.
func (h *handler) order(w http.ResponseWriter, r *http.Request) {
	var o model.Order
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		h.fail(w, r, BadRequest(`send {"kind":"retry","lanes":[{"topic":"orders","partition":0}]}`, "read request: %v", err))
		return
	}
	timeout, bad := orderTimeout(r.URL.Query().Get("timeout"))
	if bad == nil {
		bad = checkOrder(o)
	}
	if bad != nil {
		h.fail(w, r, bad)
		return
	}
	// The connection's own limits are for questions, which take no time. A writer without deadlines has no limits.
	end, conn := time.Now().Add(timeout+answerGrace), http.NewResponseController(w)
	_, _ = conn.SetReadDeadline(end), conn.SetWriteDeadline(end)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	link := r.PathValue("link")
	if !o.DryRun {
		h.log.Info("order", "link", link, "kind", o.Kind, "by", o.By, "reason", o.Reason, "lanes", len(o.Lanes), "topics", len(o.Topics), "groups", len(o.Groups), "all", o.All)
	}
	steps, err := h.backend.Order(ctx, link, o)
	h.answer(w, r, OrderAnswer{Schema: Schema, Steps: full(steps)}, err)
}

func orderTimeout(s string) (time.Duration, *Error) {
	if s == "" {
		return defaultOrderTimeout, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > maxOrderTimeout {
		return 0, BadRequest("a timeout is a duration such as 30s, at most "+maxOrderTimeout.String(), "timeout %q is not allowed", s)
	}
	return d, nil
}

// orderForm says which fields an order of a kind may have.
type orderForm struct {
	lanes, oneLane, all, topics, groups, wholeLink, from, kinds bool
}

func orderForms() map[model.OrderKind]orderForm {
	return map[model.OrderKind]orderForm{
		model.OrderPause:   {wholeLink: true, topics: true},
		model.OrderResume:  {wholeLink: true, topics: true},
		model.OrderAccept:  {wholeLink: true, topics: true, groups: true},
		model.OrderRetry:   {lanes: true, all: true},
		model.OrderRebuild: {lanes: true, all: true},
		model.OrderSkip:    {lanes: true, oneLane: true},
		model.OrderAdopt:   {topics: true, from: true},
		model.OrderSync:    {wholeLink: true, topics: true, kinds: true},
	}
}

// checkOrder refuses an order whose subjects do not fit its kind: what it would do must never be a guess.
func checkOrder(o model.Order) *Error {
	f, ok := orderForms()[o.Kind]
	switch {
	case !ok:
		return BadRequest("kinds are pause, resume, accept, retry, skip, rebuild, adopt, sync", "there is no order of kind %q", o.Kind)
	case len(o.Lanes) > 0 && !f.lanes:
		return BadRequest("leave lanes out", "%s takes no lanes", o.Kind)
	case len(o.Topics) > 0 && !f.topics:
		return BadRequest("leave topics out", "%s takes no topics", o.Kind)
	case len(o.Groups) > 0 && !f.groups:
		return BadRequest("leave groups out", "%s takes no groups", o.Kind)
	case len(o.Groups) > 0 && len(o.Topics) > 0:
		return BadRequest("send two orders", "%s takes topics or groups, not both", o.Kind)
	case o.All && (!f.all || len(o.Lanes) > 0):
		return BadRequest("all stands instead of lanes, with retry and rebuild", "%s does not go with these subjects and all", o.Kind)
	case f.oneLane && len(o.Lanes) != 1:
		return BadRequest(`name it: "lanes":[{"topic":"orders","partition":0}]`, "%s takes one lane, not %d", o.Kind, len(o.Lanes))
	case f.lanes && len(o.Lanes) == 0 && !o.All:
		return BadRequest(`name them: "lanes":[{"topic":"orders","partition":0}], or "all":true`, "%s lacks lanes", o.Kind)
	case f.topics && !f.wholeLink && len(o.Topics) == 0:
		return BadRequest(`name them: "topics":["orders"]`, "%s lacks topics", o.Kind)
	}
	return checkOrderFields(o, f)
}

func checkOrderFields(o model.Order, f orderForm) *Error {
	switch {
	case o.To != 0 && o.Kind != model.OrderSkip:
		return BadRequest("leave to out", "%s goes to no offset", o.Kind)
	case o.To < 0:
		return BadRequest("an offset is a number from 0 on", "offset %d is not allowed", o.To)
	case o.From != "" && !f.from:
		return BadRequest("leave from out", "%s has no start", o.Kind)
	case o.From != "" && o.From != "earliest" && o.From != "latest":
		return BadRequest("earliest, latest, or none for the link's own", "start %q is not allowed", o.From)
	}
	if bad := checkKinds(o, f); bad != nil {
		return bad
	}
	for _, l := range o.Lanes {
		if l.Topic == "" || l.Partition < 0 {
			return BadRequest("a lane has a topic and a partition from 0 on", "lane %q/%d is not allowed", l.Topic, l.Partition)
		}
	}
	if slices.Contains(o.Topics, "") {
		return BadRequest("topics have names", "a topic without a name is not allowed")
	}
	if slices.Contains(o.Groups, "") {
		return BadRequest("groups have names", "a group without a name is not allowed")
	}
	return nil
}

// SyncKinds are what a sync may be for.
var SyncKinds = []string{"partitions", "configs", "acls", "quotas"}

func checkKinds(o model.Order, f orderForm) *Error {
	switch {
	case len(o.Kinds) > 0 && !f.kinds:
		return BadRequest("leave kinds out", "%s is not for kinds of things", o.Kind)
	case o.Confirm != 0 && !f.kinds:
		return BadRequest("leave confirm out", "%s removes nothing", o.Kind)
	case o.Confirm < 0:
		return BadRequest("confirm is a number from 0 on", "confirm %d is not allowed", o.Confirm)
	}
	for _, k := range o.Kinds {
		if !slices.Contains(SyncKinds, k) {
			return BadRequest("kinds are "+strings.Join(SyncKinds, ", "), "there is no kind %q", k)
		}
	}
	return nil
}
