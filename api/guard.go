package api

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// localOnly refuses requests whose Host is not this machine's loopback. A page on the web can make its own name resolve
// to 127.0.0.1 and then read a loopback service through the browser (DNS rebinding); such requests carry the page's name
// in Host, and nothing else tells them apart.
func (h *handler) localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(hostOnly(r.Host)) {
			h.fail(w, r, &Error{
				Status: http.StatusForbidden, Code: CodeForbiddenHost,
				Message: "host " + r.Host + " is not this machine", Hint: "use 127.0.0.1, [::1] or localhost",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses requests that a browser sends on behalf of another site's page and that may change something.
// Programs send none of the headers by which a browser tells where a request comes from, and pass.
func (h *handler) sameOrigin(next http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, &Error{
			Status: http.StatusForbidden, Code: CodeForbiddenOrigin,
			Message: "another site's page sent this request", Hint: "use lockstep's commands, or a program",
		})
	}))
	return guard.Handler(next)
}

// isLoopback reports whether a host, without its port, is "localhost" or a loopback address. Names are not resolved:
// what a name means is up to whoever serves it.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// errorsAsJSON gives the mux's own refusals (no such path, wrong method) the form of every other error.
func (h *handler) errorsAsJSON(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		seen := statusOnly{header: w.Header(), status: http.StatusOK}
		refusal.ServeHTTP(&seen, r)
		if seen.status == http.StatusMethodNotAllowed {
			h.fail(w, r, &Error{
				Status: seen.status, Code: CodeMethodNotAllowed,
				Message: r.Method + " is not allowed for " + r.URL.Path, Hint: "allowed: " + w.Header().Get("Allow"),
			})
			return
		}
		h.fail(w, r, NotFound("the paths begin with /api/v1/", "there is no %s", r.URL.Path))
	})
}

// statusOnly keeps a handler's status and headers and drops its body.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
