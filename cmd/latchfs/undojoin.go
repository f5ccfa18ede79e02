package main

import (
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
)

// join makes one of what is to be deleted and what is to be there again under the same name: an
// actor may have put a link in the place of a file, or a file in that of a link or directory.
// Nothing else is deleted before the rest is there; this has to be, for it is in the way.
func join(plan []*undoing) []*undoing {
	at := map[string][]*undoing{}
	for _, u := range plan {
		at[u.path] = append(at[u.path], u)
	}
	joined := func(u *undoing) bool {
		others := at[u.path]
		if i := slices.IndexFunc(others, func(o *undoing) bool { return o.Action == undoRestore }); u.Action == undoDelete && i >= 0 {
			others[i].replace()
			return true
		}
		return u.Action == undoDelete && others[0] != u
	}
	plan = slices.DeleteFunc(plan, joined)
	return slices.DeleteFunc(plan, func(u *undoing) bool { // somebody else's file has the name
		return u.Action == undoRestore && u.removed != nil && !u.replaces && u.now != fileStamp{}
	})
}

// replace notes that something of the actor's is in the way.
func (u *undoing) replace() {
	u.replaces = true
	if u.Reason == "" {
		u.Reason = "what has its name now is deleted"
	}
}

// refuseInTheWay refuses what cannot be there again, for something else has its name or that of
// a directory above it, and is not deleted by the plan.
func (u *undoing) refuseInTheWay(v *view, plan []*undoing) {
	if u.Action != undoRestore {
		return
	}
	st, err := os.Lstat(v.file(u.path))
	if err == nil && !u.replaces && !st.Mode().IsRegular() {
		u.refuse("%s has its name now: remove it, or give it another name", kindOf(st.Sys().(*syscall.Stat_t).Mode))
		return
	}
	for dir := path.Dir(u.path); dir != "."; dir = path.Dir(dir) {
		st, err := os.Lstat(v.file(dir))
		if err != nil || st.IsDir() || slices.ContainsFunc(plan, func(o *undoing) bool { return o.path == dir && o.replaces && o.isDir() }) {
			continue
		}
		u.refuse("%s, where its directory was, is %s now: remove it, or give it another name", printable.Line(dir), kindOf(st.Sys().(*syscall.Stat_t).Mode))
		return
	}
}

// isDir tells whether a directory is to be there again.
func (u *undoing) isDir() bool { return u.removed != nil && u.removed.Event == eventDeleteDir }

// remove deletes what has the name of a file.
func (u *undoing) remove(v *view) error {
	dir, err := v.openParent(u.path, false)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Unlinkat(dir, path.Base(u.path), 0); err != nil {
		return explained(v, &os.PathError{Op: "remove", Path: v.file(u.path), Err: err})
	}
	return nil
}

// putLinkBack makes a link again that was deleted for what then could not be there. What was a
// file the history has.
func (u *undoing) putLinkBack(v *view, target string) {
	dir, err := v.openParent(u.path, false)
	if err == nil {
		defer unix.Close(dir)
		err = unix.Symlinkat(target, dir, path.Base(u.path))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "latchfs: the link %s to %s was deleted, and cannot be made again: %v\n",
			printable.Line(u.path), printable.Line(target), err)
	}
}
