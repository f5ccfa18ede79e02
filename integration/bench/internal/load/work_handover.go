package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/figures"
)

const (
	handovers = 30
	// settle is how long a holder keeps the lock after the waiter said that it
	// is about to ask for it: enough for the waiter to be asleep in the kernel.
	settle = 3 * time.Millisecond
)

func handoverWorks() []Work {
	return []Work{
		{
			ID: "handover", Title: "hand-over to a waiter", Pair: true, Target: figures.Target{VsPlain: 3},
			Does:    "from the close of a session that wrote nothing to the return of the next writer's open in another process; elsewhere: from the close of a descriptor with flock to the return of the other's flock",
			prepare: func(s Spec) (*job, error) { return newHandover(s, sessionOrFlock(s), false) },
		},
		{
			ID: "handover-commit", Title: "save 4 KiB and hand over to a waiter", Pair: true, Commits: true,
			Does:    "the same with a commit in the close; elsewhere: from the start of the safe save to the return of the other's flock",
			prepare: func(s Spec) (*job, error) { return newHandover(s, sessionOrFlock(s), true) },
		},
		{
			ID: "handover-flock", Title: "flock hand-over to a waiter", Pair: true,
			Does:    "flock through the mount, in every column",
			prepare: func(s Spec) (*job, error) { return newHandover(s, takeFlock, false) },
		},
	}
}

// sessionOrFlock is how a column's writers keep out of each other's way.
func sessionOrFlock(s Spec) func(string) (int, error) {
	if s.CloseCommits {
		return takeSession
	}
	return takeFlock
}

// takeSession opens for writing: on latchfs this is the lock.
func takeSession(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	return fd, At("open for writing", path, err)
}

// takeFlock opens for reading and takes the native lock.
func takeFlock(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, At("open", path, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		unix.Close(fd)
		return -1, At("flock", path, err)
	}
	return fd, nil
}

// newHandover is one end of the pair. In each operation the holder takes the
// lock and says so; the waiter says that it is about to ask, and asks; the
// holder lets go; the waiter sends the moment it got the lock.
func newHandover(s Spec, take func(string) (int, error), save bool) (*job, error) {
	h := &handover{
		lock: filepath.Join(s.Root, lockDir, "shared.json"),
		data: filepath.Join(s.Root, lockDir, "data.json"),
		take: take,
	}
	content := bytes.Repeat([]byte("h"), PageSize)
	switch {
	case save && s.CloseCommits:
		h.save = func(fd int) error { return At("write", h.lock, writeAll(fd, content)) }
		h.saveBefore = true
	case save:
		h.save = func(int) error { return saveByRename(h.data, content, Full) }
	}
	j := &job{fixed: handovers}
	switch s.Role {
	case Holder:
		j.op = func(int) error {
			took, err := h.hold()
			j.samples = append(j.samples, float64(took))
			return err
		}
	case Waiter:
		j.op = func(int) error { return h.wait() }
	default:
		return nil, errors.New("a hand-over needs a holder and a waiter")
	}
	return j, nil
}

// handover is what both ends need. The save is empty when nothing is saved.
type handover struct {
	lock, data string
	take       func(string) (int, error)
	save       func(fd int) error
	saveBefore bool // the save is written before the clock starts: the close commits it
}

// hold answers how long the hand-over took, in nanoseconds.
func (h *handover) hold() (int64, error) {
	fd, err := h.take(h.lock)
	if err != nil {
		return 0, err
	}
	if h.save != nil && h.saveBefore {
		if err := h.save(fd); err != nil {
			unix.Close(fd)
			return 0, err
		}
	}
	if err := h.meet(); err != nil {
		unix.Close(fd)
		return 0, err
	}
	start := monotonic()
	if h.save != nil && !h.saveBefore {
		if err := h.save(fd); err != nil {
			unix.Close(fd)
			return 0, err
		}
	}
	if err := unix.Close(fd); err != nil {
		return 0, At("close", h.lock, err)
	}
	got, err := receive()
	return got - start, err
}

// meet lets the waiter begin to wait.
func (h *handover) meet() error {
	if err := send(0); err != nil { // held
		return err
	}
	if _, err := receive(); err != nil { // about to ask
		return err
	}
	time.Sleep(settle)
	return nil
}

func (h *handover) wait() error {
	if _, err := receive(); err != nil { // held
		return err
	}
	if err := send(0); err != nil { // about to ask
		return err
	}
	fd, err := h.take(h.lock)
	if err != nil {
		return err
	}
	got := monotonic()
	if err := unix.Close(fd); err != nil {
		return At("close", h.lock, err)
	}
	return send(got)
}

// The descriptors a pair is started with.
const (
	fromPartner = 3
	toPartner   = 4
)

func send(v int64) error {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(v))
	return At("send to", "the partner", writeAll(toPartner, b[:]))
}

func receive() (int64, error) {
	var b [8]byte
	n, err := unix.Read(fromPartner, b[:])
	if err != nil {
		return 0, At("receive from", "the partner", err)
	}
	if n != len(b) {
		return 0, fmt.Errorf("the partner is gone")
	}
	return int64(binary.NativeEndian.Uint64(b[:])), nil
}
