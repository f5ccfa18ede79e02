package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/lockmgr/proc"
)

// controlName is the file in .locks through which locks are taken without
// opening what is locked. Package control has its language, package ctl answers.
const controlName = "control"

// openControl begins a conversation.
func (v *virtual) openControl(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f := v.f
	if f.opts.ReadOnly {
		return fuse.EROFS
	}
	if f.isStopped() {
		return status(unix.ESHUTDOWN)
	}
	c := f.callerOf(&in.InHeader)
	if c.uid != 0 {
		c.supplementary() // a later writer does not add to them
	}
	cv := f.ctl.Open(c, proc.File{Dev: f.mountDev, Ino: in.NodeId, MountID: f.mountID})
	out.Fh = v.ids.Open(&vhandle{talk: cv})
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_STREAM
	return fuse.OK
}

// writeControl hands requests to a conversation, for the credentials of its opener.
func (v *virtual) writeControl(talk *ctl.Conversation, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if !talk.IsOpeners(in.Uid, in.Gid) {
		return 0, fuse.EPERM
	}
	c := v.f.callerOf(&in.InHeader)
	if opener := talk.Opener().(*caller); c.uid != 0 {
		c.haveGroups(opener.supplementary(), opener.groupsKnown)
	}
	n, e := talk.Write(c, data)
	return uint32(n), status(e)
}

// readControl waits for a conversation's next reply.
func (v *virtual) readControl(talk *ctl.Conversation, cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if !talk.IsOpeners(in.Uid, in.Gid) {
		return nil, fuse.EPERM
	}
	buf = buf[:min(len(buf), int(in.Size))]
	n, e := talk.Read(cancel, in.Pid, in.Flags&unix.O_NONBLOCK != 0, buf)
	if e != 0 {
		return nil, status(e)
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}
