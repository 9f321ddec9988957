// Package model holds the nouns that every other package shares: lanes, cursors, terms, spans, states.
//
// It imports the standard library only, does no I/O and starts no goroutine. Offsets are "next to read" unless a
// field says otherwise; the source always comes before the target.
package model
