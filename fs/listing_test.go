package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// listed reads the data directory as the kernel does that wants attributes, and returns the
// node of each name, 0 where it gets none.
func (r *requests) listed() map[string]uint64 {
	r.t.Helper()
	var opened Opened
	if st := r.f.listings.OpenDir(nil, &OpenRequest{Request: r.header(rootID)}, &opened); st != 0 {
		r.t.Fatal(st)
	}
	defer r.f.listings.ReleaseDir(&ReleaseRequest{Request: r.header(rootID), Handle: opened.Handle})
	in := ReadRequest{Request: r.header(rootID), Handle: opened.Handle}
	list := told{nodes: map[string]uint64{}}
	if st := r.f.listings.ReadDirPlus(nil, &in, &list); st != 0 {
		r.t.Fatal(st)
	}
	nodes := list.nodes
	delete(nodes, ".")
	delete(nodes, "..")
	return nodes
}

// told are the nodes of names that were listed.
type told struct {
	nodes map[string]uint64
	last  string
}

// Add implements Listing: there is room for everything.
func (l *told) Add(d Listed) bool {
	l.last, l.nodes[d.Name] = d.Name, 0
	return true
}

// Describe implements Listing.
func (l *told) Describe(e *Entry) { l.nodes[l.last] = e.Node }

// age makes it so long ago that the kernel was told of the nodes.
func (r *requests) age(by time.Duration) {
	r.f.nodes.mu.Lock()
	defer r.f.nodes.mu.Unlock()
	for _, k := range r.f.nodes.kernelNodes {
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
	r.f.kernel.Forget(nodes["h"], 1)
	r.age(-time.Hour)
	r.wantListed("h was forgotten", map[string]bool{"f": false, "g": false, "h": true})
	r.replace("another file")
	r.age(-time.Hour)
	r.wantListed("f is another file", map[string]bool{"f": true, "g": false, "h": false})
	r.age(entryTTL / 2)
	r.wantListed("half of the time is over", map[string]bool{"f": true, "g": true, "h": true})
}
