package main

import (
	"os"
	"runtime"
)

// spareProcessors is how many of Go's processors a daemon has beyond those of the machine.
//
// The goroutines that read the kernel's requests, one for each processor when the mount
// begins, block in read(2) with a processor each. As long as all processors are taken in
// that way, the runtime takes one away every 20 microseconds, hands it to another thread,
// and looks again: a tenth of what a small operation costs. It leaves them where they are
// while another one is idle.
const spareProcessors = 2

// addProcessors gives the daemon its spare processors, once it is mounted. GOMAXPROCS in
// the environment is somebody's decision, and stays.
func addProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcessors)
	}
}
