package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/model"
)

// DefaultServer is where a service listens unless it was told otherwise.
const DefaultServer = "http://127.0.0.1:7480"

// maxAnswer bounds what the client reads: a hundred thousand lanes fit.
const maxAnswer = 256 << 20

// Client asks a running service. It is a Backend, so that a command need not know whether it asks a service or reads
// the target itself. Its errors are *Error where the service answered one.
type Client struct {
	base *url.URL
	http *http.Client
}

var _ Backend = (*Client)(nil)

// ErrNoService means that nobody listens where a service was asked.
var ErrNoService = errors.New("no service answers")

// NewClient returns a client of the service at server ("http://127.0.0.1:7480"; empty: DefaultServer). It does no I/O.
// A nil hc is a client of its own; a question may take 30 seconds, an order longer.
func NewClient(server string, hc *http.Client) (*Client, error) {
	if server == "" {
		server = DefaultServer
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("parse server %q: want http://host:port, for example %s", server, DefaultServer)
	}
	if hc == nil {
		hc = &http.Client{}
	}
	return &Client{base: u, http: hc}, nil
}

// LaneFilter chooses lanes by source topic and by state or reason; an empty list chooses all.
type LaneFilter struct {
	Topics, States []string
}

func (f LaneFilter) apply(lanes []Lane) []Lane {
	return slices.DeleteFunc(slices.Clone(lanes), func(l Lane) bool {
		return len(f.Topics) > 0 && !slices.Contains(f.Topics, l.Topic) ||
			len(f.States) > 0 && !slices.Contains(f.States, l.State) && !slices.Contains(f.States, l.Shown())
	})
}

// Status returns the links as the service sees them, and its configuration.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var out Status
	err := c.get(ctx, &out, nil, "api", "v1", "status")
	return out, err
}

// Links returns the links as the service sees them.
func (c *Client) Links(ctx context.Context) ([]Link, error) {
	out, err := c.Status(ctx)
	return out.Links, err
}

// Link returns one link.
func (c *Client) Link(ctx context.Context, link string) (Link, error) {
	var out LinkStatus
	err := c.get(ctx, &out, nil, "api", "v1", "links", link)
	return out.Link, err
}

// Lanes returns all lanes of a link.
func (c *Client) Lanes(ctx context.Context, link string) ([]Lane, error) {
	return c.FilteredLanes(ctx, link, LaneFilter{})
}

// FilteredLanes returns the lanes of a link that f chooses; the service chooses, so that few travel.
func (c *Client) FilteredLanes(ctx context.Context, link string, f LaneFilter) ([]Lane, error) {
	var out Lanes
	err := c.get(ctx, &out, url.Values{"topic": f.Topics, "state": f.States}, "api", "v1", "links", link, "lanes")
	return out.Lanes, err
}

// Lane returns one lane.
func (c *Client) Lane(ctx context.Context, link, topic string, partition int32) (LaneDetail, error) {
	var out LaneAnswer
	err := c.get(ctx, &out, nil, "api", "v1", "links", link, "lanes", topic, strconv.Itoa(int(partition)))
	return out.Lane, err
}

// GroupFilter chooses groups by state; without states it leaves out, unless All is set, those that are excluded or have
// nothing to do with the link.
type GroupFilter struct {
	States []string
	All    bool
}

// Apply returns the groups that the filter chooses.
func (f GroupFilter) Apply(groups []Group) []Group {
	return slices.DeleteFunc(slices.Clone(groups), func(g Group) bool {
		if len(f.States) > 0 {
			return !slices.Contains(f.States, g.State)
		}
		return !f.All && g.Aside()
	})
}

// Groups returns all groups of a link.
func (c *Client) Groups(ctx context.Context, link string) ([]Group, error) {
	return c.FilteredGroups(ctx, link, GroupFilter{All: true})
}

// Topics returns all topics of a link's source.
func (c *Client) Topics(ctx context.Context, link string) ([]Topic, error) {
	var out Topics
	err := c.get(ctx, &out, url.Values{"all": {"true"}}, "api", "v1", "links", link, "topics")
	return out.Topics, err
}

// Diff compares both sides.
func (c *Client) Diff(ctx context.Context, link string, topics []string) (Diff, error) {
	var out Diff
	err := c.get(ctx, &out, url.Values{"topic": topics}, "api", "v1", "links", link, "diff")
	return out, err
}

// FilteredGroups returns the groups of a link that f chooses; the service chooses, so that few travel.
func (c *Client) FilteredGroups(ctx context.Context, link string, f GroupFilter) ([]Group, error) {
	q := url.Values{"state": f.States}
	if f.All {
		q.Set("all", "true")
	}
	var out Groups
	err := c.get(ctx, &out, q, "api", "v1", "links", link, "groups")
	return out.Groups, err
}

