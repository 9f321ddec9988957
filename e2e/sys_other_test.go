//go:build !linux

package e2e

import "syscall"

// childAttr: only Linux can tie a child's life to its parent's; elsewhere a killed test leaves its child behind.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
