package locksdir

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"latchfs/fs/report"
)

// refusedTwice was refused src/a.json, and c a second later.
func refusedTwice() *fakeSource {
	src := newFake()
	src.refusals = []report.Refusal{
		{Time: noon.Add(-2 * time.Second), Path: "src/a.json", Operation: "open", Errno: "EBUSY", Wait: 30 * time.Second, Holder: &busy().held[0], PID: 4800},
		{Time: noon.Add(-time.Second), Path: "c", Operation: "open", Errno: "EINTR", Wait: 250 * time.Millisecond, PID: 4801},
	}
	return src
}

// The file why says what package report says, the latest refusal first, and is as old as that.
func TestWhy(t *testing.T) {
	src := refusedTwice()
	tree := New(src)
	text := string(read(t, tree, "why", alice))
	if want := string(report.Why([]report.Refusal{src.refusals[1], src.refusals[0]}, alice, time.UTC)); text != want {
		t.Errorf("why is\n%s\nnot\n%s", text, want)
	}
	if e, err := tree.Stat("why", alice); err != nil || !e.Mtime.Equal(src.refusals[1].Time) {
		t.Errorf("why changed at %v, %v", e.Mtime, err)
	}
	if text := string(read(t, New(newFake()), "why", stranger)); !strings.HasPrefix(text, "Nothing was refused") {
		t.Errorf("without refusals why is %q", text)
	}
}

// What Stat says stays true while the clock moves.
func TestWhySizeDoesNotMove(t *testing.T) {
	src := refusedTwice()
	tree := New(src)
	before, err := tree.Stat("why", alice)
	if err != nil {
		t.Fatal(err)
	}
	src.now = src.now.Add(100 * time.Hour)
	if after := read(t, tree, "why", alice); int64(len(after)) != before.Size {
		t.Errorf("why had %d bytes and now has %d", before.Size, len(after))
	}
}

// What keeps the Source from releasing a lock reaches whoever removes its record.
func TestErrnoIsHandedThrough(t *testing.T) {
	src := busy()
	src.refuse = syscall.EBUSY
	wantErrno(t, "Remove", New(src).Remove("held/db.lck.lock", stranger), syscall.EBUSY)
}
