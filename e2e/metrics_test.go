package e2e

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// metric returns the sum of a metric's series that have all the labels; -1 when there is none.
func (s *service) metric(name string, labels ...string) float64 {
	s.t.Helper()
	sum, found := 0.0, false
	for line := range strings.Lines(s.metrics()) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || series != name && !strings.HasPrefix(series, name+"{") || !hasAll(series, labels) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Fatalf("metric %s: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return -1
	}
	return sum
}

func hasAll(series string, labels []string) bool {
	for _, l := range labels {
		if !strings.Contains(series, l) {
			return false
		}
	}
	return true
}

// metrics is the text that a scraper gets.
func (s *service) metrics() string {
	s.t.Helper()
	return httpGet(s.t, "http://"+s.conf.listen+"/metrics")
}

func httpGet(t testing.TB, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("get %s: status %d, %v", url, resp.StatusCode, err)
	}
	return string(b)
}
