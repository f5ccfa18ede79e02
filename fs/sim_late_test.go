package fs

import (
	"strings"
	"testing"
)

// An operation has waited for its lock, and is kept on its second walk for longer than the lock
// is reserved for it: another thread may be in the directory, or the machine have no time for
// it. Meanwhile somebody else locks the name. The kernel does not walk a third time, so the
// operation is refused with an errno that programs know, not with ESTALE.
func TestSecondWalkComesTooLate(t *testing.T) {
	for line, request := range map[string]string{
		"mv d/a a": "RENAME a a", "exchange d/a a": "RENAME a a", "rm d/a": "UNLINK a", "ln d/a b": "LINK b",
		"chmod d/a": "SETATTR", "truncate d/a": "SETATTR",
	} {
		t.Run(line, func(t *testing.T) {
			programs := []simProgram{simProgramOf("ann", "echo d/a"), simProgramOf("bob", line), simProgramOf("cyn", "tree d d/b")}
			w := inTurns(t, programs, "cyn until call write .locks/control", "ann until call close d/a", "bob to the end", "ann to the end",
				"bob until "+request, "6s pass", "cyn until call open d/b", "bob to the end", "1s pass", "bob to the end", "cyn to the end")
			var answers []string
			for _, l := range w.lines {
				if _, answer, ok := strings.Cut(l, "bob[2] "+request); ok {
					answers = append(answers, answer[strings.LastIndex(answer, ": "):])
				}
			}
			if got := strings.Join(answers, ""); got != ": stale file handle: device or resource busy" {
				t.Errorf("the answers to bob are %q", got)
			}
		})
	}
}
