package integration

import (
	"flag"
	"os"
	"time"
)

// A run before a change lands draws the same values each time; make stress draws new
// ones, and -rapid.seed repeats a run.
func init() {
	if os.Getenv("LATCHFS_STRESS") != "" {
		return
	}
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}

// drawnSeed is a seed for random choices: the same in each run but those of make stress.
func drawnSeed() int64 {
	if stress() {
		return time.Now().UnixNano()
	}
	return 1
}
