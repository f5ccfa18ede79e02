package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Lines that several programs write in pieces are whole: bash cuts what echo
// prints after 4 KiB, and stdio what it buffers.
func TestLinesInPieces(t *testing.T) {
	const writers, lines = 8, 25
	scripts := map[string]string{
		"held open":     `exec >>log; for ((n = 0; n < $2; n++)); do echo "$1 $n $3"; done`,
		"each its own":  `for ((n = 0; n < $2; n++)); do echo "$1 $n $3" >>log; done`,
		"stdio":         `seq -f "$1 %.0f $3" 0 $(($2 - 1)) >>log`,
		"by a relative": `exec >>log; for ((n = 0; n < $2; n++)); do /bin/echo "$1 $n $3"; done`,
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, script := range scripts {
			m.WriteFile("log", "")
			var ps []*Proc
			long := func(w int) string { return strings.Repeat(string(rune('a'+w)), 9000) }
			for w := range writers {
				ps = append(ps, m.LaunchBash(t, script, fmt.Sprint(w), fmt.Sprint(lines), long(w)))
			}
			for _, p := range ps {
				p.OK()
			}
			got := map[string]int{}
			for line := range strings.Lines(m.ReadFile("log")) {
				got[line]++
			}
			for w := range writers {
				for n := range lines {
					if line := fmt.Sprintf("%d %d %s\n", w, n, long(w)); got[line] != 1 {
						t.Errorf("%s: line %d of writer %d is there %d times", name, n, w, got[line])
					}
				}
			}
			if len(got) != writers*lines {
				t.Errorf("%s: %d different lines, want %d", name, len(got), writers*lines)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// A line that one program has begun is not interrupted by another's, unless it
// takes its time.
func TestUnfinishedLine(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		needsLatchfs(t)
		a, b := m.Client(t), m.Client(t)
		m.WriteFile("log", "")
		fa, fb := a.Open("log", unix.O_RDWR|unix.O_APPEND), b.Open("log", unix.O_WRONLY|unix.O_APPEND)
		want := ""
		eventually(t, "an uninterrupted line", func() bool { // with luck, for there is a delay to be faster than
			before := m.ReadFile("log")
			a.Write(fa, "begun ")
			b.Write(fb, "other\n")
			a.Write(fa, "and finished\n")
			want = before + "other\nbegun and finished\n"
			return m.ReadFile("log") == want
		})
		a.Write(fa, "question? ")
		eventually(t, "the unfinished line in the log", func() bool { return m.ReadFile("log") == want+"question? " })
		a.Write(fa, "answer\n")
		want += "question? answer\n"
		for what, look := range map[string]func() string{
			"fsync": func() string { a.OK(wire.Request{Op: "fsync", FD: fa}); return m.ReadFile("log") },
			"close": func() string {
				a.MustClose(fa)
				fa = a.Open("log", unix.O_RDWR|unix.O_APPEND)
				return m.ReadFile("log")
			},
			"read":  func() string { return a.ReadAt(fa, 1<<20, 0) },
			"fstat": func() string { return strings.Repeat("x", int(a.Fstat(fa).Size)) },
			"seek": func() string {
				return strings.Repeat("x", int(a.OK(wire.Request{Op: "seek", FD: fa, Kind: unix.SEEK_END}).N))
			},
		} {
			a.Write(fa, what)
			want += what
			if got := look(); got != want && got != strings.Repeat("x", len(want)) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		// What does not end goes out in pieces.
		long := strings.Repeat("long", 100_000)
		for range 4 {
			a.Write(fa, long)
			want += long
		}
		a.MustClose(fa)
		b.MustClose(fb)
		if got := m.ReadFile("log"); got != want {
			t.Errorf("the log has %d bytes, want %d", len(got), len(want))
		}
	})
}

// A log that is rotated in either way loses nothing, and what is appended later
// goes where it goes on a plain directory.
func TestRotatedLog(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := m.Client(t)
		c.Save("log", "")
		fd := c.Open("log", unix.O_WRONLY|unix.O_APPEND)
		c.Write(fd, "one\nhalf of ")
		m.control.OK(m.control.path2("rename", "log", "log.1"))
		if err := m.control.Save("log", "created\n"); err != nil {
			t.Fatal(err)
		}
		c.Write(fd, "two\n")
		if got, now := m.ReadFile("log.1"), m.ReadFile("log"); got != "one\nhalf of two\n" || now != "created\n" {
			t.Errorf("after a rename: log.1 %q, log %q", got, now)
		}
		c.OK(wire.Request{Op: "ftruncate", FD: fd})
		c.Write(fd, "three\n")
		if got := m.ReadFile("log.1"); got != "three\n" {
			t.Errorf("after its truncation: %q", got)
		}
		m.LaunchBash(t, `cp log.1 copy && : >log.1`).OK()
		c.Write(fd, "four\n")
		c.MustClose(fd)
		if got := m.ReadFile("log.1"); got != "four\n" {
			t.Errorf("after another's truncation: %q", got)
		}
	})
}

// appendWriter appends numbered lines to argv[1] and says which of them a close
// or an fsync has acknowledged.
const appendWriter = `
import os, random, sys
path, name, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed()
while True:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for _ in range(random.randrange(1, 12)):
        size = random.choice((0, 10, 500, 5000, 70000, 900000 if n % 50 == 0 else 3))
        line = b"%s %d %d %s\n" % (name.encode(), n, size, b"x" * size)
        cut = random.randrange(len(line))
        for piece in (line,) if cut % 2 else (line[:cut], line[cut:]):
            while piece:
                piece = piece[os.write(fd, piece):]
        n += 1
        if random.random() < 0.1:
            os.fsync(fd)
            print(n, flush=True)
    os.close(fd)
    print(n, flush=True)
`

// latchfs is killed while several programs append to one log: every line is
// whole, in its writer's order, and what was acknowledged is there.
func TestCrashWhileAppending(t *testing.T) {
	inStress(t)
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		const writers = 4
		next := make([]int, writers)
		acknowledged := 0
		for round := range repeat(8, 200) {
			m.WriteFile("log", "")
			first, acked := next, make([]int, writers)
			next = make([]int, writers)
			var ps []*Proc
			for w := range writers {
				ps = append(ps, m.LaunchPython(t, appendWriter, "log", fmt.Sprint("w", w), fmt.Sprint(first[w])))
			}
			eventually(t, "something acknowledged", func() bool {
				n := 0
				for _, p := range ps {
					n += strings.Count(p.Stdout(), "\n")
				}
				return n > 20*(round%4)+4
			})
			m.Crash(t)
			for w, p := range ps {
				o := p.Wait()
				acked[w] = first[w]
				if lines := strings.Fields(o.Stdout); len(lines) > 0 {
					fmt.Sscan(lines[len(lines)-1], &acked[w])
				}
				acknowledged += acked[w] - first[w]
			}
			m.Start(t)
			copy(next, first)
			b, err := os.ReadFile(filepath.Join(m.Data, "log"))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(b)) {
				w, n, size := -1, -1, -1
				var x string
				fmt.Sscanf(line, "w%d %d %d %s\n", &w, &n, &size, &x)
				if w < 0 || w >= writers || size < 0 || n != next[w] || line != fmt.Sprintf("w%d %d %d %s\n", w, n, size, strings.Repeat("x", size)) {
					t.Fatalf("round %d: after line %v of each there is %.80q of %d bytes", round, next, line, len(line))
				}
				next[w]++
			}
			for w := range writers {
				if next[w] < acked[w] {
					t.Errorf("round %d: writer %d had %d lines acknowledged, and %d are there", round, w, acked[w], next[w])
				}
			}
			if t.Failed() {
				return
			}
		}
		t.Logf("%d lines acknowledged", acknowledged)
		if acknowledged == 0 {
			t.Error("nothing was ever acknowledged, so nothing was tested")
		}
	})
}

