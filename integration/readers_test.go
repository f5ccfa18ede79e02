package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What readers are promised: a complete committed version from open to close,
// whatever writers do meanwhile.

// rewriter rewrites a JSON document in place: argv is path, writer, count. The
// document is bigger than one stdio buffer, its length changes every time, and
// it carries its own checksum.
const rewriter = `
import json, sys, random
path, who, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for n in range(count):
    rows = [[who, n, i] for i in range(random.randrange(700, 1200))]
    doc = {"who": who, "n": n, "rows": rows, "sum": sum(map(sum, rows))}
    with open(path, "w") as f:
        json.dump(doc, f)
`

// parser reads and checks the document until the stop file appears: argv is
// path, stop, and how to read. It prints how often it read and in how many
// versions, and every complaint.
const parser = `
import json, mmap, os, sys
path, stop, how = sys.argv[1:4]
os.nice(10)  # the writers are what takes time
reads, versions, errors = 0, set(), []
while not os.path.exists(stop):
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        if how == "mmap":
            with mmap.mmap(fd, size, prot=mmap.PROT_READ) as m:
                data = m[:]
        else:
            data = b""
            while block := os.read(fd, 8192):
                data += block
        again = os.fstat(fd).st_size
        if not size == again == len(data):
            errors.append(f"size {size}, then {again}, read {len(data)}")
        doc = json.loads(data)
        if doc["sum"] != sum(map(sum, doc["rows"])):
            errors.append("checksum")
        versions.add((doc["who"], doc["n"]))
    except ValueError as e:
        errors.append(f"{e}: {data[:20]!r}...{data[-20:]!r}")
    finally:
        os.close(fd)
    reads += 1
print(json.dumps({"reads": reads, "versions": len(versions), "errors": errors}))
`

type readerReport struct {
	Reads, Versions int
	Errors          []string
}

// readWhileWriting runs readers of doc.json while write works, and fails the
// test for whatever they complain about.
func readWhileWriting(t *testing.T, m *Mount, readers []string, write func()) {
	t.Helper()
	const first = `{"who": 0, "n": 0, "rows": [], "sum": 0}`
	m.WriteFile("doc.json", first)
	stop := filepath.Join(m.Home(), "stop")
	var procs []*Proc
	for _, how := range readers {
		procs = append(procs, m.LaunchPython(t, parser, "doc.json", stop, how))
	}
	write()
	m.WriteFile(stop, "")
	for i, p := range procs {
		var r readerReport
		m.decode(p.OK(), &r)
		t.Logf("%s reader: %d reads of %d versions", readers[i], r.Reads, r.Versions)
		if len(r.Errors) > 0 {
			t.Errorf("%s reader: %d of %d reads went wrong, the first: %s",
				readers[i], len(r.Errors), r.Reads, r.Errors[0])
		}
		if r.Versions < 2 {
			t.Errorf("%s reader saw %d versions: it has not run beside the writers", readers[i], r.Versions)
		}
	}
}

// Show 1: eight programs rewrite one file in place as programs do, and nobody
// ever reads a torn version.
func TestRewritesAreNeverTorn(t *testing.T) {
	alongside(t)
	const writers = 8
	rounds := repeat(20, 100)
	forEachMount(t, func(t *testing.T, m *Mount) {
		readWhileWriting(t, m, []string{"read", "read", "read", "read"}, func() {
			var procs []*Proc
			for w := range writers {
				procs = append(procs, m.LaunchPython(t, rewriter, "doc.json", fmt.Sprint(w+1), fmt.Sprint(rounds)))
			}
			for _, p := range procs {
				p.OK()
			}
		})
		if *plain {
			return
		}
		if got, want := m.Commits("doc.json"), writers*rounds+1; got != want {
			t.Errorf("%d commits in the audit trail, want %d", got, want)
		}
	})
}

