package proc

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func mustWatch(t *testing.T, r *Reader, o lockmgr.Owner) (<-chan struct{}, func()) {
	t.Helper()
	dead, stop, err := r.Watch(o)
	if err != nil {
		t.Fatal(err)
	}
	return dead, stop
}

func TestWatch(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	owner := ownerOf(t, r, c)
	one, stopOne := mustWatch(t, r, owner)
	two, stopTwo := mustWatch(t, r, owner)
	defer stopTwo()
	if closed(one) || closed(two) {
		t.Fatal("told of the death of a living process")
	}
	stopOne()
	stopOne() // does no harm
	c.signal(unix.SIGKILL)
	<-two // the process is not waited for yet
	if r.Alive(owner) {
		t.Error("told of a death, but it is alive")
	}
	three, stopThree := mustWatch(t, r, owner)
	if !closed(three) {
		t.Error("not told at once of a death in the past")
	}
	stopThree()
}

// A process is dead when its last thread is, not when its leader is.
func TestWatchEndedLeader(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	dead, stop := mustWatch(t, r, ownerOf(t, r, c))
	defer stop()
	c.do("thread")
	c.do("exit-leader")
	awaitState(t, r, c.pid(), 'Z')
	if closed(dead) {
		t.Fatal("told of a death while threads go on")
	}
	c.in.Close()
	<-dead
}

func TestWatchOther(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	owner := ownerOf(t, r, c)
	owner.Start--
	if dead, _ := mustWatch(t, r, owner); !closed(dead) {
		t.Error("an earlier process of a pid in use is not known to be dead")
	}
	if _, _, err := r.Watch(lockmgr.Owner{PID: 0, Start: 3}); err != ErrForeign {
		t.Errorf("a foreign process: %v", err)
	}
}

// Watches leave no descriptors behind, however they end.
func TestWatchLeavesNothing(t *testing.T) {
	r := newReader(t)
	before := descriptors(t)
	for range 20 {
		c := startChild(t)
		owner := ownerOf(t, r, c)
		dead, stop := mustWatch(t, r, owner)
		_, stopOther := mustWatch(t, r, owner)
		stopOther()
		c.signal(unix.SIGTERM)
		<-dead
		stop()
		c.reap()
	}
	c := startChild(t)
	_, stop := mustWatch(t, r, ownerOf(t, r, c))
	stop()
	c.reap()
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
