package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

func (w *world) expect(name, want string) {
	w.t.Helper()
	if got := w.show(name); strings.TrimSpace(got) != strings.TrimSpace(want) {
		w.t.Errorf("%s:\n%swant:\n%s", name, got, want)
	}
}

func TestVersionsAndContents(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 5 {
		w.save("f", fmt.Sprint("content ", i), 2)
	}
	want := "1 commit\n2 commit\n3 commit \"content 2\"\n4 commit \"content 3\"\n5 commit now"
	for _, crash := range []bool{false, true} {
		w.expect("f", want)
		if n := len(w.files()); n != 2 {
			t.Errorf("%d contents on disk", n)
		}
		w.reopen(crash)
	}
	w.remove("f", 2)
	w.expect("f", "1 commit\n2 commit\n3 commit\n4 commit \"content 3\"\n5 commit \"content 4\"\n6 delete")
	w.save("f", "again", 2)
	w.expect("f", "1 commit\n2 commit\n3 commit\n4 commit \"content 3\"\n5 commit \"content 4\"\n6 delete\n7 commit now")
}

// What is not as it was left is entered as found before anything replaces it.
func TestFound(t *testing.T) {
	w := newWorld(t, Options{})
	check(t, os.WriteFile(w.path("f"), []byte("before our time"), 0o600))
	w.save("f", "ours", 5)
	check(t, os.WriteFile(w.path("f"), []byte("a stranger's"), 0o600))
	w.save("f", "ours again", 5)
	check(t, os.Remove(w.path("f")))
	w.save("f", "anew", 5)
	w.expect("f", `
1 found "before our time"
2 commit
3 found "a stranger's"
4 commit
5 delete
6 commit now`)
}

// A change of our own that makes no version is not found.
func TestChanged(t *testing.T) {
	w := newWorld(t, Options{})
	w.save("f", "a line\n", 5)
	appendTo := func(text string) {
		f, err := os.OpenFile(w.path("f"), os.O_APPEND|os.O_WRONLY, 0)
		check(t, err)
		defer f.Close()
		_, err = f.WriteString(text)
		check(t, err)
	}
	ino := w.stat("f").Ino
	w.s.Changed("f", ino, StateOf(w.stat("f")), true)
	appendTo("more\n")
	w.reopen(true) // as an appender that was killed leaves it
	appendTo("yet more\n")
	w.save("f", "new", 5)
	w.expect("f", "1 commit \"a line\\nmore\\nyet more\\n\"\n2 commit now")

	check(t, os.Chtimes(w.path("f"), time.Time{}, time.Unix(1, 0)))
	w.s.Changed("f", w.stat("f").Ino, StateOf(w.stat("f")), false)
	w.reopen(false)
	w.save("f", "newer", 5)
	w.expect("f", "1 commit \"a line\\nmore\\nyet more\\n\"\n2 commit \"new\"\n3 commit now")
}

// A file that was appended to was replaced, and a power cut has taken the records of that. What
// is kept of it stays when the history is opened once more, and knows the version that follows.
func TestReplacedInFlux(t *testing.T) {
	w := newWorld(t, Options{})
	ref := w.save("f", "a line\n", 5)
	w.s.Changed("f", w.stat("f").Ino, StateOf(w.stat("f")), true)
	check(t, os.WriteFile(w.path("f"), []byte("a line\nmore\n"), 0o600))
	w.into("f", ref.Content)
	check(t, os.WriteFile(w.path("f"), []byte("new"), 0o600))
	w.reopen(true)
	w.ref("f")
	for range 2 {
		w.expect("f", "1 commit \"a line\\nmore\\n\"\n2 found now")
		w.reopen(false)
	}
}

// vim moves the file to its backup's name, writes it anew and removes the
// backup: the content is the version's of both, and the file's in the end.
func TestBackup(t *testing.T) {
	w := newWorld(t, Options{})
	w.save("f", "old", 5)
	w.rename("f", "f~", 5)
	w.expect("f", "1 commit\n2 rename-away")
	w.save("f", "new", 5)
	w.remove("f~", 5)
	w.expect("f", "1 commit \"old\"\n2 rename-away\n3 commit now")
	w.expect("f~", "1 commit \"old\"\n2 delete")
	if n := len(w.files()); n != 1 {
		t.Errorf("%d contents", n)
	}
	w.s.tidy()
	if w.s.Of("f~") == nil {
		t.Error("the backup was dropped at once")
	}
	w.later(2 * fadeTime)
	w.s.tidy()
	for range 2 {
		if w.s.Of("f~") != nil {
			t.Errorf("the backup is still there:\n%s", w.show("f~"))
		}
		w.expect("f", "1 commit \"old\"\n2 rename-away\n3 commit now")
		w.reopen(true)
	}
}

