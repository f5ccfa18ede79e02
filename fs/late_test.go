package fs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// RELEASE comes while it is looked who still has a file open that is committed, and the kernel
// forgets the file's directory, which was removed: there is nothing to set apart any more.
func TestReleaseOvertakesTheLateLook(t *testing.T) {
	r, _ := unmounted(t, "")
	h := r.header(rootID)
	var dir Entry
	if e := r.f.entries.Mkdir(nil, &MakeRequest{Request: h, Mode: unix.S_IFDIR | 0o755}, "d", &dir); e != 0 {
		t.Fatalf("mkdir: %v", e)
	}
	var out Created
	in := CreateRequest{OpenRequest: OpenRequest{Request: r.header(dir.Node), Flags: unix.O_WRONLY}, Mode: unix.S_IFREG | 0o644}
	if e := r.f.opens.Create(nil, &in, "f", &out); e != 0 {
		t.Fatalf("create: %v", e)
	}
	parent := r.f.kernel.inodeOf(dir.Node)
	s := r.f.nodes.sessionAt(parent, "f")
	r.write(out.Node, out.Handle, 0, "new")
	if e := r.closes(out.Node, out.Handle); e != 0 {
		t.Fatalf("close: %v", e)
	}
	r.release(out.Node, out.Handle)
	in2 := r.header(dir.Node)
	if e := r.f.entries.Unlink(nil, &in2, "f"); e != 0 {
		t.Fatalf("unlink: %v", e)
	}
	if e := r.f.entries.Rmdir(nil, &h, "d"); e != 0 {
		t.Fatalf("rmdir: %v", e)
	}
	r.f.kernel.Forget(out.Node, 1)
	r.f.kernel.Forget(dir.Node, 1)
	if parent.fd >= 0 {
		t.Fatal("the directory is not forgotten")
	}
	r.f.commits.setApart(s)
}
