//go:build unix && !linux

package kafkatest

import "syscall"

// childAttr: only Linux can tie a child's life to its parent's; elsewhere a killed test leaves its brokers behind.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// isFrozen cannot look elsewhere than on Linux, and believes the signal.
func isFrozen(int) bool { return true }
