package fs

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"latchfs/journal/audit"
)

// Events about what has no versions: directories and symbolic links. The history
// knows only files; with these undo can bring back the others.
const (
	eventMakeDir    = "make_dir"
	eventDeleteDir  = "delete_dir"
	eventMakeLink   = "make_link"
	eventDeleteLink = "delete_link"
)

// linkTarget is where a symbolic link leads; "" for anything else.
func linkTarget(dirfd int, name string, st *unix.Stat_t) string {
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return ""
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dirfd, name, b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// noteMade writes to the audit trail that a directory or a link has been made, in the
// transaction txn if that is not "".
func (f *FS) noteMade(c *caller, op, path, txn string) {
	switch op {
	case opMkdir:
		f.noteNamed(c, eventMakeDir, path, txn, map[string]any{})
	case opSymlink:
		f.noteNamed(c, eventMakeLink, path, txn, map[string]any{})
	}
}

// noteGone writes to the audit trail that a directory or a link has been removed, and
// what it was: st, and a link's target; in the transaction txn if that is not "".
func (f *FS) noteGone(c *caller, path string, st *unix.Stat_t, target, txn string) {
	detail := map[string]any{"file_uid": st.Uid, "file_gid": st.Gid}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		detail["mode"] = fmt.Sprintf("%04o", st.Mode&0o7777)
		f.noteNamed(c, eventDeleteDir, path, txn, detail)
	case unix.S_IFLNK:
		detail["target"] = target
		if !utf8.ValidString(target) {
			detail["target_base64"] = base64.StdEncoding.EncodeToString([]byte(target))
		}
		f.noteNamed(c, eventDeleteLink, path, txn, detail)
	}
}

func (f *FS) noteNamed(c *caller, event, path, txn string, detail map[string]any) {
	detail["program"], detail["uid"] = c.program(), c.uid
	if txn != "" {
		detail["transaction"] = txn
	}
	f.event(audit.Event{
		Time: time.Now(), Event: event, Path: path, PID: c.owner.PID, Actor: f.actorOf(&label{c: c}), Detail: detail,
	})
}
