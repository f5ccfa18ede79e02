package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// startHiccups takes the processors away from everybody else, each by itself, for
// random times of up to LATCHFS_HICCUPS (100ms, say): as a busy host does to a virtual
// machine. Between any two steps of a program others may do very much then, which
// finds what happens on an idle machine once in a thousand runs. It needs root.
func startHiccups() error {
	text := os.Getenv(hiccupsEnv)
	if text == "" {
		return nil
	}
	longest, err := time.ParseDuration(text)
	if err != nil || longest <= 0 {
		return fmt.Errorf("%s=%q is no duration", hiccupsEnv, text)
	}
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	failed := make(chan error)
	for cpu, seen := 0, 0; seen < all.Count(); cpu++ {
		if all.IsSet(cpu) {
			seen++
			go hog(cpu, longest, failed)
			if err := <-failed; err != nil {
				return fmt.Errorf("hiccups: %w", err)
			}
		}
	}
	return nil
}

// hog keeps one processor busy again and again, before everybody else, a quarter of
// the time. It reports once whether it can.
func hog(cpu int, longest time.Duration, failed chan<- error) {
	runtime.LockOSThread()
	var own unix.CPUSet
	own.Set(cpu)
	err := unix.SchedSetaffinity(0, &own)
	if err == nil {
		err = unix.SchedSetAttr(0, &unix.SchedAttr{
			Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1,
		}, 0)
	}
	if failed <- err; err != nil {
		return
	}
	for {
		time.Sleep(rand.N(3 * longest))
		for end := time.Now().Add(rand.N(longest)); time.Now().Before(end); {
		}
	}
}
