package kafkatest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Ports are drawn from below the range that the kernel gives to outgoing connections, so a stopped broker finds its
// port free when it starts again.
const (
	portMin = 20000
	portMax = 32000
)

// port is a loopback port that no other test process takes while it is held, whether somebody listens or not.
type port struct {
	number int
	free   func()
}

func (p port) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// takePort reserves a free port by a file lock, which the kernel gives up when this process dies.
func takePort() (port, error) {
	dir := filepath.Join(os.TempDir(), "lockstep-test-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return port{}, fmt.Errorf("make folder of port locks: %w", err)
	}
	for range 500 {
		n := portMin + rand.IntN(portMax-portMin)
		free, ok := tryLockFile(filepath.Join(dir, strconv.Itoa(n)))
		if !ok {
			continue
		}
		p := port{number: n, free: free}
		if l, err := net.Listen("tcp", p.addr()); err == nil {
			l.Close()
			return p, nil
		}
		free()
	}
	return port{}, errors.New("find free port: 500 tries failed")
}

// takePorts reserves n ports, or none.
func takePorts(n int) ([]port, error) {
	var ps []port
	for range n {
		p, err := takePort()
		if err != nil {
			freePorts(ps)
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

func freePorts(ps []port) {
	for _, p := range ps {
		p.free()
	}
}
