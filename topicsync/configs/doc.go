// Package configs keeps the settings of a link's target topics like those of their source topics: which ones a mirror has,
// what lockstep wrote of them, and what happens to a setting that somebody else wrote there.
//
// A setting belongs to lockstep when lockstep wrote it and it still has the value that was written. Everything else on the target is kept
// and shown. What was written, and what the source showed last, is in the link's state topic, so that a promotion needs no
// source.
package configs
