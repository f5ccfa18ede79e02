package standin

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Attrs are the attributes that one shadow shows. Adjust, File and Links may be called by
// anybody; what changes them is called by one at a time: whoever holds the session's mutex, or
// makes the session.
type Attrs struct{ now atomic.Pointer[attrs] }

// attrs is how the attributes of the shadow differ from what fstat says. It is not changed.
type attrs struct {
	nlink    uint32
	bits     uint32 // of the mode, which the shadow may have lost
	dev, ino uint64 // 0: its own
	// As long as the shadow has the times fresh, nothing was written, and it
	// shows those of the file it stands for.
	fresh, mtime, ctime unix.Timespec
}

// change puts a changed copy in the place of what is shown.
func (a *Attrs) change(do func(now *attrs)) {
	now := *a.now.Load()
	do(&now)
	a.now.Store(&now)
}

// ShowNew shows a new file: with one link, and a number of its own.
func (a *Attrs) ShowNew() { a.now.Store(&attrs{nlink: 1}) }

// StandFor shows the number and the links of the file st, and nothing else that is not the
// shadow's own.
func (a *Attrs) StandFor(st *unix.Stat_t) {
	a.now.Store(&attrs{nlink: uint32(st.Nlink), dev: uint64(st.Dev), ino: st.Ino})
}

// ShowTimes shows the times of the file st, as long as the shadow was last written at fresh.
func (a *Attrs) ShowTimes(st *unix.Stat_t, fresh unix.Timespec) {
	a.change(func(now *attrs) { now.fresh, now.mtime, now.ctime = fresh, st.Mtim, st.Ctim })
}

// ShowOwnTimes ends that: the shadow's times were set.
func (a *Attrs) ShowOwnTimes() { a.change(func(now *attrs) { now.fresh = unix.Timespec{} }) }

// SetNumber shows the number of another file, which the shadow stands for from now on.
func (a *Attrs) SetNumber(dev, ino uint64) {
	a.change(func(now *attrs) { now.dev, now.ino = dev, ino })
}

// SetLinks shows so many links; 0 is a file that has lost its name.
func (a *Attrs) SetLinks(n uint32) { a.change(func(now *attrs) { now.nlink = n }) }

// ShowBits shows these bits in the mode, beside those that the shadow has.
func (a *Attrs) ShowBits(bits uint32) { a.change(func(now *attrs) { now.bits = bits }) }

// Links are how many links are shown.
func (a *Attrs) Links() uint32 { return a.now.Load().nlink }

// File is the number of the file that the shadow stands for; false of a new one.
func (a *Attrs) File() (dev, ino uint64, ok bool) {
	now := a.now.Load()
	return now.dev, now.ino, now.ino != 0
}

// Adjust turns the shadow's attributes into what is shown. A shadow that is only being made
// shows its own.
func (a *Attrs) Adjust(st *unix.Stat_t) {
	now := a.now.Load()
	if now == nil {
		return
	}
	st.Nlink = uint64(now.nlink)
	st.Mode |= now.bits
	if now.ino != 0 {
		st.Dev, st.Ino = now.dev, now.ino
	}
	if now.fresh != (unix.Timespec{}) && st.Mtim == now.fresh {
		st.Mtim, st.Ctim = now.mtime, now.ctime
	}
}