// A temporary file that was renamed over another is its content's.
func TestTemporaryFilesFade(t *testing.T) {
	w := newWorld(t, Options{})
	w.save("f", "old", 5)
	w.save("t", "new", 5)
	w.rename("t", "f", 5)
	w.save("f", "newer", 5)
	w.save("gone", "only here", 5)
	w.remove("gone", 5)
	w.later(2 * fadeTime)
	w.s.tidy()
	w.expect("t", "")
	w.expect("f", "1 commit \"old\"\n2 commit \"new\"\n3 commit now")
	w.expect("gone", "1 commit \"only here\"\n2 delete")
}

// Paths move with their directory, behind what the new name has had before.
func TestDirectoriesMove(t *testing.T) {
	w := newWorld(t, Options{})
	for _, dir := range []string{"d", "e"} {
		check(t, os.Mkdir(w.path(dir), 0o700))
	}
	w.save("d/f", "one", 5)
	w.save("e/f", "before", 5)
	w.remove("e/f", 5)
	w.save("d/f", "two", 5)
	w.save("d.f", "beside", 5)
	check(t, os.Remove(w.path("e")))
	check(t, os.Rename(w.path("d"), w.path("e")))
	w.s.Moved("d", "e", false)
	w.save("e/f", "three", 5)
	for i := range 3 {
		w.expect("d/f", "")
		w.expect("d.f", "1 commit now")
		w.expect("e/f", "1 commit \"before\"\n2 delete\n3 commit \"one\"\n4 commit \"two\"\n5 commit now")
		if i == 0 {
			w.s.rewrite()
		}
		w.reopen(true)
	}
	check(t, os.Mkdir(w.path("x"), 0o700))
	w.save("x/g", "x's", 5)
	w.s.Moved("e", "x", true)
	w.reopen(true)
	w.expect("e/g", "1 commit now")
	w.expect("x/f", "1 commit \"before\"\n2 delete\n3 commit \"one\"\n4 commit \"two\"\n5 commit now")
}

// The bounds of all contents together: the oldest go first.
func TestBounds(t *testing.T) {
	w := newWorld(t, Options{MaxBytes: 20 << 10, MaxAge: time.Hour})
	for i := range 10 {
		w.save("f", strings.Repeat(fmt.Sprint(i), 4096), 100)
	}
	kept := func() (list []uint64) {
		for _, v := range w.s.Of("f") {
			if v.Kept {
				list = append(list, v.Number)
			}
		}
		return list
	}
	if got := fmt.Sprint(kept()); got != "[5 6 7 8 9]" {
		t.Errorf("kept is %s", got)
	}
	if w.s.Takes(20<<10+1) || !w.s.Takes(20<<10) {
		t.Error("content is taken that there is never room for, or refused that there is")
	}
	w.files()
	if freed := w.s.Free(5000); freed != 8192 {
		t.Errorf("freed %d bytes", freed)
	}
	if n := len(w.files()); n != 3 {
		t.Errorf("%d contents are on disk", n)
	}
	w.reopen(false)
	if got := fmt.Sprint(kept()); got != "[7 8 9]" {
		t.Errorf("kept is %s", got)
	}
	w.later(2 * time.Hour)
	w.s.tidy()
	if got := kept(); got != nil || len(w.files()) != 0 {
		t.Errorf("after two hours kept is %d, on disk %q", got, w.files())
	}
	if w.s.Free(1) != 0 {
		t.Error("an empty history gives room")
	}
}

// There are so many records, and the worthless ones go first.
func TestRecordsAreBounded(t *testing.T) {
	w := newWorld(t, Options{MaxRecords: 100})
	w.save("kept", "one", 5)
	w.save("kept", "two", 5)
	for i := range 60 {
		w.save("busy", fmt.Sprint(i), 1)
	}
	for i := range 20 {
		name := fmt.Sprint("gone", i)
		w.save(name, "x", 0)
		w.remove(name, 0)
	}
	for i := range 3 {
		w.s.tidy()
		if n := w.s.x.records; n > 100 || n < 80 {
			t.Errorf("%d records", n)
		}
		w.expect("kept", "1 commit \"one\"\n2 commit now")
		if got := w.show("busy"); !strings.HasSuffix(got, "59 commit \"58\"\n60 commit now\n") {
			t.Errorf("busy is\n%s", got)
		}
		if got := w.show("gone19"); i == 0 && got == "" || w.show("gone0") != "" {
			t.Errorf("of what is gone, the newest is %q, the oldest %q", got, w.show("gone0"))
		}
		w.reopen(i == 1)
	}
	w.save("busy", "more", 1)
	if got := w.show("busy"); !strings.HasSuffix(got, "60 commit \"59\"\n61 commit now\n") {
		t.Errorf("busy is\n%s", got)
	}
}

