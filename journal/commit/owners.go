package commit

import (
	"errors"

	"golang.org/x/sys/unix"
)

// SetOwners makes as run such calls: what as returns runs a call with the rights of a
// file's owner, without CAP_FOWNER. SetOwners is to be called before the store is used.
func (s *Store) SetOwners(as func(uid, gid uint32) Runner) { s.disk.Owners = as }

// foreignBase is the conflict that a refusal by the kernel stands for.
func (o *PublishOptions) foreignBase(err error) error {
	var st unix.Stat_t
	if unix.Fstatat(o.Dir, o.Name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return errors.Join(&ConflictError{Name: o.Name, Base: o.Base}, err)
	}
	if found := VersionOf(&st); found != *o.Base {
		return errors.Join(&ConflictError{Name: o.Name, Base: o.Base, Found: &found}, err)
	}
	return err // it had the name for a moment, or nobody may change the directory
}

// stillThere looks, before a transaction is decided, whether the names in sticky
// directories hold what they held when its parts were prepared.
func (t *Txn) stillThere() error {
	for _, p := range t.parts {
		var st unix.Stat_t
		if t.s.disk.Owners == nil || unix.Fstat(p.dir, &st) != nil || st.Mode&unix.S_ISVTX == 0 {
			continue
		}
		err := unix.Fstatat(p.dir, p.in.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case err == unix.ENOENT && p.in.TargetIno == 0:
		case err != nil || st.Ino != p.in.TargetIno:
			return &ConflictError{Name: p.in.Name}
		}
	}
	return nil
}
