package changes

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"latchfs/journal/audit"
)

// Events about what has no versions: directories and symbolic links. The history knows only
// files; with these undo can bring back the others.
const (
	eventMakeDir    = "make_dir"
	eventDeleteDir  = "delete_dir"
	eventMakeLink   = "make_link"
	eventDeleteLink = "delete_link"
)

// event is an entry of the audit trail about something that somebody has done to a path.
func event(by Maker, what, path string, token uint64, detail map[string]any) audit.Event {
	p := by.Process()
	detail["program"], detail["uid"] = p.Program, p.UID
	return audit.Event{Time: time.Now(), Event: what, Path: path, Session: by.Session(), PID: p.PID, Token: token, Actor: p.Actor, Detail: detail}
}

func (ch *Change) event(what string) audit.Event {
	return event(ch.By, what, ch.Path, ch.Token, map[string]any{})
}

// report tells the audit trail.
func (ch *Change) report() {
	en := ch.t.c.Engine
	if ch.isOverLink() {
		ch.t.Gone(ch.By, ch.Path, ch.Was, ch.Target, ch.Txn)
		if ch.Is.Mode&unix.S_IFMT == unix.S_IFLNK {
			ch.t.Made(ch.By, OpSymlink, ch.Path, ch.Txn)
		}
	}
	switch renamed := ch.Other != nil; {
	case ch.Silent:
	case ch.By.Session() != "":
		ch.reportCommit()
	case ch.Is == nil && !renamed && ch.Version:
		ev := ch.event("delete")
		if ch.Txn != "" {
			ev.Detail["transaction"] = ch.Txn
		}
		en.Event(ev)
	case ch.Is == nil && !renamed && ch.Was != nil:
		ch.t.Gone(ch.By, ch.Path, ch.Was, ch.Target, ch.Txn)
	case IsFile(ch.Is) && ch.InPlace:
		ev := ch.event("commit")
		ev.Detail["operation"], ev.Detail["bytes"] = ch.Op, ch.Is.Size
		en.Event(ev)
	case IsFile(ch.Is) && renamed && en.IsAtomic(ch.Path):
		ev := ch.event("commit")
		ev.Detail["operation"], ev.Detail["from"], ev.Detail["bytes"] = ch.Op, ch.Other.Path, ch.Is.Size
		en.Event(ev)
	}
}

// isOverLink reports whether a rename has given the name of a link to something else: ln -sfn
// and whoever else switches a link without a moment in which there is none.
func (ch *Change) isOverLink() bool {
	return !ch.Silent && ch.Other != nil && ch.Is != nil && ch.Was != nil && ch.Was.Mode&unix.S_IFMT == unix.S_IFLNK
}

// reportCommit tells it of what a session has published.
func (ch *Change) reportCommit() {
	ev := ch.event("commit")
	ev.Detail["bytes"], ev.Detail["operation"] = ch.Is.Size, ch.Op
	ch.By.Note(&ev)
	if ch.Txn != "" {
		ev.Detail["transaction"] = ch.Txn
	}
	if ch.Err != nil {
		ev.Detail["not_durable"] = ch.Err.Error()
	}
	ch.t.c.Engine.Event(ev)
}

// reportMerge tells it what was joined.
func (ch *Change) reportMerge(p *Process) {
	ev := audit.Event{
		Event: "merge", Time: time.Now(), Path: ch.Merge.Loss.Path, PID: p.PID, Actor: p.Actor,
		Detail: map[string]any{"operation": ch.Op, "program": p.Program},
	}
	if id := ch.By.Session(); id != "" {
		ev.Session, ev.Token = id, ch.Token
	} else {
		ev.Detail["from"] = ch.Other.Path
	}
	ch.Merge.Note(ev.Detail)
	ch.t.c.Engine.Event(ev)
}

// TargetOf is where the symbolic link st leads that has a name in a directory; "" for
// anything else.
func TargetOf(dir int, name string, st *unix.Stat_t) string {
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return ""
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// The operations that make what has no versions.
const (
	OpMkdir   = "mkdir"
	OpSymlink = "symlink"
)

// Made writes to the audit trail that an operation has made a directory or a link, if it is
// one of those: in the transaction txn if that is not "".
func (t *Teller) Made(by Maker, op, path, txn string) {
	switch op {
	case OpMkdir:
		t.named(by, eventMakeDir, path, txn, map[string]any{})
	case OpSymlink:
		t.named(by, eventMakeLink, path, txn, map[string]any{})
	}
}

// Gone writes to the audit trail that a directory or a link has been removed, and what it
// was: st, and a link's target; in the transaction txn if that is not "".
func (t *Teller) Gone(by Maker, path string, st *unix.Stat_t, target, txn string) {
	detail := map[string]any{"file_uid": st.Uid, "file_gid": st.Gid}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		detail["mode"] = fmt.Sprintf("%04o", st.Mode&0o7777)
		t.named(by, eventDeleteDir, path, txn, detail)
	case unix.S_IFLNK:
		detail["target"] = target
		if !utf8.ValidString(target) {
			detail["target_base64"] = base64.StdEncoding.EncodeToString([]byte(target))
		}
		t.named(by, eventDeleteLink, path, txn, detail)
	}
}

func (t *Teller) named(by Maker, what, path, txn string, detail map[string]any) {
	if txn != "" {
		detail["transaction"] = txn
	}
	t.c.Engine.Event(event(by, what, path, 0, detail))
}
