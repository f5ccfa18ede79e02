package fs

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// listed reads the data directory as the kernel does that wants attributes, and returns the
// node of each name, 0 where it gets none.
func (r *requests) listed() map[string]uint64 {
	r.t.Helper()
	var opened fuse.OpenOut
	if st := r.f.OpenDir(nil, &fuse.OpenIn{InHeader: r.header(fuse.FUSE_ROOT_ID)}, &opened); !st.Ok() {
		r.t.Fatal(st)
	}
	defer r.f.ReleaseDir(&fuse.ReleaseIn{InHeader: r.header(fuse.FUSE_ROOT_ID), Fh: opened.Fh})
	buf := make([]byte, 4096)
	in := fuse.ReadIn{InHeader: r.header(fuse.FUSE_ROOT_ID), Fh: opened.Fh, Size: uint32(len(buf))}
	if st := r.f.ReadDirPlus(nil, &in, fuse.NewDirEntryList(buf, 0)); !st.Ok() {
		r.t.Fatal(st)
	}
	const entry = int(unsafe.Sizeof(fuse.EntryOut{}))
	nodes := map[string]uint64{}
	for len(buf) > entry+24 { // struct fuse_direntplus
		dirent := buf[entry:]
		length := int(binary.NativeEndian.Uint32(dirent[16:]))
		if length == 0 {
			break
		}
		nodes[string(dirent[24:24+length])] = binary.NativeEndian.Uint64(buf)
		buf = buf[entry+(24+length+7)&^7:]
	}
	delete(nodes, ".")
	delete(nodes, "..")
	return nodes
}

// age makes it so long ago that the kernel was told of the nodes.
func (r *requests) age(by time.Duration) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	for _, k := range r.f.nodes {
		if !k.shown.IsZero() {
			k.shown = time.Now().Add(-by)
		}
	}
}

// wantListed checks which names of a listing come with attributes.
func (r *requests) wantListed(when string, want map[string]bool) map[string]uint64 {
	r.t.Helper()
	got := r.listed()
	if len(got) != len(want) {
		r.t.Errorf("%s: listed are %v", when, got)
	}
	for name, with := range want {
		if node, ok := got[name]; !ok || (node != 0) != with {
			r.t.Errorf("%s: %s is listed (%v) with node %d, want attributes: %v", when, name, ok, node, with)
		}
	}
	return got
}

// A listing brings the attributes of what the kernel was not told of lately, or has forgotten,
// and of no other name.
func TestListingOfWhatTheKernelKnows(t *testing.T) {
	r := newRequests(t)
	for _, name := range []string{"f", "g", "h"} {
		if err := os.WriteFile(filepath.Join(r.data, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.lookup("g")
	r.age(-time.Hour)
	nodes := r.wantListed("g was looked up", map[string]bool{"f": true, "g": false, "h": true})
	r.age(-time.Hour) // lately, however slow the machine is
	r.wantListed("all were listed", map[string]bool{"f": false, "g": false, "h": false})
	r.f.Forget(nodes["h"], 1)
	r.age(-time.Hour)
	r.wantListed("h was forgotten", map[string]bool{"f": false, "g": false, "h": true})
	r.replace("another file")
	r.age(-time.Hour)
	r.wantListed("f is another file", map[string]bool{"f": true, "g": false, "h": false})
	r.age(entryTTL / 2)
	r.wantListed("half of the time is over", map[string]bool{"f": true, "g": true, "h": true})
}
