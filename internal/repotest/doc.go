// Package repotest holds the repository to its own rules: which package may import which, what no file may name, and
// that the documents name only what exists. It has tests only.
package repotest
