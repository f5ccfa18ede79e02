package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// oneFile is the smallest FUSE filesystem that can receive a FLUSH and a WRITE: a
// directory with one file of zeros under any name. It speaks the protocol of linux/fuse.h
// itself, for go-fuse belongs to another room.
type oneFile struct {
	t   *testing.T
	dev *os.File
	// flush is called by a FLUSH, which is answered when it returns.
	flush func(tid uint32)
	// write is the same for a WRITE, read for a READ, and getattr for a GETATTR; nil answers
	// at once.
	write, read, getattr func()
	user                 int // who may use it
}

// mountOneFile returns the path of the file.
func mountOneFile(t *testing.T, flush func(tid uint32)) string {
	t.Helper()
	return (&oneFile{t: t, flush: flush, write: func() {}}).mount()
}

func (fs *oneFile) mount() string {
	t := fs.t
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mount(2) needs root")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	options := "fd=" + itoa(fd) + ",rootmode=40000,user_id=" + itoa(fs.user) + ",group_id=" + itoa(fs.user)
	if err := unix.Mount("proc-test", dir, "fuse", 0, options); err != nil {
		t.Fatal(err)
	}
	// Only now can the device be polled, and so a read be ended by a close.
	fs.dev = os.NewFile(uintptr(fd), "/dev/fuse")
	served := make(chan struct{})
	go func() {
		defer close(served)
		fs.serve()
	}()
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		fs.dev.Close()
		<-served
	})
	return dir + "/file"
}

func itoa(n int) string {
	return string(bytes.TrimSuffix([]byte(procfs.PIDPath(int32(n), "")), []byte("/")))
}

// The requests that are answered, from linux/fuse.h.
const (
	opLookup  = 1
	opForget  = 2
	opGetattr = 3
	opOpen    = 14
	opRead    = 15
	opWrite   = 16
	opRelease = 18
	opFlush   = 25
	opInit    = 26
	opForgets = 42
)

// serve answers requests until the device is closed.
func (fs *oneFile) serve() {
	buf := make([]byte, 1<<17)
	for {
		n, err := fs.dev.Read(buf)
		if err != nil {
			return
		}
		in := buf[:n] // len, opcode, unique, nodeid, uid, gid, pid
		opcode, unique := binary.NativeEndian.Uint32(in[4:]), binary.NativeEndian.Uint64(in[8:])
		node, pid := binary.NativeEndian.Uint64(in[16:]), binary.NativeEndian.Uint32(in[32:])
		switch opcode {
		case opForget, opForgets: // have no answer
		case opInit:
			fs.reply(unique, 0, []uint32{7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
		case opLookup:
			fs.reply(unique, 0, [5]uint64{2, 0, 0, 0, 0}, attributes(2))
		case opGetattr:
			go func() {
				if fs.getattr != nil {
					fs.getattr()
				}
				fs.reply(unique, 0, [2]uint64{}, attributes(node))
			}()
		case opOpen:
			fs.reply(unique, 0, [2]uint64{})
		case opRelease:
			fs.reply(unique, 0)
		case opRead:
			go func() {
				if fs.read != nil {
					fs.read()
				}
				fs.reply(unique, 0, make([]byte, fileSize))
			}()
		case opWrite:
			go func() {
				fs.write()
				fs.reply(unique, 0, [2]uint32{fileSize, 0})
			}()
		case opFlush:
			go func() {
				fs.flush(pid)
				fs.reply(unique, 0)
			}()
		default:
			fs.reply(unique, unix.ENOSYS)
		}
	}
}

// fileSize is that of the file, one page.
const fileSize = 4096

// attributes are struct fuse_attr.
func attributes(node uint64) any {
	mode := uint32(unix.S_IFREG | 0o666)
	if node == 1 {
		mode = unix.S_IFDIR | 0o777
	}
	return struct {
		Ino   uint64
		Size  uint64
		_     [4]uint64 // blocks, times
		_     [3]uint32 // nanoseconds
		Mode  uint32
		Nlink uint32
		_     [5]uint32 // owner, device, block size, flags
	}{Ino: node, Size: fileSize, Mode: mode, Nlink: 1}
}

func (fs *oneFile) reply(unique uint64, errno unix.Errno, parts ...any) {
	var body bytes.Buffer
	for _, p := range parts {
		if err := binary.Write(&body, binary.NativeEndian, p); err != nil {
			fs.t.Error(err)
		}
	}
	var msg bytes.Buffer
	binary.Write(&msg, binary.NativeEndian, uint32(16+body.Len()))
	binary.Write(&msg, binary.NativeEndian, -int32(errno))
	binary.Write(&msg, binary.NativeEndian, unique)
	msg.Write(body.Bytes())
	// A caller that was killed meanwhile wants no answer any more, nor does
	// anybody when the test is over.
	if _, err := fs.dev.Write(msg.Bytes()); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, os.ErrClosed) {
		fs.t.Error(err)
	}
}
