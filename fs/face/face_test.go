package face

import (
	"reflect"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs"
)

// header is of a request in which every number is another one.
var (
	header = fuse.InHeader{NodeId: 11, Unique: 12, Caller: fuse.Caller{Owner: fuse.Owner{Uid: 13, Gid: 14}, Pid: 15}}
	asks   = fs.Request{Node: 11, UID: 13, GID: 14, TID: 15}
)

// Every number of a request of the kernel's gets to its place.
func TestRequests(t *testing.T) {
	for name, c := range map[string]struct{ got, want any }{
		"open":            {openRequest(&fuse.OpenIn{InHeader: header, Flags: 1}), &fs.OpenRequest{Request: asks, Flags: 1}},
		"open, truncates": {openRequest(&fuse.OpenIn{InHeader: header, Mode: fuse.OPEN_KILL_SUIDGID}), &fs.OpenRequest{Request: asks, KillSuid: true}},
		"create": {
			createRequest(&fuse.CreateIn{InHeader: header, Flags: 1, Mode: 2, Umask: 3}),
			&fs.CreateRequest{OpenRequest: fs.OpenRequest{Request: asks, Flags: 1}, Mode: 2, Umask: 3},
		},
		"create, truncates": {
			createRequest(&fuse.CreateIn{InHeader: header, OpenFlags: fuse.OPEN_KILL_SUIDGID}),
			&fs.CreateRequest{OpenRequest: fs.OpenRequest{Request: asks, KillSuid: true}},
		},
		"read": {
			readRequest(&fuse.ReadIn{InHeader: header, Fh: 1, Offset: 2, Size: 3, Flags: 4, ReadFlags: 5, LockOwner: 6}),
			&fs.ReadRequest{Request: asks, Handle: 1, Offset: 2, Size: 3, Flags: 4},
		},
		"write": {
			writeRequest(&fuse.WriteIn{InHeader: header, Fh: 1, Offset: 2, Size: 3, Flags: 4, LockOwner: 5}),
			&fs.WriteRequest{Request: asks, Handle: 1, Offset: 2, Flags: 4},
		},
		"write, of a mapping":    {writeRequest(&fuse.WriteIn{WriteFlags: fuse.WRITE_CACHE}), &fs.WriteRequest{Cached: true}},
		"write, drops bits":      {writeRequest(&fuse.WriteIn{WriteFlags: fuse.WRITE_KILL_SUIDGID}), &fs.WriteRequest{KillSuid: true}},
		"write, of a lock owner": {writeRequest(&fuse.WriteIn{WriteFlags: fuse.WRITE_LOCKOWNER}), &fs.WriteRequest{}},
		"fsync":                  {fsyncRequest(&fuse.FsyncIn{InHeader: header, Fh: 1}), &fs.FsyncRequest{Request: asks, Handle: 1}},
		"fdatasync":              {fsyncRequest(&fuse.FsyncIn{FsyncFlags: 1}), &fs.FsyncRequest{DataOnly: true}},
		"stat":                   {attrRequest(&fuse.GetAttrIn{InHeader: header}), &fs.AttrRequest{Request: asks}},
		"fstat":                  {attrRequest(&fuse.GetAttrIn{Flags_: fuse.FUSE_GETATTR_FH, Fh_: 1}), &fs.AttrRequest{Handle: 1, HasHandle: true}},
		"copy": {
			copyRequest(&fuse.CopyFileRangeIn{InHeader: header, FhIn: 1, OffIn: 2, NodeIdOut: 3, FhOut: 4, OffOut: 5, Len: 6, Flags: 7}),
			&fs.CopyRequest{Request: asks, Handle: 1, Offset: 2, To: 3, ToHandle: 4, ToOffset: 5, Length: 6, Flags: 7},
		},
		"fcntl": {
			lockRequest(&fuse.LkIn{InHeader: header, Fh: 1, Owner: 2, Lk: fuse.FileLock{Start: 3, End: 4, Typ: 5, Pid: 6}}),
			&fs.LockRequest{Request: asks, Handle: 1, Owner: 2, Lock: fs.FileLock{Start: 3, End: 4, Type: 5, PID: 6}},
		},
		"flock": {lockRequest(&fuse.LkIn{LkFlags: fuse.LK_FLOCK}), &fs.LockRequest{Flock: true}},
		"setattr": {
			setAttrRequest(&fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{
				InHeader: header, Fh: 1, Size: 2, Atime: 3, Mtime: 4, Ctime: 5, Atimensec: 6, Mtimensec: 7, Ctimensec: 8,
				Mode: unix.S_IFREG | 0o4640, Owner: fuse.Owner{Uid: 9, Gid: 10},
			}}),
			&fs.SetAttrRequest{
				Request: asks, Handle: 1, Size: 2, Mode: 0o4640, Owner: 9, Group: 10,
				Atime: unix.Timespec{Sec: 3, Nsec: 6}, Mtime: unix.Timespec{Sec: 4, Nsec: 7},
			},
		},
		"setattr, before 1970": {
			setAttrRequest(&fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{Mtime: ^uint64(0)}}),
			&fs.SetAttrRequest{Mtime: unix.Timespec{Sec: -1}},
		},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
}