// Group returns one group with its positions.
func (c *Client) Group(ctx context.Context, link, group string) (GroupDetail, error) {
	var out GroupAnswer
	err := c.get(ctx, &out, nil, "api", "v1", "links", link, "groups", group)
	return out.Group, err
}

// GroupHistory returns where a group stood over time.
func (c *Client) GroupHistory(ctx context.Context, link, group string) ([]GroupMoment, error) {
	var out GroupHistory
	err := c.get(ctx, &out, nil, "api", "v1", "links", link, "groups", group, "history")
	return out.History, err
}

// Gaps returns the gap ledger of a link.
func (c *Client) Gaps(ctx context.Context, link string) ([]Gap, error) {
	var out Gaps
	err := c.get(ctx, &out, nil, "api", "v1", "links", link, "gaps")
	return out.Gaps, err
}

// Lag returns the lag of every lane of a link.
func (c *Client) Lag(ctx context.Context, link string) ([]Lag, error) {
	var out LagAnswer
	err := c.get(ctx, &out, nil, "api", "v1", "links", link, "lag")
	return out.Lag, err
}

// Translate translates offsets of a link.
func (c *Client) Translate(ctx context.Context, link string, req TranslateRequest) ([]Offset, error) {
	req.Offsets = full(req.Offsets)
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	var out Offsets
	err = c.do(ctx, http.MethodPost, c.url(nil, "api", "v1", "links", link, "translate"), bytes.NewReader(body), &out)
	return out.Offsets, err
}

// Order has the service carry out an order, or plan it. The service takes at most the time that ctx leaves, one minute
// where it has no end.
func (c *Client) Order(ctx context.Context, link string, o model.Order) ([]model.OrderStep, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode order: %w", err)
	}
	timeout := defaultOrderTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = min(max(time.Until(end), time.Second), maxOrderTimeout).Round(time.Millisecond)
	}
	// The answer tells which subjects got there in time: it is waited for beyond the order's own end.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout+answerGrace)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})()
	var out OrderAnswer
	target := c.url(url.Values{"timeout": {timeout.String()}}, "api", "v1", "links", link, "orders")
	err = c.do(asking, http.MethodPost, target, bytes.NewReader(body), &out)
	return out.Steps, err
}

// Ready returns nil when the service does its work, and else what it waits for.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, c.url(nil, "readyz"), nil, nil)
}

func (c *Client) get(ctx context.Context, out any, q url.Values, path ...string) error {
	return c.do(ctx, http.MethodGet, c.url(q, path...), nil, out)
}

// url joins path segments under the server's own path, each escaped: a link may have a slash in its name.
func (c *Client) url(q url.Values, path ...string) string {
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = url.PathEscape(p)
	}
	u := strings.TrimSuffix(c.base.String(), "/") + "/" + strings.Join(escaped, "/")
	if enc := q.Encode(); enc != "" {
		u += "?" + enc
	}
	return u
}

// askTimeout bounds a request whose context has no end.
const askTimeout = 30 * time.Second

// do sends one request and reads the answer into out (nil: the body is not looked at).
func (c *Client) do(ctx context.Context, method, target string, body io.Reader, out any) (err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askTimeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return fmt.Errorf("build request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unheard(ctx, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", target, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(target, resp.StatusCode, answer)
	}
	if out == nil {
		return nil
	}
	return decode(target, answer, out)
}

// unheard says that no answer came. Where nobody listens the reader needs to know where that is, not how it was asked.
func (c *Client) unheard(ctx context.Context, err error) error {
	var asking *url.Error
	if errors.As(err, &asking) {
		err = asking.Err
	}
	var dial *net.OpError
	if ctx.Err() == nil && errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w at %s (%w): start it there with lockstep run, or name another one with --server", ErrNoService, c.base, dial.Err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the service at %s does not answer: %w", c.base, err)
	}
	return fmt.Errorf("ask the service at %s: %w", c.base, err)
}

// decode reads an answer and refuses one of a newer schema: its fields may mean something else.
func decode(target string, answer []byte, out any) error {
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(answer, &head); err != nil {
		return fmt.Errorf("read answer of %s: it is not lockstep that listens there: %w", target, err)
	}
	if head.Schema != Schema {
		return fmt.Errorf("read answer of %s: it has schema %d, this program knows %d; use the service's version of lockstep", target, head.Schema, Schema)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("read answer of %s: %w", target, err)
	}
	return nil
}

// refusal turns an answer other than 200 into an error, the service's own one where it sent one.
func refusal(target string, status int, answer []byte) error {
	var e errorAnswer
	if err := json.Unmarshal(answer, &e); err != nil || e.Error == nil {
		return fmt.Errorf("ask %s: it answered %d %s, not in the form of lockstep", target, status, http.StatusText(status))
	}
	e.Error.Status = status
	return e.Error
}
