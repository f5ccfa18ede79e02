package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// create makes the new file name, and opens it.
func (r *requests) create(name string) (id, fh uint64) {
	r.t.Helper()
	var out Created
	in := CreateRequest{OpenRequest: OpenRequest{Request: r.header(rootID), Flags: unix.O_RDWR}, Mode: unix.S_IFREG | 0o644}
	if st := r.f.opens.Create(nil, &in, name, &out); st != 0 {
		r.t.Fatalf("create of %s: %v", name, st)
	}
	return out.Node, out.Handle
}

// A new file that is renamed while it is open is there from then on, with the metadata that
// it has at that time. The close changes the file no more, whether or not it was changed
// before the last write.
func TestMetadataOfAFileThatIsRenamedWhileOpen(t *testing.T) {
	r, _ := unmounted(t, "")
	id, fh := r.create("new")
	r.write(id, fh, 0, "one")
	var attr AttrReply
	long := SetAttrRequest{Request: r.header(id), Set: SetMtime | SetHandle, Handle: fh, Mtime: unix.Timespec{Sec: 1e6}}
	if st := r.f.attrs.SetAttr(nil, &long, &attr); st != 0 {
		t.Fatalf("utimensat: %v", st)
	}
	const name = "user.latchfs"
	h := r.header(id)
	once := SetXAttrRequest{Request: h, Flags: unix.XATTR_CREATE}
	xattrs := true
	switch st := r.f.attrs.SetXAttr(nil, &once, name, []byte("1")); st {
	case 0:
	case unix.EOPNOTSUPP: // the filesystem of the test has none
		xattrs = false
	default:
		t.Fatalf("setxattr: %v", st)
	}
	r.write(id, fh, 3, " two")
	if st := r.f.entries.Rename(nil, &RenameRequest{Request: r.header(rootID), NewDir: rootID}, "new", "f"); st != 0 {
		t.Fatalf("rename: %v", st)
	}
	r.want("after the rename", "one two", map[string]int{"commit": 1})
	if st := r.closes(id, fh); st != 0 {
		t.Errorf("close: %v", st)
	}
	r.release(id, fh)
	r.want("after the close", "one two", map[string]int{"commit": 1})
	st, err := os.Stat(filepath.Join(r.data, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(st.ModTime()) > time.Hour {
		t.Errorf("the close has put the time of the last change back to %v", st.ModTime())
	}
	if !xattrs {
		return
	}
	if n, st := r.f.attrs.GetXAttr(nil, &h, name, nil); n != 1 || st != 0 {
		t.Errorf("the attribute has %d bytes, %v", n, st)
	}
}

// A change of metadata by the new name is the file's at once. The RELEASE of a descriptor that
// was closed before the rename, with nothing written, makes no version of it.
func TestMetadataBeforeALateRelease(t *testing.T) {
	r, _ := unmounted(t, "")
	id, fh := r.create("tmp")
	r.write(id, fh, 0, "new")
	if st := r.closes(id, fh); st != 0 {
		t.Fatalf("close: %v", st)
	}
	r.release(id, fh)
	fh, e := r.open(id, unix.O_WRONLY)
	if e != 0 {
		t.Fatal(e)
	}
	if st := r.closes(id, fh); st != 0 {
		t.Fatalf("close: %v", st)
	}
	if st := r.f.entries.Rename(nil, &RenameRequest{Request: r.header(rootID), NewDir: rootID}, "tmp", "f"); st != 0 {
		t.Fatalf("rename: %v", st)
	}
	r.want("after the rename", "new", map[string]int{"commit": 1})
	var attr AttrReply
	mode := SetAttrRequest{Request: r.header(r.lookup("f")), Set: SetMode, Mode: 0o604}
	if st := r.f.attrs.SetAttr(nil, &mode, &attr); st != 0 {
		t.Fatalf("chmod: %v", st)
	}
	r.release(id, fh)
	r.want("after the RELEASE", "new", map[string]int{"commit": 1})
	if st, err := os.Stat(filepath.Join(r.data, "f")); err != nil || st.Mode().Perm() != 0o604 {
		t.Errorf("f: %v, %v", st.Mode(), err)
	}
}

// The RELEASE of a file comes while its own program gives it another name: on the disk it has
// that already, and its session not yet. What was written is in the file, under its new name.
func TestReleaseAmidARename(t *testing.T) {
	for what, flags := range map[string]uint32{"rename": 0, "exchange": unix.RENAME_EXCHANGE} {
		t.Run(what, func(t *testing.T) {
			r, _ := unmounted(t, "")
			at := func(name string) string { return filepath.Join(r.data, name) }
			for name, content := range map[string]string{"f": "old", "g": "another"} {
				if err := os.WriteFile(at(name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			id := r.lookup("f")
			fh, e := r.open(id, unix.O_RDWR)
			if e != 0 {
				t.Fatal(e)
			}
			r.write(id, fh, 0, "new")
			r.f.locks.advisoryKeys.RLock() // which the session's new name needs
			renamed := make(chan unix.Errno)
			go func() {
				in := RenameRequest{Request: r.header(rootID), NewDir: rootID, Flags: flags}
				renamed <- r.f.entries.Rename(nil, &in, "f", "g")
			}()
			r.await("the rename on the disk", func() bool {
				b, err := os.ReadFile(at("g"))
				return err == nil && string(b) == "old"
			})
			r.release(id, fh)
			r.f.locks.advisoryKeys.RUnlock()
			if e := <-renamed; e != 0 {
				t.Errorf("the rename: %v", e)
			}
			r.await("the commit", func() bool {
				b, err := os.ReadFile(at("g"))
				return err == nil && string(b) != "old"
			})
			for name, want := range map[string]string{"f": "another", "g": "new"} {
				if b, err := os.ReadFile(at(name)); string(b) != want && (flags != 0 || !os.IsNotExist(err)) {
					t.Errorf("%s holds %q, %v", name, b, err)
				}
			}
			if kept := r.kept(); len(kept) > 0 {
				t.Errorf("kept aside: %q", kept)
			}
		})
	}
}

// await waits for what another goroutine does.
func (r *requests) await(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not in time: %s", what)
		}
	}
}