// Each bit of the mask of what is set has its meaning, and those that have none for fs are
// not taken for none at all.
func TestWhatIsSet(t *testing.T) {
	want := map[uint32]fs.Set{
		0: 0, fuse.FATTR_MODE: fs.SetMode, fuse.FATTR_UID: fs.SetUID, fuse.FATTR_GID: fs.SetGID, fuse.FATTR_SIZE: fs.SetSize,
		fuse.FATTR_ATIME: fs.SetAtime, fuse.FATTR_MTIME: fs.SetMtime, fuse.FATTR_FH: fs.SetHandle,
		fuse.FATTR_ATIME_NOW: fs.SetAtimeNow, fuse.FATTR_MTIME_NOW: fs.SetMtimeNow, fuse.FATTR_KILL_SUIDGID: fs.SetKillSuid,
		fuse.FATTR_CTIME: fs.SetOther, fuse.FATTR_LOCKOWNER: fs.SetOther,
		fuse.FATTR_SIZE | fuse.FATTR_FH | fuse.FATTR_LOCKOWNER: fs.SetSize | fs.SetHandle | fs.SetOther,
	}
	for valid, want := range want {
		if got := set(valid); got != want {
			t.Errorf("set(%#x) is %#x, want %#x", valid, got, want)
		}
	}
}

