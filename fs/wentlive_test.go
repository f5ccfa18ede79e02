package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// A caller that has read a version, and gets the file when another has made it live with
// the next one, is asked what it has read, by the version as which the file went live. A
// caller that asks for a live file is not.
func TestAskedBeforeItWentLive(t *testing.T) {
	r := newRequestsUnder(t, "insist = \"never\"\n")
	root := r.f.kernel.inodeOf(rootID)
	f, file := r.f, filepath.Join(r.data, "f")
	look := func(content string) (st unix.Stat_t) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unix.Lstat(file, &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	set, key, p := f.rules.settings("f"), knowledge.Key("f"), place{root, "f", nil}
	h := r.header(rootID)
	c := f.callers.openerOf(&h)
	who, ok := f.losses.learnersOf(c, &set)
	if !ok {
		t.Fatal("nobody would learn what this process reads")
	}
	st := look("one")
	f.rules.knowledge.Saw(time.Now(), key, stampOfFile(&st), who)
	ask := func(flags uint32) unix.Errno {
		o := beginOptions{settings: set}.access(flags)
		return f.losses.mayUseLive(c, opOpen, p, &st, &o)
	}
	want := func(when string, got, want unix.Errno) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	f.nodes.mu.Lock()
	f.nodes.setLiveNameLocked(root, "f", liveByUse)
	f.nodes.mu.Unlock()
	st = look("written to it since")
	want("of the version that it has read", ask(unix.O_WRONLY|unix.O_TRUNC), 0)

	next := stampOfFile(&st)
	f.rules.knowledge.Changed(time.Now(), key, next, knowledge.Who{Self: lockmgr.Owner{PID: 1 << 30}}, knowledge.Author{PID: 1 << 30})
	st = look("and once more")
	want("cutting it", ask(unix.O_WRONLY|unix.O_TRUNC), unix.EBUSY)
	want("cutting and reading it", ask(unix.O_RDWR|unix.O_TRUNC), unix.EBUSY)
	want("writing into it", ask(unix.O_WRONLY), unix.EBUSY)
	want("reading and writing it", ask(unix.O_RDWR), 0)
	want("appending to it", ask(unix.O_WRONLY|unix.O_APPEND), 0)
	for _, op := range []string{opRename, opTruncate} {
		if x, _ := f.losses.wouldLoseAsked(c, op, p, &st, true); x == nil || x.Basis.Since[len(x.Basis.Since)-1].Stamp != next {
			t.Errorf("%s: it is not judged by the version as which the file went live: %+v", op, x)
		}
		if x, _ := f.losses.wouldLoseAsked(c, op, p, &st, false); x != nil {
			t.Errorf("%s: a caller that asks for a live file is judged: %s", op, x.Reason())
		}
	}
	set.Mode = f.rules.settings("f").Mode
	want("opening a live file", ask(unix.O_WRONLY|unix.O_TRUNC), 0)
}
