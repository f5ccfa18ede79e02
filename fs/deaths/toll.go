package deaths

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// Toll is what the deaths of those who have a file open mean for it, until its session ends. A
// Stamp tells the file's content from what it was.
//
// KeepOut is called only where KeepsOut has said so: Worst is not nil then. A Toll has no mutex:
// whoever calls it holds the session's.
type Toll[Stamp comparable] struct {
	worst   *Death // that counts; nil: none does
	idle    *Death // likewise of those who had not written anything
	at      Stamp  // the content when the last has died
	keptOut bool   // what was written did not become the file, for that
	wroteOn bool   // and somebody had written since

	writers []uint32 // threads that have written, as far as that is seen, each once
	crowd   bool     // there were more than are noted
}

// maxWriters is how many threads are noted.
const maxWriters = 64

// Wrote notes that a thread has written.
func (t *Toll[Stamp]) Wrote(thread uint32) {
	switch {
	case t.crowd || slices.Contains(t.writers, thread):
	case len(t.writers) == maxWriters || thread == 0:
		t.writers, t.crowd = nil, true
	default:
		t.writers = append(t.writers, thread)
	}
}

// MayHaveWritten reports whether one of the threads that were seen to write is one of those that
// are asked for. It is so if it is not known which have.
func (t *Toll[Stamp]) MayHaveWritten(is func(thread uint32) bool) bool {
	return t.crowd || slices.ContainsFunc(t.writers, is)
}

// Note notes a death. What was written until now, at, is taken for the dead's. writer is the
// process that has the session.
func (t *Toll[Stamp]) Note(d *Death, writer lockmgr.Owner, at Stamp) {
	t.at, t.worst = at, worse(t.worst, d, writer)
}

// NoteIdle notes the death of a process that has merely inherited the file, and has not written
// anything. What others write is as good as it was, so it counts only if they write nothing.
func (t *Toll[Stamp]) NoteIdle(d *Death, writer lockmgr.Owner) { t.idle = worse(t.idle, d, writer) }

// NothingWritten is told when the session ends and the file is empty: whoever has died was
// about to write it.
func (t *Toll[Stamp]) NothingWritten(writer lockmgr.Owner) {
	if t.idle != nil {
		t.worst = worse(t.worst, t.idle, writer)
	}
}

// Worst is the death that counts for the file; nil: none does.
func (t *Toll[Stamp]) Worst() *Death { return t.worst }

// KeepsOut reports whether it keeps what was written from becoming the file.
func (t *Toll[Stamp]) KeepsOut(onKill policy.OnKill, f File) bool { return t.worst.KeepsOut(onKill, f) }

// KeepOut notes that it does, and that the content is now what the stamp tells.
func (t *Toll[Stamp]) KeepOut(now Stamp) { t.keptOut, t.wroteOn = true, now != t.at }

// IsKeptOut reports whether a death has kept out what was written.
func (t *Toll[Stamp]) IsKeptOut() bool { return t.keptOut }

// Tells reports whether the close of a living process tells it of the end of the session,
// which it always does but where a death has kept the content out; see isTold.
func (t *Toll[Stamp]) Tells(isOpener, isOutput bool) bool {
	return !t.keptOut || isTold(isOpener, isOutput, t.wroteOn)
}

// Detail adds to an event how the writer has died, if one has.
func (t *Toll[Stamp]) Detail(d map[string]any) {
	if t.worst != nil {
		d["killed_by"] = unix.SignalName(t.worst.Signal)
	}
}
