package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/fs/locksfs"
	"latchfs/lockmgr/proc"
)

// talk is a conversation on the control file, which package ctl answers.
type talk struct{ *ctl.Conversation }

// converse begins a conversation.
func (v *virtual) converse(node uint64, by locksfs.By) (locksfs.Talk, unix.Errno) {
	f := v.f
	if f.disk.opts.ReadOnly {
		return nil, unix.EROFS
	}
	if f.life.isTimeUp() {
		return nil, unix.ESHUTDOWN
	}
	c := by.(*asker).caller()
	if c.UID() != 0 {
		c.Groups() // a later writer does not add to them
	}
	return talk{f.callers.ctl.Open(c, proc.File{Dev: f.disk.mountDev, Ino: node, MountID: f.disk.mountID})}, 0
}

// Write implements locksfs.Talk: requests are made with the groups of the opener.
func (t talk) Write(by locksfs.By, data [][]byte) (int, unix.Errno) {
	c := by.(*asker).caller()
	if opener := t.Opener().(*caller); c.UID() != 0 {
		c.HaveGroups(opener.Groups())
	}
	return t.Conversation.Write(c, data)
}

// Read implements locksfs.Talk.
func (t talk) Read(by locksfs.By, nonblock bool, cancel <-chan struct{}, buf []byte) (int, unix.Errno) {
	return t.Conversation.Read(cancel, by.(*asker).h.TID, nonblock, buf)
}

// Flush implements locksfs.Talk.
func (t talk) Flush(by locksfs.By) { t.Conversation.Flush(by.(*asker).caller()) }