// Show 11: mappings and sizes agree with what can be read while the file is
// rewritten in place and replaced by rename.
func TestMappedReadersStayIntact(t *testing.T) {
	alongside(t)
	rounds := fmt.Sprint(repeat(20, 1000))
	const replacer = `
import json, os, random, sys
path, who, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for n in range(count):
    rows = [[who, n, i] for i in range(random.randrange(700, 1200))]
    with open(path + ".new", "w") as f:
        json.dump({"who": who, "n": n, "rows": rows, "sum": sum(map(sum, rows))}, f)
    os.rename(path + ".new", path)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		readWhileWriting(t, m, []string{"mmap", "mmap", "read"}, func() {
			inPlace := m.LaunchPython(t, rewriter, "doc.json", "1", rounds)
			renamer := m.LaunchPython(t, replacer, "doc.json", "2", rounds)
			inPlace.OK()
			renamer.OK()
		})
	})
}

// version is the n-th content of a file: another length each time, several
// pages, every byte telling which version it belongs to.
func version(n int) string {
	return strings.Repeat(string(rune('a'+n%26)), 9000+(n*3571)%20000)
}

// Show 11: descriptors and mappings of an old version keep it across many commits.
func TestOldVersionStaysWithItsReaders(t *testing.T) {
	alongside(t)
	commits := repeat(30, 100)
	forEachMount(t, func(t *testing.T, m *Mount) {
		old := version(0)
		m.WriteFile("f", old)
		reader, mapper, writer := m.Client(t), m.Client(t), m.Client(t)
		fd := reader.Open("f", unix.O_RDONLY)
		mfd := mapper.Open("f", unix.O_RDONLY)
		mapping := int(mapper.OK(wire.Request{Op: "mmap", FD: mfd, Len: int64(len(old)), Flags: unix.PROT_READ}).N)
		for n := 1; n <= commits; n++ {
			if n%4 == 0 {
				must(t, writer.Save("t", version(n)))
				writer.OK(writer.path2("rename", "t", "f"))
			} else {
				must(t, writer.Save("f", version(n)))
			}
			if size := reader.Fstat(fd).Size; size != int64(len(old)) {
				t.Fatalf("after commit %d fstat of the old version says %d, want %d", n, size, len(old))
			}
			if got := reader.ReadAt(fd, 1<<20, 0); got != old {
				t.Fatalf("after commit %d the old version reads %s", n, summary(got))
			}
			got := mapper.OK(wire.Request{Op: "load", FD: mapping, Len: int64(len(old))}).Data
			if string(got) != old {
				t.Fatalf("after commit %d the mapping shows %s", n, summary(string(got)))
			}
			if got := m.ReadFile("f"); got != version(n) {
				t.Fatalf("after commit %d an open sees %s", n, summary(got))
			}
		}
	})
}

// Show 7: an open never fails because the name was being replaced.
func TestOpensRacingRenames(t *testing.T) {
	inStress(t)
	const openers, opens = 4, 5000
	const replacer = `
import os, sys
stop, enough, n = *sys.argv[1:], 0
while not os.path.exists(stop):
    with open("t", "w") as f:
        f.write("x" * (n % 4000 + 1) + "\n")
    os.rename("t", "f")
    n += 1
    if n == 50: open(enough, "w").close()
print(n)
`
	const opener = `
import os, sys
failed = torn = opened = 0
while opened < int(sys.argv[1]) or not os.path.exists(sys.argv[2]):
    opened += 1
    try:
        fd = os.open("f", os.O_RDONLY)
    except OSError as e:
        failed += 1
        print(e, file=sys.stderr)
        continue
    data = os.read(fd, 5000)
    torn += not data.endswith(b"\n")
    os.close(fd)
print(failed, torn)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "x\n")
		stop := filepath.Join(m.Home(), "stop")
		enough := filepath.Join(m.Home(), "enough")
		renamer := m.LaunchPython(t, replacer, stop, enough)
		var procs []*Proc
		for range openers {
			procs = append(procs, m.LaunchPython(t, opener, fmt.Sprint(opens), enough))
		}
		for _, p := range procs {
			if out := p.OK(); out != "0 0\n" {
				t.Errorf("failed and torn opens of %d: %s %.500s", opens, out, p.Stderr())
			}
		}
		m.WriteFile(stop, "")
		var replaced int
		if err := json.Unmarshal([]byte(renamer.OK()), &replaced); err != nil || replaced < 50 {
			t.Errorf("only %d renames raced with the opens (%v)", replaced, err)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// summary describes content without printing all of it.
func summary(s string) string {
	if len(s) <= 60 {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%d bytes %q...%q", len(s), s[:20], s[len(s)-20:])
}
