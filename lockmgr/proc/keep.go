package proc

import (
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/procfs"
)

// keeper keeps files of /proc open, of processes that have been looked at more than once:
// reading one again costs a fifth of what opening, reading and closing it does. An open
// file belongs to its process: of another one that gets the pid it tells nothing.
type keeper struct {
	mu sync.Mutex // guards it and the uses of all kept
	of map[int32]*kept
}

// kept are the open files of one process.
type kept struct {
	o     lockmgr.Owner
	files [keptFiles]int
	uses  int           // by who reads, and one while the keeper has it
	used  time.Duration // when it was asked for last

	list sync.Mutex // guards the position in the list of descriptors, and infos
	// infos are the fdinfo files of the first descriptors. They show what the number
	// stands for when they are read.
	infos [keptInfos]int

	line sync.Mutex // guards up
	up   *upward
}

// The files that are kept.
const (
	keptStat = iota
	keptStatm
	keptTask     // the directory
	keptChildren // of the first thread
	keptFD       // the directory
	keptComm
	keptFiles
)

const (
	// maxKept is of how many processes files are kept, each of some ten.
	maxKept = 32
	// looksToKeep are a save's, an OPEN and a FLUSH, and some more: most programs that
	// save do so once.
	looksToKeep = 3
	// keptInfos: a process seldom has more open, and if so then they are opened again.
	keptInfos = 8
)

// keep keeps files of a process that was known before it was looked at again.
func (r *Reader) keep(o lockmgr.Owner) {
	ks := &r.keeper
	ks.mu.Lock()
	k := ks.of[o.PID]
	known := k != nil && k.o == o
	ks.mu.Unlock()
	if known {
		return
	}
	k = r.openKept(o)
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if k == nil || ks.closed() {
		k.close()
		return
	}
	ks.forget(o.PID)
	if len(ks.of) >= maxKept {
		ks.forget(ks.oldest())
	}
	ks.of[o.PID] = k
}

// openKept opens the files of a process; nil if another one has the pid by now. Like the
// look before it, it blocks while the process is in execve.
func (r *Reader) openKept(o lockmgr.Owner) *kept {
	dir, err := procfs.OpenAt(r.root.Dir(), procfs.PIDPath(o.PID, ""), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer unix.Close(dir)
	k := &kept{o: o, uses: 1, used: now()}
	for i := range k.infos {
		k.infos[i] = -1
	}
	for i, name := range [keptFiles]string{"stat", "statm", "task", "task/" + strconv.Itoa(int(o.PID)) + "/children", "fd", "comm"} {
		k.files[i], _ = procfs.OpenAt(dir, name, unix.O_RDONLY)
	}
	var st procfs.Stat
	err = procfs.WithContent(k.files[keptStat], func(b []byte) error {
		st, err = procfs.ParseStat(b)
		return err
	})
	if err != nil || st.Start != o.Start {
		k.close()
		return nil
	}
	return k
}

func (ks *keeper) closed() bool { return ks.of == nil }

// oldest is the process that was asked for longest ago. mu is held.
func (ks *keeper) oldest() (pid int32) {
	least := time.Duration(-1)
	for p, k := range ks.of {
		if least < 0 || k.used < least {
			pid, least = p, k.used
		}
	}
	return pid
}

// forget takes a process out. mu is held.
func (ks *keeper) forget(pid int32) {
	if k := ks.of[pid]; k != nil {
		delete(ks.of, pid)
		ks.unuse(k)
	}
}

// unuse ends a use. mu is held.
func (ks *keeper) unuse(k *kept) {
	if k.uses--; k.uses == 0 {
		k.close()
	}
}

func (k *kept) close() {
	if k == nil {
		return
	}
	for _, list := range [][]int{k.files[:], k.infos[:]} {
		for _, fd := range list {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
	}
	k.up.close()
}

// borrow returns what is kept of whatever has the pid or had it, to be given back; nil if
// nothing is.
func (ks *keeper) borrow(pid int32) *kept {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	k := ks.of[pid]
	if k != nil {
		k.uses++
		k.used = now()
	}
	return k
}

func (ks *keeper) giveBack(k *kept) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.unuse(k)
}

// drop forgets a process that has gone.
func (ks *keeper) drop(k *kept) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if ks.of[k.o.PID] == k {
		ks.forget(k.o.PID)
	}
}

// close ends the keeping. What somebody still reads is closed when he has.
func (ks *keeper) close() {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for pid := range ks.of {
		ks.forget(pid)
	}
	ks.of = nil
}

// longestNumber is more than a process id takes in a list.
const longestNumber = 32

// withKept hands the content of a kept file to use, which must not keep it. It is not ok
// if there is none, or its process has gone and another one may have the pid.
func (r *Reader) withKept(pid int32, file int, use func([]byte) error) (ok bool, err error) {
	k := r.keeper.borrow(pid)
	if k == nil {
		return false, nil
	}
	defer r.keeper.giveBack(k)
	cut := false
	read, err := procfs.Reread(k.files[file], func(b []byte) error {
		if cut = len(b) > procfs.FirstRead-longestNumber; cut { // the kernel ends a list before a number that does not fit
			return nil
		}
		return use(b)
	})
	if !read && err == ErrGone {
		r.keeper.drop(k)
	}
	if !read || cut {
		return false, nil
	}
	return true, err
}

// withPIDFile is withFile for a file of a process that may be kept.
func (r *Reader) withPIDFile(pid int32, file int, name string, use func([]byte) error) error {
	if ok, err := r.withKept(pid, file, use); ok {
		return err
	}
	return r.root.WithFile(procfs.PIDPath(pid, name), use)
}

// keptChildrenOf is childrenOnce of a process of a single thread of which files are kept.
func (r *Reader) keptChildrenOf(pid int32) (list []byte, ok bool) {
	k := r.keeper.borrow(pid)
	if k == nil {
		return nil, false
	}
	defer r.keeper.giveBack(k)
	// The links are counted for a process that lives: see isSingle.
	var st unix.Stat_t
	if unix.Fstat(k.files[keptTask], &st) != nil || st.Nlink != 3 {
		return nil, false
	}
	return r.keptList(pid)
}

// keptList is the list of the children of a process's first thread, if that is kept.
func (r *Reader) keptList(pid int32) (list []byte, ok bool) {
	ok, err := r.withKept(pid, keptChildren, func(b []byte) error {
		list = append(list, b...)
		return nil
	})
	return list, ok && err == nil
}
