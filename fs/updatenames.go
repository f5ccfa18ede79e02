package fs

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// This file joins the operations on names with what is known of read
// versions.

// mayRemove decides whether a file may be removed.
func (et *entries) mayRemove(c *caller, p place) unix.Errno {
	var st unix.Stat_t
	if et.rules.knowledge == nil || unix.Fstatat(et.nodes.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	path := et.nodes.path(p.dir, p.name)
	set := et.rules.settings(path)
	if !et.losses.updates.AsksRemover(path, c.Owner(), &set) {
		return 0
	}
	return et.mayTakeAway(c, opUnlink, p, &st)
}

// mayTakeAway is mayReplace where nothing takes the file's place.
func (et *entries) mayTakeAway(c *caller, op string, p place, st *unix.Stat_t) unix.Errno {
	x, e := et.losses.wouldLose(c, op, p, st)
	if x == nil {
		return e
	}
	return errnoFor(x.AnswerGone())
}

// mayReplace decides whether a file may lose its name, or its place, to the rename.
// A rename away from a name is how vim begins to overwrite it.
func (r *renaming) mayReplace() unix.Errno {
	if r.rules.knowledge == nil || r.sameFile() {
		return 0
	}
	if e := r.mayArrive(); e != 0 {
		return e
	}
	if r.fromSt == nil {
		return 0
	}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		x, e := r.wouldLose(r.from, r.fromSt, r.writers(r.to, r.toSt).Writers...)
		if x == nil {
			return e
		}
		return errnoFor(x.Answer())
	}
	x, e := r.wouldLose(r.from, r.fromSt)
	if x != nil {
		e = errnoFor(x.AnswerGone())
	}
	if e != 0 {
		r.losses.ignoreNextRead(r.c, r.from)
	}
	return e
}

// mayArrive decides whether the rename may put the file in the place of what has its
// new name, or had it a moment ago.
func (r *renaming) mayArrive() unix.Errno {
	src := r.writers(r.from, r.fromSt)
	x, e := r.wouldLose(r.to, r.toSt, src.Writers...)
	if x != nil {
		x.Source, x.Exclusive = src, r.flags&unix.RENAME_NOREPLACE != 0
		switch {
		case r.toSt == nil && r.putsBack(x):
			return 0 // what the family itself has removed, it gives back
		case r.toSt == nil:
			return r.losses.answerOr(x, r.to)
		}
		if !r.putsBack(x) {
			e = r.mergeOr(x)
		}
	}
	if e != 0 || r.toSt == nil || r.fromSt == nil || r.flags&unix.RENAME_EXCHANGE != 0 {
		return e
	}
	// A program that moves its temporary file into place must find there what it has
	// put there itself.
	x, e = r.losses.wouldLoseWhat(r.c, opRename, r.from, r.fromSt, knowledge.Makers)
	if x == nil {
		return e
	}
	was := *src
	was.Over = r.nodes.path(r.to.dir, r.to.name)
	x.Source = &was
	return errnoFor(x.AnswerGone())
}

// putsBack reports whether the rename restores the version that was known: it comes back
// itself, or a copy of it takes back what the family has changed since.
func (r *renaming) putsBack(x *lostupdate.Loss) bool {
	if r.fromSt == nil {
		return false
	}
	if who, ok := r.losses.learnersOf(r.c, x.Set); ok && x.ComesBack(stampOfFile(r.fromSt), who) {
		return true
	}
	number, ok := x.MayPutBack(r.fromSt.Size)
	if !ok || r.flags&unix.RENAME_EXCHANGE != 0 {
		return false
	}
	old, err := r.disk.versions.Open(x.Path, number)
	if err != nil {
		return false
	}
	defer old.Close()
	fd, err := commit.OpenUnnoticed(r.nodes.fdOf(r.from.dir), r.from.name)
	if err != nil {
		return false
	}
	back := os.NewFile(uintptr(fd), r.from.name)
	defer back.Close()
	return lostupdate.IsPutBack(old, back)
}

// sameFile reports whether both names are of one file: then nothing is replaced.
func (r *renaming) sameFile() bool {
	return r.fromSt != nil && r.toSt != nil && r.fromSt.Ino == r.toSt.Ino && r.fromSt.Dev == r.toSt.Dev
}

// writers is who has written the file that is about to get another name: it carries
// what they had read.
func (r *renaming) writers(p place, st *unix.Stat_t) *lostupdate.Source {
	src := &lostupdate.Source{Path: r.nodes.path(p.dir, p.name)}
	if s := r.ownSession(p); s != nil {
		w, by := r.losses.madeBy(s)
		src.Writers, src.Author = append([]lockmgr.Owner{w.Self}, w.Relatives...), by
	} else if st != nil {
		src.Writers, src.Author = r.rules.knowledge.WrittenBy(knowledge.Key(src.Path), stampOfFile(st))
	}
	return src
}

// expectMove notes what the rename is about to make of the two names: another thread
// of the caller, who shares its lock, may meet that before it is told of. What it returns
// takes back what has not come.
func (r *renaming) expectMove() (over func()) {
	if r.rules.knowledge == nil || r.fromSt == nil || r.merging != nil || r.sameFile() || isDirectory(r.fromSt) || isDirectory(r.toSt) {
		return func() {}
	}
	to := r.nodes.path(r.to.dir, r.to.name)
	r.entries.expectChange(r.c, to, r.fromSt)
	if r.flags&unix.RENAME_EXCHANGE == 0 {
		return func() { r.rules.knowledge.Expected(knowledge.Key(to)) }
	}
	from := r.nodes.path(r.from.dir, r.from.name)
	r.entries.expectChange(r.c, from, r.toSt)
	return func() {
		r.rules.knowledge.Expected(knowledge.Key(to))
		r.rules.knowledge.Expected(knowledge.Key(from))
	}
}

func (et *entries) expectChange(c *caller, path string, st *unix.Stat_t) {
	set := et.rules.settings(path)
	if !et.losses.updates.Applies(&set) {
		return
	}
	who, _ := et.losses.learnersOf(c, &set)
	et.rules.knowledge.Expect(knowledge.Key(path), stampOfFile(st), who, authorOf(c, opRename))
}

// movesKnowledge prepares the move of a directory from one path to another: what is
// known of the files below goes with them.
func (r *renaming) movesKnowledge() (move func(from, to string)) {
	if r.rules.knowledge == nil {
		return func(string, string) {}
	}
	set := r.rules.settings(r.nodes.path(r.to.dir, r.to.name))
	who, _ := r.losses.learnersOf(r.c, &set)
	by := authorOf(r.c, opRename)
	return func(from, to string) {
		r.rules.knowledge.Moved(time.Now(), knowledge.Key(from), knowledge.Key(to), r.flags&unix.RENAME_EXCHANGE != 0, who, by)
	}
}

// shareKnowledge notes that a file, with the attributes st, has got a further name: what
// is known of it under one name is known of it under all.
func (et *entries) shareKnowledge(n *inode, st *unix.Stat_t) {
	if dir, name := et.nodes.nameOf(n); et.rules.knowledge != nil && dir != nil && st.Nlink == 2 {
		et.losses.updates.Shared(et.nodes.path(dir, name), stampOfFile(st))
	}
}
