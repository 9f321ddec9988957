package config

import "strings"

// nearest returns the candidate that a mistyped word most probably means, or "" when none is near. Capitals, hyphens
// and underscores do not count, so that clientId finds client_id.
func nearest(word string, candidates []string) string {
	w := bare(word)
	best, bestDistance := "", max(1, min(3, len(w)/3))+1
	if len(word) > 2*maxName {
		return ""
	}
	for _, c := range candidates {
		if d := distance(w, bare(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func bare(word string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(word))
}

// distance counts the letters to insert, delete, change or swap with a neighbour (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			change := 1
			if s[i-1] == t[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}
