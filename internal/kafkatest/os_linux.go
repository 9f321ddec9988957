package kafkatest

import "syscall"

// childAttr makes the kernel kill the child when the thread that started it ends; process.run keeps that thread.
// A process group of its own keeps a terminal's interrupt away from the child: the test stops it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
