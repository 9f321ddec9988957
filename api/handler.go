package api

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxBody bounds a request's body: room for some 50,000 positions to translate.
const maxBody = 4 << 20

// Handler serves the JSON interface, health and metrics of one instance. It refuses requests whose Host is not this
// machine, so it belongs behind ListenLoopback. A nil gatherer leaves /metrics out; a nil logger
// logs nothing.
func Handler(b Backend, metrics prometheus.Gatherer, log *slog.Logger) http.Handler {
	h := &handler{backend: b, log: orDiscard(log)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/status", h.status)
	mux.HandleFunc("GET /api/v1/links/{link}", h.link)
	mux.HandleFunc("GET /api/v1/links/{link}/lanes", h.lanes)
	mux.HandleFunc("GET /api/v1/links/{link}/lanes/{topic}/{partition}", h.lane)
	mux.HandleFunc("GET /api/v1/links/{link}/groups", h.groups)
	mux.HandleFunc("GET /api/v1/links/{link}/groups/{group}", h.group)
	mux.HandleFunc("GET /api/v1/links/{link}/groups/{group}/history", h.groupHistory)
	mux.HandleFunc("GET /api/v1/links/{link}/topics", h.topics)
	mux.HandleFunc("GET /api/v1/links/{link}/diff", h.diff)
	mux.HandleFunc("GET /api/v1/links/{link}/gaps", h.gaps)
	mux.HandleFunc("GET /api/v1/links/{link}/lag", h.lag)
	mux.HandleFunc("POST /api/v1/links/{link}/translate", h.translate)
	mux.HandleFunc("POST /api/v1/links/{link}/orders", h.order)
	h.monitoring(mux, metrics)
	return h.localOnly(h.sameOrigin(http.MaxBytesHandler(h.errorsAsJSON(mux), maxBody)))
}

// MonitoringHandler serves /healthz, /readyz and /metrics only, to any address: what a scraper or an orchestrator on
// another machine needs, and nothing about topics beyond the metrics' labels.
func MonitoringHandler(r Readiness, metrics prometheus.Gatherer, log *slog.Logger) http.Handler {
	h := &handler{ready: r, log: orDiscard(log)}
	mux := http.NewServeMux()
	h.monitoring(mux, metrics)
	return http.MaxBytesHandler(h.errorsAsJSON(mux), maxBody)
}

type handler struct {
	backend Backend
	ready   Readiness // nil: the backend
	log     *slog.Logger
}

func (h *handler) monitoring(mux *http.ServeMux, metrics prometheus.Gatherer) {
	if h.ready == nil {
		h.ready = h.backend
	}
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.HandleFunc("GET /readyz", h.readyz)
	if metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
		}))
	}
}

// healthz says that the process serves requests; it asks nobody, so that a broken cluster does not get this instance
// restarted.
func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	writeText(w, "ok\n")
}

func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	if err := h.ready.Ready(r.Context()); err != nil {
		h.fail(w, r, &Error{Status: http.StatusServiceUnavailable, Code: CodeNotReady, Message: err.Error(), Hint: "wait, or see /api/v1/status"})
		return
	}
	writeText(w, "ready\n")
}

func (h *handler) status(w http.ResponseWriter, r *http.Request) {
	links, err := h.backend.Links(r.Context())
	s := Status{Schema: Schema, Links: full(links)}
	if b, ok := h.backend.(ConfigReader); ok && err == nil {
		s.Config = new(ConfigStatus)
		*s.Config, err = b.Config(r.Context())
	}
	h.answer(w, r, s, err)
}

func (h *handler) link(w http.ResponseWriter, r *http.Request) {
	links, err := h.backend.Links(r.Context())
	if err != nil {
		h.fail(w, r, err)
		return
	}
	l, err := findLink(links, r.PathValue("link"))
	h.answer(w, r, LinkStatus{Schema: Schema, Link: l}, err)
}

// lanes lists the lanes of a link; the queries topic and state, each allowed more than once, choose among them.
func (h *handler) lanes(w http.ResponseWriter, r *http.Request) {
	lanes, err := h.backend.Lanes(r.Context(), r.PathValue("link"))
	q := r.URL.Query()
	h.answer(w, r, Lanes{Schema: Schema, Lanes: full(LaneFilter{Topics: q["topic"], States: q["state"]}.apply(lanes))}, err)
}

