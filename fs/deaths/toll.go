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
// Count comes before what asks for the worst death. KeepOut is called only where KeepsOut has
// said so: Worst is not nil then. A Toll has no mutex: whoever calls it holds the session's.
type Toll[Stamp comparable] struct {
	worst   *Death // that counts; nil: none does
	own     *Death // the worst of those whose file it is
	heir    *Death // likewise of those who had inherited it, and may have written to it
	idle    *Death // likewise of those who had not written anything
	at      Stamp  // the content when the last has died of those who count
	ownAt   Stamp  // likewise of those whose file it is
	heirAt  Stamp  // likewise of those who had inherited it
	keptOut bool   // what was written did not become the file, for that
	wroteOn bool   // and somebody had written since

	writers map[uint32]int32 // the processes of the threads that were seen to write
	openers []int32          // processes that have opened it to write
	crowd   bool             // there were more than are noted, or one of which nothing is known
	many    bool             // likewise of those who have opened it
}

// maxWriters is how many threads, and openers, are noted.
const maxWriters = 64

// Wrote notes that a thread writes; of tells its process, 0 if nobody can tell. That is asked
// once, for nobody can when the thread has ended.
func (t *Toll[Stamp]) Wrote(thread uint32, of func() (pid int32)) {
	if _, known := t.writers[thread]; known || t.crowd {
		return
	}
	pid := int32(0)
	if thread != 0 && len(t.writers) < maxWriters {
		pid = of()
	}
	if pid == 0 {
		t.crowd = true
		return
	}
	if t.writers == nil {
		t.writers = map[uint32]int32{}
	}
	t.writers[thread] = pid
}

// Opened notes that a process has opened the file to write.
func (t *Toll[Stamp]) Opened(pid int32) {
	switch {
	case slices.Contains(t.openers, pid):
	case len(t.openers) == maxWriters:
		t.many = true
	default:
		t.openers = append(t.openers, pid)
	}
}

// HasOpened reports whether a process has opened the file itself, or may have.
func (t *Toll[Stamp]) HasOpened(pid int32) bool { return t.many || slices.Contains(t.openers, pid) }

// MayHaveWritten reports whether a process has opened the file itself, or was seen to write it. It
// is so of everybody if it is not known who has.
func (t *Toll[Stamp]) MayHaveWritten(pid int32) bool {
	if t.crowd || t.HasOpened(pid) {
		return true
	}
	for _, p := range t.writers {
		if p == pid {
			return true
		}
	}
	return false
}

// Note notes a death of one whose file it is. What was written until now, at, is taken for the
// dead's. writer is the process that has the session.
func (t *Toll[Stamp]) Note(d *Death, writer lockmgr.Owner, at Stamp) {
	t.ownAt, t.own = at, worse(t.own, d, writer)
}

// NoteHeir notes the death of a process that has inherited the file from one that goes on, and may
// have written to it. It counts only if nobody writes on: who has the file goes on after the
// death, and answers for what is in it.
func (t *Toll[Stamp]) NoteHeir(d *Death, writer lockmgr.Owner, at Stamp) {
	t.heirAt, t.heir = at, worse(t.heir, d, writer)
}

// NoteIdle notes the death of a process that has merely inherited the file, and has not written
// anything. What others write is as good as it was, so it counts only if they write nothing.
func (t *Toll[Stamp]) NoteIdle(d *Death, writer lockmgr.Owner) { t.idle = worse(t.idle, d, writer) }

// Count is told the content, and whether there is none, when the file is to be judged, which may
// be more than once: it decides which deaths count. all says that those of heirs do in any case.
func (t *Toll[Stamp]) Count(now Stamp, isEmpty, all bool, writer lockmgr.Owner) {
	t.worst, t.at = t.own, t.ownAt
	if t.heir != nil && (all || now == t.heirAt) {
		t.worst, t.at = worse(t.worst, t.heir, writer), t.heirAt
	}
	if t.idle != nil && isEmpty { // whoever has died was about to write it
		if t.worst == nil {
			t.at = now
		}
		t.worst = worse(t.worst, t.idle, writer)
	}
}

// HasDead reports whether anybody has died who may have written to the file.
func (t *Toll[Stamp]) HasDead() bool { return t.own != nil || t.heir != nil }

// Worst is the death that counts for the file, as it was counted last; nil: none does.
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
