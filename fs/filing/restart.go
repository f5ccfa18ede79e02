package filing

import (
	"encoding/json"
	"path"

	"golang.org/x/sys/unix"

	"latchfs/fs/filed"
	"latchfs/lockmgr/policy/lockfile"
)

// stateFile is the file of the state directory with the processes that may have claims.
const stateFile = "claims.json"

// saved is what that file holds.
type saved struct {
	Boot   string                    `json:"boot"` // in which the process ids mean something
	Claims map[string][]filed.Member `json:"claims"`
}

// Save writes down which processes may have the claims, so that the next mount knows it
// where the program that has claimed something goes on.
func (k *Clerk) Save() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := saved{Boot: k.c.Boot, Claims: map[string][]filed.Member{}}
	for p, chain := range k.c.Room.Holders() {
		s.Claims[k.c.Engine.PathOf(p)] = chain
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return k.c.Engine.WriteState(stateFile, data)
}

// chains is what Save has written in this boot, by the paths of claim files.
func (k *Clerk) chains() map[string][]filed.Member {
	var s saved
	data, err := k.c.Engine.ReadState(stateFile)
	if err != nil || json.Unmarshal(data, &s) != nil || s.Boot != k.c.Boot {
		return nil
	}
	return s.Claims
}

// Restore enters the claim files that are there when the mount starts. It looks through
// the whole tree below root, a descriptor, and only if the policy knows claim files.
func (k *Clerk) Restore(root int) error {
	if !k.Any() {
		return nil
	}
	chains := k.chains()
	fd, err := unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	w := &walk{k, chains}
	w.directory(fd, nil, "")
	return nil
}

// walk looks through a tree for claim files.
type walk struct {
	*Clerk
	chains map[string][]filed.Member
}

// directory looks through an open directory; up is its place, nil of the data directory.
func (w *walk) directory(fd int, up filed.Place, dir string) {
	list, err := w.c.Engine.List(fd)
	if err != nil {
		w.c.Engine.Warn(dir, "may have claim files, but cannot be listed", err)
		return
	}
	for _, e := range list {
		if w.c.Engine.Reserved(e.Name) {
			continue
		}
		at, p := path.Join(dir, e.Name), w.c.Engine.Child(up, e.Name)
		if rule := w.rule(at); rule != nil {
			w.claim(fd, p, at, rule)
		} else if e.IsDir {
			w.below(fd, p, at)
		}
		w.c.Engine.Left(p)
	}
}

// below looks through a directory in an open one. What is mounted there is not the data.
func (w *walk) below(up int, p filed.Place, dir string) {
	fd, err := unix.Openat2(up, path.Base(dir), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return
	}
	defer unix.Close(fd)
	w.directory(fd, p, dir)
}

// claim enters one claim file. The claim is its owner's.
func (w *walk) claim(dirfd int, p filed.Place, file string, rule *lockfile.Convention) {
	name := path.Base(file)
	var st unix.Stat_t
	if unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	f := &filed.Filing{Rule: rule, By: w.c.Engine.Owner(st.Uid, st.Gid), Chain: w.chains[file], Restored: true}
	var err error
	if f.Target, err = target(rule, file); err == nil {
		f.Content, f.Made, err = read(dirfd, name, rule)
	}
	if err == nil {
		f.At = w.c.Engine.Again(p)
		err = w.c.Room.File(f)
	}
	if err != nil {
		w.c.Engine.Ignored(nil, file, rule.Format, err)
	}
}
