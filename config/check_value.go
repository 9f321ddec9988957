package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"lockstep/internal/when"
)

// maxName keeps "lockstep.<link>.state" and the transactional id well below Kafka's limits.
const maxName = 100

// maxSeparator keeps the names of MirrorMaker 2's topics below Kafka's limit, with the longest names of clusters.
const maxSeparator = 20

// quote shows a value of the operator's in a message, cut when it is long.
func quote(text string) string {
	const longest = 80
	if r := []rune(text); len(r) > longest {
		text = string(r[:longest]) + "…"
	}
	return strconv.Quote(text)
}

func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

// legal reports whether every character may stand in a Kafka topic name.
func legal(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !legalRune(r) })
}

func legalRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// legalTopic reports whether Kafka accepts the name for a topic.
func legalTopic(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= MaxTopicName && legal(name)
}

// checkName serves nodes, clusters and links: all of them become part of topic names, ids or metric labels.
func checkName(text string) string {
	switch {
	case !legal(text):
		return quote(text) + " has characters that a name cannot have"
	case len(text) > maxName:
		return fmt.Sprintf("%s has %d characters", quote(text), len(text))
	}
	return ""
}

// checkSeparator serves names of topics that MirrorMaker 2 would make.
func checkSeparator(text string) string {
	switch {
	case text == "":
		return "is empty"
	case !legal(text):
		return quote(text) + " has characters that a topic name cannot have"
	case len(text) > maxSeparator:
		return fmt.Sprintf("%s has %d characters", quote(text), len(text))
	}
	return ""
}

func checkPlain(text string) string {
	if strings.ContainsFunc(text, unicode.IsSpace) {
		return quote(text) + " has spaces"
	}
	return ""
}

// splitAddress takes host:port apart. wrong is "" when both have the right form.
func splitAddress(text string) (host string, port int, wrong string) {
	host, service, err := net.SplitHostPort(text)
	if err != nil {
		var bad *net.AddrError
		if errors.As(err, &bad) {
			return "", 0, fmt.Sprintf("%s is not host:port (%s)", quote(text), bad.Err)
		}
		return "", 0, quote(text) + " is not host:port"
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return "", 0, fmt.Sprintf("%s has the port %s, which is no number up to 65535", quote(text), quote(service))
	}
	if host != "" && checkHost(host) != "" {
		return "", 0, fmt.Sprintf("%s has the host %s, which is neither a name nor an address", quote(text), quote(host))
	}
	return host, int(n), ""
}

func checkHost(text string) string {
	if _, err := netip.ParseAddr(text); err != nil && !legal(text) {
		return quote(text) + " is neither a host name nor an address"
	}
	return ""
}

func checkBroker(text string) string {
	host, port, wrong := splitAddress(text)
	switch {
	case wrong != "":
		return wrong
	case host == "":
		return quote(text) + " has no host"
	case port == 0:
		return quote(text) + " has port 0"
	}
	return ""
}

func checkListen(text string) string {
	_, _, wrong := splitAddress(text)
	return wrong
}

// checkLoopback refuses what another machine could reach. A name other than localhost could lead anywhere.
func checkLoopback(text string) string {
	host, _, wrong := splitAddress(text)
	if wrong != "" {
		return wrong
	}
	if host == "localhost" {
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return ""
	}
	return quote(text) + " can be reached from other machines, and TLS and tokens for it are not available yet"
}

// checkPattern compiles a pattern. A wildcard of the shell is the usual mistake, so the message says how to write it.
func checkPattern(text string) string {
	_, err := compileWhole(text)
	if err == nil {
		return ""
	}
	wrong := quote(text) + " is not an RE2 pattern"
	var bad *syntax.Error
	if errors.As(err, &bad) {
		wrong += ": " + bad.Code.String()
		if bad.Code == syntax.ErrMissingRepeatArgument {
			wrong += "; for any characters write .* and not *"
		}
	}
	return wrong
}

func checkInclude(text string) string {
	if wrong := checkPattern(text); wrong != "" {
		return wrong
	}
	name, _ := literalName(text)
	if slices.Contains(brokerTopics, name) || slices.Contains(brokerTopics, text) {
		return quote(text) + " belongs to the brokers and is never copied"
	}
	return ""
}

// checkRename demands exactly one {topic}: without it all topics would become one, and with one of them two source
// topics never become one target topic.
func checkRename(text string) string {
	rest := strings.Replace(text, topicVariable, "", 1)
	switch {
	case rest == text:
		return quote(text) + " has no {topic}"
	case strings.Contains(rest, topicVariable):
		return quote(text) + " has more than one {topic}"
	case !legal(rest):
		return quote(text) + " has characters that a topic name cannot have"
	case len(rest) >= MaxTopicName:
		return quote(text) + " is too long for a topic name"
	case strings.HasPrefix(text, "lockstep."), strings.HasPrefix(text, "__"):
		return quote(text) + " makes names that are kept for internal topics"
	}
	return ""
}

// checkGroupRename demands exactly one {group}, as checkRename does for topics. Group names may hold any character.
func checkGroupRename(text string) string {
	rest := strings.Replace(text, groupVariable, "", 1)
	switch {
	case rest == text:
		return quote(text) + " has no {group}"
	case strings.Contains(rest, groupVariable):
		return quote(text) + " has more than one {group}"
	case strings.HasPrefix(text, ownGroups):
		return quote(text) + " makes names that are kept for lockstep itself"
	}
	return ""
}

// checkStart refuses times before 1970: in Kafka's protocol negative times have meanings of their own.
func checkStart(text string) string {
	if text == "earliest" || text == "latest" {
		return ""
	}
	t, err := when.Parse(text, time.Now())
	if err != nil {
		return err.Error()
	}
	if t.UnixMilli() < 0 {
		return quote(text) + " is before 1970"
	}
	return ""
}

// checkSecret judges the form only. Its messages never contain the text, since it may be the secret itself.
func checkSecret(text string) string {
	name, fromEnv := strings.CutPrefix(text, "env:")
	path, fromFile := strings.CutPrefix(text, "file:")
	switch {
	case text == "":
		return "is empty"
	case text == Redacted:
		return "is the placeholder that stands for a secret in printed configurations"
	case fromEnv && !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name):
		return "has env: without the name of an environment variable behind it"
	case fromFile && path == "":
		return "has file: without a path behind it"
	}
	return ""
}
