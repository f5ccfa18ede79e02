package lostupdate

import (
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// Engine is what a Judge asks the filesystem, and tells it.
type Engine interface {
	// Number is the number that the history gives the version stamp of a path, 0 if it has
	// that no longer. It counts if the history has the path: if not, the number by which
	// package knowledge knows the version is shown.
	Number(path string, stamp knowledge.Stamp) (number uint64, counts bool)
	// KeepsHistory reports whether a version that is replaced can be had back.
	KeepsHistory(set *policy.Settings) bool
	// SeesEverything reports whether a user may see the labels of others.
	SeesEverything(uid uint32) bool
	// OnlyLocked finds out whether what a basis speaks of was learned by an open that was
	// made to lock the file, and through which nothing was read; nil if not. It is asked
	// once for each such open.
	OnlyLocked(path string, b *knowledge.Basis) *knowledge.Sight

	// Obeyed tells that a change happens all the same, and why.
	Obeyed(l *Loss, why string)
	// Conflict tells that a change is refused.
	Conflict(l *Loss)
	// Explain keeps for the process that is refused what is the matter.
	Explain(l *Loss)
}

// Procs is what is asked about processes.
type Procs interface {
	Family(o lockmgr.Owner) proc.Family
	Lineage(pid int32) []lockmgr.Ancestor
	Alive(o lockmgr.Owner) bool
	Program(pid int32) string
}

// Config is what a Judge needs.
type Config struct {
	Known  *knowledge.Table // nil where nobody can change anything
	Procs  Procs
	Engine Engine
	// Mountpoint is where the mount is, for the command lines of advice.
	Mountpoint string
}

// Judge decides about changes. Several goroutines may use it at once.
type Judge struct{ Config }

// New returns a Judge.
func New(c Config) *Judge { return &Judge{c} }

// File is what a path holds.
type File struct {
	Path   string
	Stamp  knowledge.Stamp // zero: no file
	Linked bool            // the file has other names, too
}

func (f *File) key() knowledge.Key { return knowledge.Key(f.Path) }

// Change is about to replace a file, or to take its name away.
type Change struct {
	File
	Op    string // as events and refusals name it
	Names bool   // it removes or renames the file, and writes nothing
	// Exclusive: it is made only if the name is free (O_EXCL, link(2), RENAME_NOREPLACE).
	Exclusive bool
	Set       *policy.Settings
	Chain     []lockmgr.Owner // whose knowledge counts, the nearest first
	Counts    knowledge.Counts
	// Writers are, of a file that takes the place of another, the process that has written
	// it and its relatives, the nearest first; Who moves it there.
	Writers []lockmgr.Owner
	Who     knowledge.Who
	Use     *knowledge.Use // of the descriptor that cuts the file, if nobody on the chain has read it; nil of other changes
}

// Maker is the process whose change it is.
type Maker struct {
	Owner   lockmgr.Owner
	Self    lockmgr.Owner // Owner, or what stands for it among those who know something
	By      knowledge.Author
	Lineage []lockmgr.Ancestor // nil: not known yet
}

// Applies reports whether it matters under these settings who has read what.
func (j *Judge) Applies(set *policy.Settings) bool {
	return j.Known != nil && set.Mode == policy.Atomic && set.LostUpdate != policy.IgnoreLost
}

// Loss is what the change would lose; nil if that is nothing. by is asked whose change it
// is if it would lose something.
func (j *Judge) Loss(ch Change, by func() Maker) *Loss {
	b := j.Basis(&ch)
	for b.Stale {
		sight := j.Engine.OnlyLocked(ch.Path, &b)
		if sight == nil {
			return &Loss{Change: ch, Maker: by(), Basis: b, j: j}
		}
		j.Known.Withdraw(sight)
		b = j.Basis(&ch)
	}
	return nil
}

// LossOfWriter is Loss of a change whose process has the file open to write: what it has
// learned by an open counts, whatever that was made for.
func (j *Judge) LossOfWriter(ch Change, by func() Maker) *Loss {
	if b := j.Basis(&ch); b.Stale {
		return &Loss{Change: ch, Maker: by(), Basis: b, j: j}
	}
	return nil
}

// Basis is what those on the chain know of the file, under its path or, where it has
// several, under another.
func (j *Judge) Basis(ch *Change) knowledge.Basis {
	now := time.Now()
	j.CatchUp(ch.Path, ch.Stamp)
	b := j.Known.Check(now, ch.key(), ch.Stamp, ch.Chain, ch.Set.Fade, ch.Counts)
	if link := LinkKey(ch.Stamp); ch.Linked || j.Known.Tracks(link) {
		b = b.Nearer(j.Known.Check(now, link, ch.Stamp, ch.Chain, ch.Set.Fade, ch.Counts), ch.Chain)
	}
	if ch.Use != nil && !b.Known {
		b = j.Known.Since(now, ch.key(), ch.Stamp, ch.Use)
	}
	if b.Stale && len(ch.Writers) > 0 && b.IsOwnWork(ch.Who, ch.Writers) {
		own := *ch
		own.Chain, own.Writers = Chain(ch.Who, nil), nil
		return j.Basis(&own)
	}
	return b
}
