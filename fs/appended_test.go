package fs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
)

// opensToAppend opens f, which holds a content, to append to it.
func (r *requests) opensToAppend(content string) (id, fh uint64) {
	r.t.Helper()
	r.replace(content)
	id = r.lookup("f")
	fh, st := r.open(id, unix.O_RDWR|unix.O_APPEND)
	if st != 0 {
		r.t.Fatal(st)
	}
	return id, fh
}

// saves puts another file in f's place by a rename, and returns its node.
func (r *requests) saves(content string) (id uint64) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.data, "new"), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	id = r.lookup("new")
	if st := r.f.entries.Rename(nil, &RenameRequest{Request: r.header(rootID), NewDir: rootID}, "new", "f"); st != 0 {
		r.t.Fatalf("rename: %v", st)
	}
	return id
}

// posix_fallocate(3) makes the file longer, and records come behind that.
func TestRoomForRecords(t *testing.T) {
	r, _ := unmounted(t, "")
	id, fh := r.opensToAppend("old\n")
	in := AllocRequest{Request: r.header(id), Handle: fh, Length: 6}
	if e := r.f.contents.Fallocate(nil, &in); e != 0 {
		t.Fatal(e)
	}
	r.write(id, fh, 6, "one\n")
	r.want("after posix_fallocate", "old\n\x00\x00one\n", nil)
	in.Mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if e := r.f.contents.Fallocate(nil, &in); e != unix.ENOTSUP {
		t.Errorf("a hole: %v", e)
	}
	r.close(id, fh)
}

// Room that is made through an append descriptor, while its own program has the file open to write,
// is made in what that commits.
func TestRoomInTheOwnSession(t *testing.T) {
	r, _ := unmounted(t, "")
	id, fh := r.opensToAppend("old\n")
	wid := r.lookup("f")
	wfh, st := r.open(wid, unix.O_WRONLY)
	if st == unix.ESTALE { // the kernel walks again
		wid = r.lookup("f")
		wfh, st = r.open(wid, unix.O_WRONLY)
	}
	if st != 0 {
		t.Fatal(st)
	}
	if e := r.f.contents.Fallocate(nil, &AllocRequest{Request: r.header(id), Handle: fh, Length: 6}); e != 0 {
		t.Fatal(e)
	}
	r.want("before the close", "old\n", nil)
	r.close(wid, wfh)
	r.want("after the close", "old\n\x00\x00", map[string]int{"commit": 1})
	r.close(id, fh)
}

// A mode that a program sets through its descriptor is that of the file in which it goes on.
func TestModeOfTheFileThatIsFollowed(t *testing.T) {
	r, _ := unmounted(t, "")
	id, fh := r.opensToAppend("old\n")
	r.saves("new\n")
	r.write(id, fh, 4, "one\n")
	in := SetAttrRequest{Request: r.header(id), Set: SetMode, Mode: 0o640}
	if e := r.f.attrs.SetAttr(nil, &in, &AttrReply{}); e != 0 {
		t.Fatal(e)
	}
	if st, err := os.Stat(filepath.Join(r.data, "f")); err != nil || st.Mode() != 0o640 {
		t.Errorf("the file that has the name: %v, %v", st.Mode(), err)
	}
	r.close(id, fh)
}

// forgetful is a kernel that notes of which nodes it is to forget the attributes.
type forgetful struct {
	noKernel
	forgot map[uint64]int
}

// InodeNotify implements Kernel.
func (k forgetful) InodeNotify(node uint64, off, _ int64) {
	if off < 0 {
		k.forgot[node]++
	}
}

// The kernel keeps no attributes of a file while an appender that goes on in it holds a line back.
func TestAttributesBesideALine(t *testing.T) {
	r, _ := unmounted(t, "")
	id, fh := r.opensToAppend("old\n")
	now := r.saves("new\n")
	kernel := forgetful{forgot: map[uint64]int{}}
	r.f.kernel.srv = kernel
	r.write(id, fh, 4, "half")
	r.f.kernel.srv = noKernel{}
	if kernel.forgot[now] != 1 {
		t.Errorf("the kernel was told to forget the attributes of the successor %d times", kernel.forgot[now])
	}
	for what, id := range map[string]uint64{"opened": id, "named": now} {
		if ttl := r.f.attrs.attrTimeout(r.f.kernel.inodeOf(id)); ttl != 0 {
			t.Errorf("the file that is %s: %v", what, ttl)
		}
	}
	h := r.header(now)
	r.f.handles.showLines(&h, r.f.kernel.inodeOf(now))
	r.want("its own program has looked", "new\nhalf", map[string]int{"commit": 1})
	if ttl := r.f.attrs.attrTimeout(r.f.kernel.inodeOf(now)); ttl != attrTTL {
		t.Errorf("without a line: %v", ttl)
	}
	r.close(id, fh)
}

// The answer to a question for the attributes tells the kernel of the line that it has finished:
// it would drop an answer that a notification had overtaken.
func TestNoNotificationOvertakesTheAttributes(t *testing.T) {
	for what, ask := range map[string]func(r *requests, id uint64) (size uint64, e unix.Errno){
		"GETATTR": func(r *requests, id uint64) (uint64, unix.Errno) {
			var out AttrReply
			e := r.f.attrs.GetAttr(nil, &AttrRequest{Request: r.header(id)}, &out)
			return out.Size, e
		},
		"STATX": func(r *requests, id uint64) (uint64, unix.Errno) {
			var out StatxReply
			e := r.f.attrs.Statx(nil, &StatxRequest{Request: r.header(id), Mask: unix.STATX_BASIC_STATS}, &out)
			return out.Size, e
		},
	} {
		r, _ := unmounted(t, "")
		id, fh := r.opensToAppend("old\n")
		r.write(id, fh, 4, "half")
		kernel := forgetful{forgot: map[uint64]int{}}
		r.f.kernel.srv = kernel
		if size, e := ask(r, id); e != 0 || size != 8 {
			t.Errorf("%s: size %d, errno %v", what, size, e)
		}
		r.f.kernel.srv = noKernel{}
		if kernel.forgot[id] != 0 {
			t.Errorf("%s: the kernel was told to forget the attributes, too", what)
		}
		r.close(id, fh)
	}
}

// What may be stored through a mapping without a word is a growth of the file, until the descriptor
// is closed: nobody has changed the file outside the mount.
func TestMappingOfAnAppender(t *testing.T) {
	r, _ := unmounted(t, "")
	if err := r.f.openHistory(); err != nil {
		t.Fatal(err)
	}
	id, fh := r.opensToAppend("old\n")
	n := r.f.kernel.inodeOf(id)
	in := commit.Inode(n.key.ofFile())
	r.f.handles.handleOf(fh).app.Map()
	if !r.f.disk.versions.IsGrowing(in) || n.seal != unsealed {
		t.Error("the file may change, and nobody knows")
	}
	r.write(id, fh, 4, "one\n")
	r.flush(id, fh)
	if !r.f.disk.versions.IsGrowing(in) {
		t.Error("records were appended, and the file is said to change no more")
	}
	r.release(id, fh)
	if r.f.disk.versions.IsGrowing(in) {
		t.Error("the descriptor is closed, and the file is said to change still")
	}
}
