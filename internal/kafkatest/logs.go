package kafkatest

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// Log returns the last lines of a broker's log, at most max.
func (c *Cluster) Log(node int32, max int) string { return tail(c.node(node).logFile(), max) }

// tail returns the last max lines of a file.
func tail(path string, max int) string {
	lines := lastLines(path)
	return strings.Join(lines[len(lines)-min(max, len(lines)):], "\n")
}

// complaints returns lines of a broker's log that tell of trouble: the first max, or the last −max.
func complaints(path string, max int) string {
	var out []string
	for _, l := range lastLines(path) {
		if isComplaint(l) {
			out = append(out, l)
		}
	}
	if max < 0 {
		out = out[len(out)-min(-max, len(out)):]
	} else {
		out = out[:min(max, len(out))]
	}
	if len(out) == 0 {
		return "(none)"
	}
	return strings.Join(out, "\n")
}

func isComplaint(line string) bool {
	if strings.Contains(line, " INFO ") || strings.Contains(line, "Node may not be available") {
		return false
	}
	for _, s := range []string{" WARN ", " ERROR ", " FATAL ", "Exception", "Caused by", "Error"} {
		if strings.Contains(line, s) {
			return true
		}
	}
	return false
}

// lastLines returns the lines of the file's last 256 KiB; a file that cannot be read gives the reason.
func lastLines(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > 256<<10 {
		_, _ = f.Seek(-256<<10, io.SeekEnd) // on failure more is read, no harm
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return []string{err.Error()}
	}
	return strings.Split(string(bytes.TrimSpace(b)), "\n")
}