// A service keeps its log open while the log is written anew and then moved, as a
// truncation and a rotation do: its records come to the file that the log has become.
func TestRecordsGoWhereTheNewLogGoes(t *testing.T) {
	exchange := `"$PYTHON" -c 'import ctypes; assert not ctypes.CDLL(None).renameat2(-100, b"log", -100, b"c", 2)'`
	moves := []struct{ by, to string }{ // what follows the new version, and where the log is then
		{"mv log c", "c"},
		{"mv log c; mv c d", "d"},
		{"mv log c; echo other > log", "c"},
		{"ln log c; rm log", "c"},
		{"mkdir sub; mv log sub/log; mv sub moved", "moved/log"},
		{"echo other > c; " + exchange, "c"},
		{"echo newer > t; mv t log; mv log c", "c"},
		{"rm log; echo other > log", ""},
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, written := range []string{"echo new > log", "echo new > t; mv t log"} {
			for _, move := range moves {
				m.Bash(t, "rm -rf ./*; echo old > log")
				service := m.Client(t)
				log := service.Open("log", unix.O_WRONLY|unix.O_APPEND)
				service.Write(log, "before\n")
				if o := m.Bash(t, written+"; "+move.by); o.Code != 0 {
					t.Fatal(o)
				}
				service.Write(log, "after\n")
				service.MustClose(log)
				want := ""
				if move.to != "" {
					want = "./" + move.to + ":after\n"
				}
				if got := m.Bash(t, "grep -r after . | sort").Stdout; got != want {
					t.Errorf("%s; %s: the record is at %q, want %q", written, move.by, got, want)
				}
			}
		}
	})
}
