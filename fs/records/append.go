package records

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/sys"
)

// append writes b on behalf of w at the end of the file. The lock of its name is held.
func (a *Appender) append(w appends.Writer, b []byte, on appends.Occasion) unix.Errno {
	host := a.c.Host
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, done := host.AppendToOwn(w, b); done {
		return e
	}
	if e := a.followLocked(); e != 0 {
		return e
	}
	if e := host.JudgeLines(a.fd, b); e != 0 {
		return e
	}
	if w.KillSuid {
		if e := host.KillSuid(a.id, a.fd, w.UID, w.GID); e != 0 {
			return e
		}
	}
	ch, _ := a.changeLocked(Appended)
	seq, err := a.tail.Append(w, a.fd, b)
	if err != nil {
		return sys.Errno(err)
	}
	tell(ch, a.fd)
	if on == appends.Written {
		a.usedID = a.id
	}
	a.noteRecordLocked(b)
	a.seq, a.unsynced = seq, true
	a.tail.Appended()
	a.records++
	a.bytes += len(b)
	a.growLocked(len(b))
	host.ShowEnd(a.id, a.fd, on)
	return 0
}

// changeLocked is what the appender is about to make of its file, which is was now; nil of a
// file that has lost its name, and where nobody is to be told.
func (a *Appender) changeLocked(what What) (ch Change, was unix.Stat_t) {
	if !a.named || unix.Fstat(a.fd, &was) != nil {
		return nil, was
	}
	return a.c.Host.Change(what, &was), was
}

// tell tells that it has been made of the file that is open as fd.
func tell(ch Change, fd int) {
	var st unix.Stat_t
	if ch != nil && unix.Fstat(fd, &st) == nil {
		ch.Tell(&st)
	}
}

// noteRecordLocked notes what the append of b has left unfinished at the file's end. What was
// synced does not belong to it, nor what is no text: nobody may lose that. The file's lock
// is held.
func (a *Appender) noteRecordLocked(b []byte) {
	var st unix.Stat_t
	if len(b) == 0 || b[len(b)-1] == '\n' || !a.queue.MayDrop(b) || unix.Fstat(a.fd, &st) != nil {
		a.open.Forget()
		return
	}
	a.open.Add(time.Now(), a.id, st.Size, b, &a.room.gaps)
}

// growLocked tells that the file has begun to grow. Records make no versions: the one that is
// there grows. The lock that the append took is held.
func (a *Appender) growLocked(added int) {
	if a.grows == a.id {
		return
	}
	a.restLocked()
	if a.c.Host.Grows(a.id, a.fd, added) {
		a.grows = a.id
	}
}

// restLocked tells that the appender has done with the file that has grown.
func (a *Appender) restLocked() {
	of := a.grows
	if of == (ID{}) {
		return
	}
	a.grows = ID{}
	fd := -1
	if of == a.id {
		fd = a.fd
	}
	a.c.Host.Rests(of, fd)
}
