package fs

import "testing"

// Appending beside renames: what is appended goes to the file that has the name, and whoever
// has that file open sees it.

// A reader has a file open of which the kernel has forgotten the name, before or while the
// file is renamed. It sees what is appended by the new name.
func TestReaderOfAForgottenName(t *testing.T) {
	programs := []simProgram{simProgramOf("ann", "cat d/a"), simProgramOf("bob", "mv d/a b"), simProgramOf("cyn", "log b")}
	for name, turns := range map[string][]string{
		"before its open":          {"ann until OPEN a", "forget a", "ann until call read d/a", "bob to the end", "cyn to the end", "ann to the end"},
		"after a rename":           {"ann until OPEN a", "bob to the end", "forget b", "ann until call read d/a", "cyn to the end", "ann to the end"},
		"in the midst of a rename": {"ann until call read d/a", "bob until RENAME a b", "forget a", "bob to the end", "cyn to the end", "ann to the end"},
	} {
		t.Run(name, func(t *testing.T) { inTurns(t, programs, turns...) })
	}
}

// A program appends to a file with two names, both of which other files get. While the file
// has one of them the records go to it, and then to the file that has taken its last.
func TestAppenderToTheLastName(t *testing.T) {
	programs := []simProgram{
		simProgramOf("ann", "ln a b"), simProgramOf("bob", "save a"), simProgramOf("cyn", "log b"), simProgramOf("dan", "mv d/a b"),
	}
	for name, turns := range map[string][]string{
		"one name is gone before":          {"bob to the end", "cyn until call write b", "dan to the end"},
		"its own name is gone first":       {"cyn until call write b", "dan to the end", "bob to the end"},
		"its own name is gone last":        {"cyn until call write b", "bob to the end", "dan to the end"},
		"between its first and its second": {"cyn until call write b", "dan to the end", "cyn until WRITE b", "cyn until call write b", "bob to the end"},
		"before it closes the file":        {"cyn until call write b", "dan to the end", "cyn until FLUSH", "bob to the end"},
	} {
		t.Run(name, func(t *testing.T) {
			inTurns(t, programs, append(append([]string{"ann to the end"}, turns...), "cyn to the end")...)
		})
	}
}

// RELEASE is so slow to come that a copy takes the place of the file that was saved, after the
// kernel has found the file and before it renames it. Under the new name the kernel has the
// file that was set apart. What is appended by that name comes to the copy, which has it.
func TestAppenderToARenamedCopy(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "save a", "log a"), simProgramOf("bob", "cat a")},
		"ann until call rename", "950ms pass", "ann until RENAME a.tmp1 a", "100ms pass", "ann to the end", "forget a", "bob to the end")
}
