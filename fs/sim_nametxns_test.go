package fs

import (
	"fmt"
	"strings"
	"testing"
)

// Transactions on names that come to harm at each of their steps.

// nameTxns are such transactions, each with what its program does.
var nameTxns = []string{
	"begin b; mkdir e; mv a e/a; commit",
	"begin b; mkdir e; mkdir e/f; echo e/f/a; mv a b; rm d/a; commit",
	"begin a; mv d/a a; mv d/b b; rmdir d; commit",
	"begin a; mv a d/t; mv d/a a; mv d/t d/a; commit",
	"begin b; mkdir e; mv a e/a; mkdir e/f; rollback",
}

// The power fails at each step.
func TestPowerFailsInANameTransaction(t *testing.T) {
	disk := newSimDisk(t, simDiskKinds[0])
	harmEachStep(t, nameTxns[:2], "cut", func(script simScript) simOptions {
		script.hazards.cuts = 1
		return simOptions{seed: 1, script: script, disk: disk}
	})
}

// The daemon dies at each step.
func TestDaemonDiesInANameTransaction(t *testing.T) {
	harmEachStep(t, nameTxns, "crash", func(script simScript) simOptions { return simOptions{seed: 1, script: script} })
}

// The disk fails at each step.
func TestDiskFailsInANameTransaction(t *testing.T) {
	harmEachStep(t, nameTxns, "fault", func(script simScript) simOptions { return simOptions{seed: 1, script: script} })
}

// harmEachStep runs each transaction again and again, with harm at one step further, until it
// has ended before that.
func harmEachStep(t *testing.T, txns []string, harm string, of func(simScript) simOptions) {
	for _, text := range txns {
		for n := 1; ; n++ {
			o := of(simScript{programs: []simProgram{simProgramOf("ann", strings.Split(text, "; ")...)}})
			o.turns = []string{fmt.Sprintf("%s at step %d", harm, n), "ann to the end"}
			if w := inTurnsOf(t, o); len(w.buried) == 0 && len(w.model.faults) == 0 {
				if n < 10 {
					t.Fatalf("%s: the daemon has taken only %d steps", text, n)
				}
				break
			}
		}
	}
}
