package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// parse turns a scalar's text into the value of the key: string, bool, int64, Duration or []string. It serves defaults, YAML
// scalars, environment variables and flags alike. wrong says what is wrong with the text; it never contains a secret.
func (k Key) parse(text string) (value any, wrong string) {
	switch k.Type {
	case TypeBool:
		return parseBool(text)
	case TypeInt:
		return parseInt(text)
	case TypeSize:
		return parseSize(text, k.Unit)
	case TypeSpan:
		return parseDuration(text)
	case TypeEnum:
		return k.parseEnum(text)
	case TypeList:
		return parseList(text)
	case TypeSecret:
		return text, checkSecret(text)
	default:
		return text, ""
	}
}

func parseBool(text string) (any, string) {
	switch text {
	case "true":
		return true, ""
	case "false":
		return false, ""
	}
	return nil, quote(text) + " is neither true nor false"
}

func parseInt(text string) (any, string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return nil, quote(text) + " is too large a number"
	}
	if err != nil || strings.HasPrefix(text, "+") {
		return nil, quote(text) + " is not a whole number"
	}
	return n, ""
}

// parseEnum finds the value without regard to case, since brokers spell mechanisms in capital letters.
func (k Key) parseEnum(text string) (any, string) {
	for _, v := range k.Values {
		if strings.EqualFold(v, text) {
			return v, ""
		}
	}
	return nil, quote(text) + " is not known"
}

// sizeForm is a number and a unit, "1.5GiB" as well as "64 MiB"; the number has at most three decimals.
const sizeForm = `^([0-9]+(?:\.[0-9]{1,3})?) ?([A-Za-z]*)$`

// parseSize reads a number of bytes, plain or with a unit: KiB, MiB, GiB, TiB are powers of 1024, kB, MB, GB, TB of
// 1000. A rate may end in "/s".
func parseSize(text, unit string) (any, string) {
	number := strings.TrimSpace(text)
	if unit == "bytes per second" {
		number = strings.TrimSuffix(number, "/s")
	}
	m := regexp.MustCompile(sizeForm).FindStringSubmatch(number)
	if m == nil {
		return nil, quote(text) + " is not a size"
	}
	factor, ok := sizeUnits()[strings.ToLower(m[2])]
	if !ok {
		return nil, fmt.Sprintf("%s has the unknown unit %s", quote(text), quote(m[2]))
	}
	return scale(text, m[1], factor)
}

func sizeUnits() map[string]int64 {
	return map[string]int64{
		"": 1, "b": 1,
		"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
		"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	}
}

// scale multiplies a decimal number in thousandths, so that no rounding of floating point is in the way.
func scale(text, number string, factor int64) (any, string) {
	whole, part, _ := strings.Cut(number, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/factor {
		return nil, quote(text) + " is too large"
	}
	thousandths, _ := strconv.ParseInt((part + "000")[:3], 10, 64)
	rest := thousandths * factor
	if rest%1000 != 0 && factor == 1 {
		return nil, quote(text) + " is not a whole number of bytes"
	}
	total := n*factor + rest/1000
	if total < 0 {
		return nil, quote(text) + " is too large"
	}
	return total, ""
}

// parseList reads a list from one text: a JSON list of texts, or entries between commas.
func parseList(text string) (any, string) {
	list := []string{}
	if strings.TrimSpace(text) == "" {
		return list, ""
	}
	if strings.HasPrefix(text, `["`) {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, quote(text) + " is not a JSON list of texts"
		}
		return list, ""
	}
	for entry := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(entry))
	}
	return list, ""
}

// judge applies the key's range and check to a parsed value that is no list, and says what is wrong with it.
func (k Key) judge(value any) string {
	switch v := value.(type) {
	case int64:
		return k.outOfRange(v)
	case Duration:
		return k.outOfRange(int64(v))
	case string:
		return k.judgeText(v)
	}
	return ""
}

func (k Key) outOfRange(v int64) string {
	switch {
	case v < k.Min:
		return fmt.Sprintf("%s is less than %s", k.amount(v), k.amount(k.Min))
	case v > k.Max:
		return fmt.Sprintf("%s is more than %s", k.amount(v), k.amount(k.Max))
	}
	return ""
}

// judgeText checks a single text. Empty is right only where empty is the default: that a key is required, or has a
// default that an empty text would undo, makes it wrong.
func (k Key) judgeText(text string) string {
	if k.Type == TypeSecret || k.Type == TypeEnum {
		return ""
	}
	if text == "" {
		if k.Required || k.Default != "" {
			return "is empty"
		}
		return ""
	}
	return k.judgeEntry(text)
}

// judgeEntry checks one text: the value of a key, or one entry of a list.
func (k Key) judgeEntry(text string) string {
	if text == "" {
		return "is empty"
	}
	if hasControl(text) {
		return quote(text) + " has control characters"
	}
	if k.check == nil {
		return ""
	}
	return k.check(text)
}

// allowed says what a key takes, for messages and documentation.
func (k Key) allowed() string {
	switch {
	case k.Allowed != "":
		return k.Allowed
	case k.Type == TypeEnum:
		return strings.Join(k.Values, ", ")
	case k.Type == TypeBool:
		return "true, false"
	case k.Type == TypeSize:
		return "a number of " + k.Unit + " or a size such as 64MiB" + k.bounds()
	case k.Type == TypeSpan:
		return "a duration with its unit (ms, s, m, h), such as 2s or 1m30s" + k.bounds()
	case k.Type == TypeInt:
		return "a whole number" + k.bounds()
	}
	return ""
}

func (k Key) bounds() string {
	var b strings.Builder
	if k.Min > 0 || k.Type == TypeInt {
		fmt.Fprintf(&b, ", at least %s", k.amount(k.Min))
	}
	if k.Max < math.MaxInt64 {
		fmt.Fprintf(&b, ", at most %s", k.amount(k.Max))
	}
	return b.String()
}

func (k Key) amount(n int64) string {
	if k.Type == TypeSpan {
		return Duration(n).String()
	}
	if k.Type == TypeSize && n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}
	return strconv.FormatInt(n, 10)
}
