// Command client is the other program of the integration tests: it reads
// requests from standard input, carries each out as one system call on its main
// thread, and answers on standard output. Because every operation runs on the
// main thread, the process id is also the thread id that latchfs sees, and
// /proc/PID/syscall tells what the client is blocked in.
//
// It handles no signal and repeats no interrupted call: what a test sees is what
// the kernel said.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

type handler func(*process, wire.Request) (wire.Result, error)

// process is what the client keeps between requests.
type process struct {
	maps map[int][]byte // mappings by their number
	next int            // number of the next mapping
}

var handlers = map[string]handler{}

func register(more map[string]handler) {
	for name, h := range more {
		handlers[name] = h
	}
}

func init() {
	runtime.LockOSThread()
	register(fileOps)
	register(pathOps)
	register(lockOps)
	register(shareOps)
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func serve() error {
	p := &process{maps: map[int][]byte{}, next: 1}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // the test closed its end: a clean exit
		}
		var req wire.Request
		if err := json.Unmarshal(line, &req); err != nil {
			return err
		}
		h := handlers[req.Op]
		if h == nil {
			return fmt.Errorf("unknown operation %q", req.Op)
		}
		start := time.Now()
		res, err := h(p, req)
		res.Micros = time.Since(start).Microseconds()
		if err != nil {
			var errno unix.Errno
			if !errors.As(err, &errno) {
				return fmt.Errorf("%s: %w", req.Op, err)
			}
			res.Errno = int(errno)
		}
		if err := out.Encode(res); err != nil {
			return err
		}
	}
}

func count(n int, err error) (wire.Result, error) { return wire.Result{N: int64(n)}, err }

func nothing(err error) (wire.Result, error) { return wire.Result{}, err }
