package disclosure

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/journal/history"
)

func from(path string) change { return func(v *history.Version) { v.From = path } }

// names are what versions are called.
func names(list []locksdir.Version) string {
	var b strings.Builder
	for _, v := range list {
		fmt.Fprintf(&b, "%s:%d ", v.Path, v.Number)
	}
	return strings.TrimSpace(b.String())
}

// Each list has the versions that the viewer may know of, and no others.
func TestLists(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{"a": 0o644, "b": 0o600, "d/": 0o755, "d/f": 0o644, "d/g/": 0o755, "d/g/h": 0o644, "d/p/": 0o755, "d/p/q": 0o600, "dd": 0o644})
	s.kept("a")
	s.kept("b")
	s.kept("d/f")
	s.kept("a", rights(uid, gid, 0o600))
	s.kept("d/g/h")
	s.kept("d/p/q")
	s.kept("d/g/i", notKept)
	s.kept("a", notKept)
	s.kept("a")
	s.kept("dd")
	shows := s.shows()
	if got, want := names(slices.Collect(shows.History(stranger))), "a:1 d/f:1 d/g/h:1 a:3 a:4 dd:1"; got != want {
		t.Errorf("a stranger's history is %q, want %q", got, want)
	}
	if got, want := names(slices.Collect(shows.History(owner))), "a:1 b:1 d/f:1 a:2 d/g/h:1 d/p/q:1 d/g/i:1 a:3 a:4 dd:1"; got != want {
		t.Errorf("the owner's history is %q, want %q", got, want)
	}
	if got, want := names(shows.HistoryOf("a", stranger)), "a:1 a:4"; got != want {
		t.Errorf("a stranger's history of one file is %q, want %q", got, want)
	}
	if got, want := names(shows.HistoryOf("a", owner)), "a:1 a:2 a:4"; got != want {
		t.Errorf("the owner's history of one file is %q, want %q", got, want)
	}
	for _, c := range []struct{ dir, stranger, owner string }{
		{"", "a d dd", "a b d dd"}, {"d", "f g", "f g p"}, {"d/g", "h", "h"}, {"d/p", "", "q"}, {"none", "", ""},
	} {
		if got := strings.Join(shows.HistoryIn(c.dir, stranger), " "); got != c.stranger {
			t.Errorf("to a stranger %q has %q, want %q", c.dir, got, c.stranger)
		}
		if got := strings.Join(shows.HistoryIn(c.dir, owner), " "); got != c.owner {
			t.Errorf("to the owner %q has %q, want %q", c.dir, got, c.owner)
		}
		if shows.HistoryLeadsOn(c.dir, stranger) != (c.stranger != "") || shows.HistoryLeadsOn(c.dir, owner) != (c.owner != "") {
			t.Errorf("%q leads on to names that are not listed, or does not to those that are", c.dir)
		}
	}
	if got := shows.HistoryGeneration(); got != 10 {
		t.Errorf("generation %d", got)
	}
	for i, of := range []string{"", "so", "o", "so", "so", ""} {
		knows := ""
		if shows.KnowsOf("a", uint64(i), stranger) {
			knows += "s"
		}
		if shows.KnowsOf("a", uint64(i), owner) {
			knows += "o"
		}
		if knows != of {
			t.Errorf("of version %d know %q, want %q", i, knows, of)
		}
	}
	for range shows.History(owner) {
		break // and nothing is said to who has gone
	}
}

// Of single versions and of other names, too, nobody is told what he may not know.
func TestVersionsOfANameAndOfOthers(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{"a": 0o644, "b": 0o644, "p/": 0o700, "p/q": 0o644})
	s.kept("a")
	s.kept("a", rights(uid, gid, 0o600))
	s.kept("b")
	s.kept("p/q")
	shows := s.shows()
	for _, c := range []struct {
		number          uint64
		stranger, owner bool
	}{{1, true, true}, {2, false, true}, {3, false, false}, {0, false, false}} {
		if _, ok := shows.VersionOf("a", c.number, stranger); ok != c.stranger {
			t.Errorf("to a stranger version %d is known: %v", c.number, ok)
		}
		if k, ok := shows.VersionOf("a", c.number, owner); ok != c.owner || ok && k.Number != c.number {
			t.Errorf("to the owner version %d is known: %v, %+v", c.number, ok, k)
		}
	}
	if got := shows.OtherNames("a", stranger); !slices.Equal(got, []string{"b"}) {
		t.Errorf("a stranger is told of %q", got)
	}
	if got := shows.OtherNames("a", owner); !slices.Equal(got, []string{"b", "p/q"}) {
		t.Errorf("the owner is told of %q", got)
	}
	var none Versions
	if _, ok := none.VersionOf("a", 1, admin); ok || none.OtherNames("a", admin) != nil {
		t.Error("there is something without a history")
	}
}