// Open removes contents that nobody names, half-made ones, and such as have other
// names or another size; it leaves what is not its own.
func TestOrphans(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 4 {
		w.save("f", fmt.Sprint("content ", i), 9)
	}
	v := w.s.Of("f")
	content := func(id string) string { return filepath.Join(w.path(".state"), ContentPath(id)) }
	check(t, os.Link(content(v[0].Content), w.path("linked")))
	check(t, os.Truncate(content(v[1].Content), 3))
	unknown := strings.Repeat("ab", 16)
	check(t, os.MkdirAll(filepath.Dir(content(unknown)), 0o700))
	stranger := filepath.Join(filepath.Dir(content(unknown)), "stranger")
	half := filepath.Join(filepath.Dir(content(unknown)), NewPrefix+unknown)
	for _, path := range []string{content(unknown), stranger, half} {
		check(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	w.reopen(true)
	w.expect("f", "1 commit\n2 commit\n3 commit \"content 2\"\n4 commit now")
	if got := w.files(); len(got) != 2 {
		t.Errorf("on disk: %q", got)
	}
	if b, err := os.ReadFile(w.path("linked")); err != nil || string(b) != "content 0" {
		t.Errorf("the other name has %q, %v", b, err)
	}
	check(t, os.Remove(content(v[2].Content)))
	if _, err := w.read("f", 3); !errors.Is(err, ErrNotKept) {
		t.Errorf("a content that was removed by hand: %v", err)
	}
	w.expect("f", "1 commit\n2 commit\n3 commit\n4 commit now")
}

// A crash may come between the move of a content and the record of its
// successor.
func TestDangling(t *testing.T) {
	w := newWorld(t, Options{})
	ref := w.save("f", "old", 5)
	w.into("f", ref.Content)
	w.reopen(true)
	d := w.s.Dangling()
	if len(d) != 1 || d[0].Path != "f" || d[0].Number != 1 {
		t.Fatalf("dangling is %+v", d)
	}
	w.s.Absent("f")
	w.expect("f", "1 commit \"old\"\n2 delete")
	if d := w.s.Dangling(); len(d) != 0 {
		t.Errorf("still dangling: %+v", d)
	}
}

func TestCorruptHistoryIsRefused(t *testing.T) {
	w := newWorld(t, Options{})
	w.save("f", "old", 5)
	w.save("f", "new", 5)
	check(t, w.s.log.Sync())
	log := w.path(".state/history/log")
	b, err := os.ReadFile(log)
	check(t, err)
	b[60] ^= 0xff
	check(t, os.WriteFile(log, b, 0o600))
	if _, err := Open(w.state, w.o); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("opened: %v", err)
	}
	if n := len(w.files()); n != 1 {
		t.Errorf("%d contents are left", n)
	}
}

// A file with several names has changed under all of them.
func TestLinked(t *testing.T) {
	w := newWorld(t, Options{})
	w.save("f", "one", 5)
	w.save("other", "x", 5)
	check(t, os.Link(w.path("f"), w.path("g")))
	old := w.ref("g")
	check(t, os.WriteFile(w.path("g"), []byte("in place"), 0o600))
	now := StateOf(w.stat("g"))
	w.s.Add(Version{Path: "g", Event: Commit, State: now, Base: old.Number})
	w.s.Linked("g", now)
	check(t, os.Remove(w.path("g")))
	w.reopen(true)
	w.save("f", "two", 5)
	w.expect("f", "1 commit \"in place\"\n2 commit now")
}

// A commit that is found unfinished keeps an earlier version late, when the index has
// given up its content; that of any other path is not taken for it.
func TestKeptLate(t *testing.T) {
	w := newWorld(t, Options{})
	var ids []string
	for i := range 5 {
		ids = append(ids, w.s.Add(Version{Path: "f", Event: Commit, State: State{Ino: uint64(i), Size: 3}}).Content)
	}
	other := w.s.Add(Version{Path: "g", Event: Commit}).Content
	for _, id := range []string{ids[1], other} {
		check(t, os.WriteFile(w.path("new"), []byte("old"), 0o600))
		w.into("new", id)
		w.s.Keep("f", Ref{Content: id}, 1<<30)
	}
	for range 2 {
		w.expect("f", "1 commit\n2 commit \"old\"\n3 commit\n4 commit\n5 commit now")
		w.reopen(true)
	}
}

// What could not be removed, as on a full btrfs, is removed when it can be.
func TestRemovalIsTriedAgain(t *testing.T) {
	w := newWorld(t, Options{Tick: time.Hour})
	w.save("f", "one", 5)
	w.save("f", "two", 5)
	kept := w.files()
	if len(kept) != 1 {
		t.Fatalf("kept are %q", kept)
	}
	away := w.path("away")
	swap := func() {
		t.Helper()
		check(t, unix.Renameat2(unix.AT_FDCWD, kept[0], unix.AT_FDCWD, away, unix.RENAME_EXCHANGE))
	}
	check(t, os.Mkdir(away, 0o700))
	swap() // unlink fails
	if freed := w.s.Free(1); freed != 0 {
		t.Errorf("%d bytes were freed", freed)
	}
	w.s.tidy()
	swap()
	w.s.tidy()
	if left := w.files(); len(left) != 0 {
		t.Errorf("left are %q", left)
	}
}

// A log that cannot be brought to the disk is told of once, and not at each of the housekeeper's
// rounds for as long as the disk is read-only; again after it was well.
func TestFailingSyncIsToldOnce(t *testing.T) {
	w := newWorld(t, Options{})
	var told []string
	w.s.o.Logf = func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	well := w.s.sync
	for _, fails := range []bool{true, true, true, false, false, true, true} {
		w.s.sync = well
		if fails {
			w.s.sync = func() error { return unix.EROFS }
		}
		w.s.syncLog()
	}
	if want := []string{"history: read-only file system", "history: read-only file system"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A log that could not be brought to the disk may lack something, and is rewritten.
func TestLogIsRewrittenAfterAFailingSync(t *testing.T) {
	w := newWorld(t, Options{asleep: true, Tick: time.Hour})
	w.save("f", "one", 10)
	w.save("f", "two", 10)
	before := w.stat(".state/history/log").Ino
	well := w.s.sync
	w.s.sync = func() error { return unix.EIO }
	w.s.syncLog()
	w.s.sync = well
	w.s.tidy()
	if w.stat(".state/history/log").Ino == before {
		t.Error("it goes on in the same file")
	}
	w.reopen(false)
	if got := w.show("f"); got != "1 commit \"one\"\n2 commit now\n" {
		t.Errorf("versions\n%s", got)
	}
}

// Where the log finds no room, though old versions give way, not all of them do: it is not they
// that take it. The record is in the next rewrite.
func TestLogWithoutRoomTakesFewVersions(t *testing.T) {
	w := newWorld(t, Options{asleep: true, Tick: time.Hour})
	for i := range 50 {
		w.save("f", fmt.Sprint("content ", i), 100)
	}
	put := w.s.put
	w.s.put = func([]byte) (int64, error) { return 0, unix.ENOSPC }
	for range 10 {
		w.save("g", "new", 0)
	}
	w.s.put = put
	if kept := len(w.s.KeptOf("f")); kept < 49-16 || kept == 49 {
		t.Errorf("of 49 versions %d are left", kept)
	}
	w.s.tidy()
	w.reopen(true)
	if got := w.show("g"); !strings.HasPrefix(got, "1 commit\n") || !strings.Contains(got, "10 commit now") {
		t.Errorf("versions of what was saved meanwhile\n%s", got)
	}
}

// A path that is too long for a record, as a directory that was moved far down may give one to
// a file, keeps nothing else from being written.
func TestRewriteWithAPathThatIsTooLong(t *testing.T) {
	w := newWorld(t, Options{asleep: true, Tick: time.Hour})
	w.save("f", "one", 10)
	w.save("f", "two", 10)
	w.s.Add(Version{Path: strings.Repeat(strings.Repeat("\x01", 250)+"/", 800) + "x", Event: Commit})
	w.save("f", "three", 10)
	before := w.stat(".state/history/log").Ino
	w.s.tidy()
	if w.s.stale || w.stat(".state/history/log").Ino == before {
		t.Error("the log is not rewritten")
	}
	w.reopen(true)
	if got := w.show("f"); got != "1 commit \"one\"\n2 commit \"two\"\n3 commit now\n" {
		t.Errorf("versions\n%s", got)
	}
}
