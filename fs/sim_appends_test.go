package fs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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

// drawParts lets programs append some of their records in pieces. What is judged waits otherwise.
func (s *simScript) drawParts(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 37))
	if s.hazards.judges != 0 || r.IntN(3) != 0 {
		return
	}
	for i := range s.programs {
		for j, line := range s.programs[i].lines {
			if file, is := strings.CutPrefix(line, "log "); is && r.IntN(3) > 0 {
				s.programs[i].lines[j] = "parts " + file
			}
		}
	}
}

// lineWait is how long a piece of a line waits for the rest at least.
const lineWait = 90 * time.Millisecond

// append appends a record, at once or in two pieces. Nobody sees the first alone, unless the
// program takes its time.
func (p *simProc) append(fd int, text string, parts bool) unix.Errno {
	if !parts {
		return p.write(fd, text)
	}
	f := p.fds[fd]
	p.w.model.begins(f)
	e := p.write(fd, text[:len(text)/2])
	if e == 0 {
		e = p.write(fd, text[len(text)/2:])
	}
	switch e {
	case 0:
		p.w.model.finishes(f)
	case unix.ENOTCONN: // what its daemon had of the line is gone
	default: // the pieces that were not refused are in the file, as on a plain directory
		p.w.model.breaksOff()
	}
	return e
}

// begins notes that a program has begun a line of an open file.
func (m *simModel) begins(f *simFile) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.lineBegan = time.Now()
	m.lines = append(m.lines, f)
}

// breaksOff notes that a program was refused a piece of a line.
func (m *simModel) breaksOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live = true
	m.done["a line may be seen in pieces"]++
}

// finishes notes that it has finished the line, or is dead. Where it has taken its time, others may
// have seen the pieces, and what they have appended may stand in between.
func (m *simModel) finishes(f *simFile) {
	m.mayTear()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = slices.DeleteFunc(m.lines, func(o *simFile) bool { return o == f })
}

// mayTear reports whether somebody may have seen a piece of a line. Nothing more is asked of such
// a run than that the daemon goes on.
func (m *simModel) mayTear() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.live && slices.ContainsFunc(m.lines, func(f *simFile) bool { return time.Since(f.lineBegan) >= lineWait }) {
		m.live = true
		m.done["a line may be seen in pieces"]++
	}
	return m.live
}

// A program is killed when it has appended the first piece of a line. Nobody ever sees that.
func TestKilledInALine(t *testing.T) {
	for _, quiet := range []string{"10ms pass", "200ms pass"} {
		w := inTurns(t, []simProgram{simProgramOf("ann", "parts a"), simProgramOf("bob", "log a", "cat a")},
			"ann until call write a", "ann until WRITE a", "ann until call write a", quiet, "bob until call open a to read", "kill ann", "ann to the end", "the kernel to the end", "600ms pass", "bob to the end")
		t.Log(w.model.done)
	}
}

// drawEmptied adds programs that empty a log which they have open to append, as drawLocks does.
func (s *simScript) drawEmptied(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 64))
	if r.IntN(8) != 0 || s.hazards.cuts > 0 || s.links() || s.hazards.judges != 0 {
		return
	}
	for i := range 2 {
		p := &s.programs[i] // not the guest, who may only read
		at := p.place(r)
		p.lines = slices.Insert(p.lines, at, []string{"emptylog ", "log ", "emptylog "}[r.IntN(3)]+names[0])
	}
}

// empties reports whether a program empties a log that it has open to append.
func (s simScript) empties() bool { return strings.Contains(s.String(), "emptylog ") }

// emptyLog opens a file to append, empties it through the descriptor, as loggers do that begin a log
// anew, and appends a record.
func (p *simProc) emptyLog(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND)
	if e != 0 {
		return
	}
	began := p.w.now()
	e = p.ftruncate(fd, 0)
	p.w.model.did(p, simOp{kind: "cutlog", path: path, handle: f.handle, errno: p.refusedAs(e, began)}, began)
	v := p.w.model.newVersion(p)
	f.records = append(f.records, simRecord{version: v, began: p.w.now()})
	switch e := p.write(fd, recordText(v)); e {
	case 0:
	case unix.ENOTCONN, unix.EIO, unix.ENOSPC:
		f.records[0].failed = true
	default:
		f.records = nil
	}
	p.close(fd)
}