// A mount without a history has none to show.
func TestNoHistory(t *testing.T) {
	var none Versions
	if none.HistoryGeneration() != 0 || len(slices.Collect(none.History(admin))) > 0 || none.HistoryOf("a", admin) != nil || none.HistoryIn("", admin) != nil || none.KnowsOf("a", 1, admin) {
		t.Error("there is something")
	}
}

// All that is known of a version is shown to who sees everything.
func TestShownWhole(t *testing.T) {
	s := newStage(t, nil)
	v := history.Version{
		Path: "a", Number: 7, Time: time.Unix(1000, 5), Base: 6, Event: history.RenameAway,
		Operation: "rename", Actor: "actor", Program: "mv", Session: "s-1", PID: 8, UID: 9, Token: 10,
		From: "from", To: "to", State: history.State{Ino: 1, Size: 11, Mtime: 1_000_000_012},
		Rights: history.Rights{UID: 12, GID: 13, Mode: 0o640}, Kept: true, Current: true,
	}
	shown := func() locksdir.Version {
		v := s.shows().lookOf(admin).shown(&v)
		v.Content = nil
		return v
	}
	got := shown()
	want := locksdir.Version{
		Path: "a", Number: 7, Time: time.Unix(1000, 5), Base: 6, Event: "rename-away",
		Operation: "rename", Actor: "actor", Program: "mv", Session: "s-1", PID: 8, UID: 9, Token: 10,
		From: "from", To: "to", Bytes: 11, Mtime: time.Unix(1, 12),
		FileUID: 12, FileGID: 13, Mode: 0o640, Kept: true, Current: true,
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("shown is\n%+v, want\n%+v", got, want)
	}
	v.Rights.ACL, v.Rights.Mode = true, 0o2675
	if got := shown(); got.Mode != 0o2605 {
		t.Errorf("with an ACL its mode is %o", got.Mode)
	}
	v.Kept = false
	if got := shown(); got.Kept || !got.Current {
		t.Errorf("what is not kept is shown as %+v", got)
	}
}

// What others call themselves, and from where a file has come that the viewer cannot
// reach, it does not learn.
func TestShownToOthers(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{"a": 0o644, "closed/": 0o700, "open/": 0o755})
	for _, c := range []struct {
		from                                 string
		owners, strangers, actor, actorOwner string
	}{
		{"", "", "", "", "me"},
		{"b", "b", "b", "", "me"},
		{"open/b", "open/b", "open/b", "", "me"},
		{"closed/b", "closed/b", "", "", "me"},
		{"none/b", "none/b", "", "", "me"}, // whose maker it is
	} {
		s.versions = nil
		s.kept("a", by(uid, "me"), from(c.from), func(v *history.Version) { v.To = c.from })
		v := s.shows().HistoryOf("a", stranger)[0]
		if v.From != c.strangers || v.To != c.strangers || v.Actor != c.actor {
			t.Errorf("from %q: to a stranger from %q by %q", c.from, v.From, v.Actor)
		}
		if v = s.shows().HistoryOf("a", owner)[0]; v.From != c.owners || v.To != c.owners || v.Actor != c.actorOwner {
			t.Errorf("from %q: to its maker from %q by %q", c.from, v.From, v.Actor)
		}
		if v = s.shows().HistoryOf("a", admin)[0]; v.From != c.from || v.Actor != "me" {
			t.Errorf("from %q: to root from %q by %q", c.from, v.From, v.Actor)
		}
	}
}

// The bytes of a version can be read at any offset, and nothing stays open.
func TestContent(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{"a": 0o644})
	s.kept("a")
	s.kept("a")
	shows := s.shows()
	before := openFiles(t)
	v := shows.HistoryOf("a", owner)[1]
	c, err := v.Content()
	s.must(err)
	b := make([]byte, 2)
	if n, err := c.ReadAt(b, 1); n != 2 || err != nil || string(b) != " 2" || c.Size() != 3 {
		t.Errorf("%q of %d, %v", b[:n], c.Size(), err)
	}
	s.must(c.Close())
	for err, want := range map[error]syscall.Errno{
		history.ErrNotKept: unix.ENOENT,
		fmt.Errorf("of another: %w", history.ErrNotKept): unix.ENOENT,
		os.NewSyscallError("openat", unix.EMFILE):        unix.EMFILE,
		errors.New("unheard of"):                         unix.EIO,
	} {
		s.broken = err
		if _, got := v.Content(); got != want {
			t.Errorf("%v is told as %v, want %v", err, got, want)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Whether a directory leads on one name tells: it is asked at each look at the directory.
func TestOneNameLeadsOn(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{"d/": 0o755})
	for i := range 50 {
		s.kept(fmt.Sprintf("d/f%02d", i))
	}
	if shows := s.shows(); !shows.HistoryLeadsOn("d", owner) || s.askedKept != 1 {
		t.Errorf("the versions of %d paths were looked at, want 1", s.askedKept)
	}
}
