package e2e

import "syscall"

// childAttr makes the kernel kill the child when the thread that started it ends; process.run keeps that thread.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