// Every part of an answer gets to its place, and a refusal changes nothing.
func TestAnswers(t *testing.T) {
	at := func(sec int64) unix.Timespec { return unix.Timespec{Sec: sec, Nsec: sec + 1} }
	attr := fs.Attr{
		Ino: 1, Size: 2, Blocks: 3, Atime: at(4), Mtime: at(6), Ctime: at(8),
		Mode: 10, Nlink: 11, UID: 12, GID: 13, Rdev: 14, Blksize: 15,
	}
	is := fuse.Attr{
		Ino: 1, Size: 2, Blocks: 3, Atime: 4, Atimensec: 5, Mtime: 6, Mtimensec: 7, Ctime: 8, Ctimensec: 9,
		Mode: 10, Nlink: 11, Owner: fuse.Owner{Uid: 12, Gid: 13}, Rdev: 14, Blksize: 15,
	}
	var a fuse.AttrOut
	if st := attributes(&a, &fs.AttrReply{Attr: attr, TTL: time.Second}, unix.EBUSY); st != fuse.EBUSY || a != (fuse.AttrOut{}) {
		t.Errorf("refused attributes: %v, %+v", st, a)
	}
	if st := attributes(&a, &fs.AttrReply{Attr: attr, TTL: time.Second}, 0); st != fuse.OK || a.Attr != is || a.Timeout() != time.Second {
		t.Errorf("attributes: %v, %+v", st, a)
	}

	made := fs.Created{
		Entry:  fs.Entry{Node: 1, Attr: attr, NameTTL: 2 * time.Second, AttrTTL: 3 * time.Millisecond},
		Opened: fs.Opened{Handle: 4, Direct: true},
	}
	var out fuse.CreateOut
	if st := created(&out, &made, unix.EBUSY); st != fuse.EBUSY || out != (fuse.CreateOut{}) {
		t.Errorf("a refused create: %v, %+v", st, out)
	}
	if st := created(&out, &made, 0); st != fuse.OK || out.NodeId != 1 || out.Attr != is ||
		out.EntryTimeout() != 2*time.Second || out.AttrTimeout() != 3*time.Millisecond || out.Fh != 4 || out.OpenFlags != fuse.FOPEN_DIRECT_IO {
		t.Errorf("a create: %v, %+v", st, out)
	}
	var e fuse.EntryOut
	if st := entry(&e, &made.Entry, unix.ENOENT); st != fuse.ENOENT || e != (fuse.EntryOut{}) {
		t.Errorf("no entry: %v, %+v", st, e)
	}
	if st := entry(&e, &fs.Entry{NameTTL: time.Second}, 0); st != fuse.OK || e.NodeId != 0 || e.EntryTimeout() != time.Second {
		t.Errorf("an entry of nothing: %v, %+v", st, e)
	}
}

// How the kernel is to do I/O is said by one bit each.
func TestOpened(t *testing.T) {
	for flag, o := range map[uint32]fs.Opened{
		0: {}, fuse.FOPEN_DIRECT_IO: {Direct: true}, fuse.FOPEN_KEEP_CACHE: {KeepCache: true}, fuse.FOPEN_NOFLUSH: {NoFlush: true},
		fuse.FOPEN_STREAM: {Stream: true}, fuse.FOPEN_PASSTHROUGH: {Passthrough: true},
		fuse.FOPEN_PASSTHROUGH | fuse.FOPEN_DIRECT_IO: {Passthrough: true, Direct: true},
	} {
		o.Handle, o.Backing = 5, 6
		out := fuse.OpenOut{OpenFlags: ^uint32(0)}
		if fillOpened(&out, &o); out != (fuse.OpenOut{Fh: 5, BackingID: 6, OpenFlags: flag}) {
			t.Errorf("%+v became %+v, want the flags %#x", o, out, flag)
		}
	}
}

// Bytes are handed on, and so is the place in a file where they are.
func TestRead(t *testing.T) {
	if b, st := readResult(fs.Data{Bytes: []byte("text")}).Bytes(nil); st != fuse.OK || string(b) != "text" {
		t.Errorf("bytes: %q, %v", b, st)
	}
	fd, err := unix.MemfdCreate("face", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	if b, st := readResult(fs.Data{FD: fd, Off: 3, Size: 4}).Bytes(make([]byte, 8)); st != fuse.OK || string(b) != "3456" {
		t.Errorf("of a file: %q, %v", b, st)
	}
}

// A listing takes names until it is full, and says with each what it leads to, if it is told.
func TestListings(t *testing.T) {
	d := fs.Listed{Name: "name", Ino: 1, Mode: unix.S_IFREG, Next: 2}
	plain := names{fuse.NewDirEntryList(make([]byte, 40), 0)}
	if !plain.Add(d) || plain.Add(d) {
		t.Error("40 bytes have no room for one name, or for two")
	}
	buf := make([]byte, 200) // struct fuse_direntplus is 152 bytes, and the name
	full := described{list: fuse.NewDirEntryList(buf, 0)}
	if !full.Add(d) {
		t.Fatal("200 bytes have no room for a name")
	}
	full.Describe(&fs.Entry{Node: 77})
	if buf[0] != 77 {
		t.Errorf("the name leads to node %d", buf[0])
	}
	if full.Add(d) {
		t.Error("200 bytes have room for two")
	}
}
