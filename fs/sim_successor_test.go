package fs

import "testing"

// A program finds a file by its name, and each time that it does another one saves the file before it
// is changed. What it sets is the file's all the same, by the second walk, although the kernel does
// not walk a third time.
func TestAttributeBesideTwoSaves(t *testing.T) {
	for command, request := range map[string]string{"chmod": "SETATTR", "label": "SETXATTR", "grant": "SETXATTR"} {
		t.Run(command, func(t *testing.T) {
			programs := []simProgram{
				simProgramOf("ann", command+" a", "ask a", "stat a"), simProgramOf("bob", "echo a"), simProgramOf("cyn", "echo a"),
				simProgramOf("dan", "cat a"), simProgramOf("eve", "cat a"), // so that the saves get nodes of their own
			}
			inTurns(t, programs, "dan until READ", "ann until "+request, "bob to the end", "the kernel to the end",
				"ann until LOOKUP a", "ann until "+request, "eve until READ", "cyn to the end", "the kernel to the end", "ann to the end")
		})
	}
}
