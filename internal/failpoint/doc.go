// Package failpoint marks places where a test build, made with the tag failpoint, may kill the process: as a crash
// exactly there would. In any other build it does nothing.
package failpoint
