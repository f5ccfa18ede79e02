package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// insideEnv marks the process that runs in a mount namespace of its own.
const insideEnv = "LATCHFS_BENCH_INSIDE"

// runInside runs this program again in a mount namespace of its own and answers
// its exit status. No other namespace that is made meanwhile copies our mounts,
// which would keep them busy; and should everything fail, they end with the
// last process that sees them. It reports false where that is not permitted.
func runInside() (status int, ok bool) {
	if os.Geteuid() != 0 || os.Getenv(insideEnv) != "" {
		return 0, false
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}

	// A Ctrl-C reaches both; it is the other's to unmount and to end.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, false
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // twice does no harm, and it may have ended
		}
	}()
	_ = cmd.Wait() // how it ended is in its state
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, true
	}
	return 1, true // killed
}
