package filing

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/filed"
	"latchfs/fs/lockkey"
	"latchfs/lockmgr/policy/lockfile"
)

// Asks says which locks whoever asks for the lock of a name has to ask for, too: on is
// what the claim file of that name stands for, nil if there is nothing to add; is reports
// whether it is a claim file's name. makes is for an operation that may give the name
// another file, ends for one that takes its file away.
func (k *Clerk) Asks(n Name, makes, ends bool) (on *lockkey.Target, is bool) {
	if ends {
		if f, ok := k.find(n); ok {
			k.c.Room.Disown(f.at.Place())
		}
	}
	file := n.Path()
	rule := k.rule(file)
	if rule == nil {
		return nil, false
	}
	if !makes || k.c.Room.Has(n.Place()) {
		return nil, true
	}
	t, err := target(rule, file)
	if err != nil {
		return nil, true
	}
	return &t, true
}

// Changed tells of a name that holds something else now, or nothing, if it is a claim
// file's. by is who has made it so, and may answer nil for somebody who files nothing; it
// is asked only if that matters. The paths are held, and the lock of the name.
func (k *Clerk) Changed(n Name, isThere bool, by func() Claimant) {
	f, ok := k.find(n)
	if !ok {
		return
	}
	if !f.inside && (!isThere || f.rule == nil) {
		k.c.Room.Gone(f.at.Place())
		return
	}
	if f.inside && n.Base() != ownerFile && n.Base() != recordFile {
		return
	}
	c := by()
	if c == nil || c.IsDaemon() {
		return // the daemon is taking a stale claim apart
	}
	k.file(c, f.at, f.rule)
	if f.inside {
		k.endIfGone(f.at)
	}
}

// endIfGone ends a claim whose directory somebody else has removed meanwhile: whoever changes
// what is in it has the lock of that, and not of the directory's name.
func (k *Clerk) endIfGone(n Name) {
	var st unix.Stat_t
	if unix.Fstatat(n.Dir(), n.Base(), &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
		k.c.Room.Gone(n.Place())
	}
}

// file tells what a claim file holds now. The paths are held, and the lock of the name.
func (k *Clerk) file(by Claimant, n Name, rule *lockfile.Convention) {
	file := n.Path()
	f := &filed.Filing{Rule: rule, By: by, Chain: k.chainOf(by)}
	var err error
	if f.Target, err = target(rule, file); err == nil {
		f.Content, f.Made, err = read(n.Dir(), n.Base(), rule)
	}
	if err == nil {
		f.At = n.Keep()
		err = k.c.Room.File(f)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		k.c.Engine.Ignored(by, file, rule.Format, err)
	}
}

// May refuses content that is to have the name of a claim file and is another claim's. open
// opens it. What cannot be read nobody can tell, and so nobody claims by it.
func (k *Clerk) May(by Claimant, n Name, open func() (int, error)) error {
	rule := k.rule(n.Path())
	if rule == nil || rule.Format == lockfile.OwnerDir || k.c.Room.Count() == 0 {
		return nil
	}
	fd, err := open()
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	f := &filed.Filing{At: n.Place(), Rule: rule, By: by}
	if f.Content.Data, err = readBeginning(fd, &st); err != nil {
		return nil
	}
	if err := k.c.Room.May(f); err != nil {
		return fmt.Errorf("%s: %w", n.Path(), err)
	}
	return nil
}

// MayTidy reports whether a process may remove a name as far as that depends on it being
// the daemon, which removes nothing but the files of stale claims. The lock of the name is
// held.
func (k *Clerk) MayTidy(by Claimant, n Name) bool {
	if !by.IsDaemon() || !k.Any() {
		return true
	}
	f, ok := k.find(n)
	return ok && k.c.Room.MayRemove(f.at.Place()) == nil
}

// Made tells of a directory that was made or has got another name.
func (k *Clerk) Made(by Claimant, n Name) {
	rule := k.rule(n.Path())
	if rule == nil || rule.Format != lockfile.OwnerDir {
		return
	}
	k.c.Engine.HoldPaths()
	defer k.c.Engine.ReleasePaths()
	k.file(by, n, rule)
}

// Moved tells that the directory that was at from is at to now; in an exchange the one that was
// at to is at from. A claim is given back where its directory has got a name that claims nothing.
func (k *Clerk) Moved(by Claimant, from, to Name, exchange bool) {
	if !k.Any() {
		return
	}
	k.settle(by, to, true)
	k.settle(by, from, exchange)
}

// settle is Moved for one of the names: made reports whether a directory has it now.
func (k *Clerk) settle(by Claimant, n Name, made bool) {
	if k.rule(n.Path()) == nil {
		k.c.Room.Gone(n.Place())
	} else if made {
		k.Made(by, n)
	}
}