func (h *handler) lane(w http.ResponseWriter, r *http.Request) {
	p, err := strconv.ParseInt(r.PathValue("partition"), 10, 32)
	if err != nil || p < 0 {
		h.fail(w, r, BadRequest("a partition is a number from 0 on", "partition %q is not a number", r.PathValue("partition")))
		return
	}
	d, err := h.backend.Lane(r.Context(), r.PathValue("link"), r.PathValue("topic"), int32(p))
	d.Gaps = full(d.Gaps)
	h.answer(w, r, LaneAnswer{Schema: Schema, Lane: d}, err)
}

// groups lists the groups of a link. The query state, allowed more than once, chooses among them; without it, all=true
// adds those that are left out or have nothing to do with the link.
func (h *handler) groups(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	all, bad := allParam(r)
	if bad != nil {
		h.fail(w, r, bad)
		return
	}
	groups, err := h.backend.Groups(r.Context(), r.PathValue("link"))
	h.answer(w, r, Groups{Schema: Schema, Groups: full(GroupFilter{States: q["state"], All: all}.Apply(groups))}, err)
}

// allParam reads all=true or false; without it, it is false.
func allParam(r *http.Request) (bool, *Error) {
	text := r.URL.Query().Get("all")
	all, err := strconv.ParseBool(cmp.Or(text, "false"))
	if err != nil {
		return false, BadRequest("true or false", "all %q is not allowed", text)
	}
	return all, nil
}

func (h *handler) group(w http.ResponseWriter, r *http.Request) {
	d, err := h.backend.Group(r.Context(), r.PathValue("link"), r.PathValue("group"))
	d.Positions = full(d.Positions)
	h.answer(w, r, GroupAnswer{Schema: Schema, Group: d}, err)
}

func (h *handler) groupHistory(w http.ResponseWriter, r *http.Request) {
	moments, err := h.backend.GroupHistory(r.Context(), r.PathValue("link"), r.PathValue("group"))
	h.answer(w, r, GroupHistory{Schema: Schema, History: full(moments)}, err)
}

func (h *handler) gaps(w http.ResponseWriter, r *http.Request) {
	gaps, err := h.backend.Gaps(r.Context(), r.PathValue("link"))
	h.answer(w, r, Gaps{Schema: Schema, Gaps: full(gaps)}, err)
}

func (h *handler) lag(w http.ResponseWriter, r *http.Request) {
	lanes, err := h.backend.Lanes(r.Context(), r.PathValue("link"))
	h.answer(w, r, LagAnswer{Schema: Schema, Lag: LagOf(lanes)}, err)
}

func (h *handler) translate(w http.ResponseWriter, r *http.Request) {
	var req TranslateRequest
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil {
		h.fail(w, r, BadRequest(`send {"offsets":[{"topic":"orders","partition":0,"offset":12345}]}`, "read request: %v", err))
		return
	}
	offsets, err := h.backend.Translate(r.Context(), r.PathValue("link"), req)
	h.answer(w, r, Offsets{Schema: Schema, Offsets: full(offsets)}, err)
}

// answer sends v, or err when there is one.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.send(w, http.StatusOK, v)
}

func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asError(err)
	if e.Code == CodeInternal {
		h.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	h.send(w, e.Status, errorAnswer{Schema: Schema, Error: e})
}

// send encodes before it writes the status, so that a value that cannot be encoded is an error and not half an answer.
func (h *handler) send(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		h.log.Error("encode answer", "error", err)
		http.Error(w, `{"schema":1,"error":{"code":"internal","message":"encode answer","hint":"the service's log tells more"}}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone: nobody is left to tell
}

func writeText(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(s)) // the client may be gone: nobody is left to tell
}

func findLink(links []Link, name string) (Link, error) {
	for _, l := range links {
		if l.Name == name {
			return l, nil
		}
	}
	return Link{}, NotFound("lockstep status lists the links", "there is no link %q", name)
}

// full turns a nil list into an empty one: an answer's list is [] and never null.
func full[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
