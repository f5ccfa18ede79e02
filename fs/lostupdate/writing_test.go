package lostupdate

import "testing"

// opens are the opens that begin or join a session, with what they tell.
type opens struct{ appends, tellsLater bool }

var (
	reads   = opens{}                                 // O_RDWR, and not stale
	stale   = opens{tellsLater: true}                 // O_RDWR, and not the version that its process has read
	blind   = opens{tellsLater: true}                 // O_WRONLY
	appends = opens{appends: true, tellsLater: true}  // O_WRONLY|O_APPEND
	readsOn = opens{appends: true, tellsLater: false} // O_RDWR|O_APPEND
)

// What a session may lose is told by its opens: one that reads knows the file, and one that
// does more than append does not only add.
func TestOpened(t *testing.T) {
	for _, c := range []struct {
		name         string
		unread, adds bool
		opened       []opens
		isUnread     bool
		isAdding     bool
	}{
		{name: "a new file"},
		{name: "blind", unread: true, opened: []opens{blind}, isUnread: true},
		{name: "for reading and writing", unread: true, opened: []opens{reads}},
		{name: "stale", unread: true, opened: []opens{stale}, isUnread: true},
		{name: "blind, then for reading", unread: true, opened: []opens{blind, reads}},
		{name: "for reading, then blind", unread: true, opened: []opens{reads, blind}},
		{name: "appending", adds: true, opened: []opens{appends}, isAdding: true},
		{name: "appending and reading", adds: true, opened: []opens{readsOn}, isAdding: true},
		{name: "appending, then blind", adds: true, opened: []opens{appends, blind}},
		{name: "blind, then appending", unread: true, opened: []opens{blind, appends}, isUnread: true},
	} {
		w := NewWriting(c.unread, c.adds)
		for _, o := range c.opened {
			w.Opened(o.appends, o.tellsLater)
		}
		if w.IsUnread() != c.isUnread || w.Adds() != c.isAdding {
			t.Errorf("%s: unread %v, adds %v", c.name, w.IsUnread(), w.Adds())
		}
	}
}

// What only adds has not read the file, and loses nothing of it; a cut ends that.
func TestCut(t *testing.T) {
	w := NewWriting(true, true)
	if w.IsUnread() {
		t.Error("it adds, and may lose something")
	}
	w = NewWriting(false, true)
	if w.Cut(); !w.IsUnread() || w.Adds() {
		t.Errorf("a cut: unread %v, adds %v", w.IsUnread(), w.Adds())
	}
	w = NewWriting(false, true)
	if w.CutStale(); w.IsUnread() || w.Adds() {
		t.Errorf("a cut through a stale descriptor: unread %v, adds %v", w.IsUnread(), w.Adds())
	}
	w = NewWriting(true, false)
	w.Know()
	if w.Cut(); w.IsUnread() {
		t.Error("a cut of what was read")
	}
}

// What becomes the file early is unread still, if there is anything; what its writer has
// made itself it knows.
func TestPublish(t *testing.T) {
	for _, changed := range []bool{false, true} {
		w := NewWriting(true, false)
		if w.Publish(changed); w.IsUnread() != changed {
			t.Errorf("changed %v: unread %v", changed, w.IsUnread())
		}
		w.MergeWith(&Merge{})
		if w.GoOn(); w.IsUnread() || w.Merges() || w.Merge() != nil {
			t.Errorf("changed %v, and goes on: unread %v, merges %v", changed, w.IsUnread(), w.Merges())
		}
	}
	w := NewWriting(false, false)
	if w.Publish(true); w.IsUnread() {
		t.Error("a publication makes it unread")
	}
}

// A merge is done when it was joined.
func TestMerges(t *testing.T) {
	var w Writing
	if w.Merges() || w.Merge() != nil || w.Joined() != nil {
		t.Error("it merges from the beginning")
	}
	m := &Merge{}
	if w.MergeWith(m); !w.Merges() || w.Merge() != m || w.Joined() != nil {
		t.Errorf("merges %v, joined with %v", w.Merges(), w.Joined())
	}
	if m.sums = map[string]any{}; w.Joined() != m || !w.Merges() {
		t.Errorf("merges %v, joined with %v", w.Merges(), w.Joined())
	}
}

func TestRefuse(t *testing.T) {
	var w Writing
	x := &Loss{}
	if w.Refused() != nil {
		t.Error("it is refused from the beginning")
	}
	if w.Refuse(x); w.Refused() != x {
		t.Errorf("refused for %v", w.Refused())
	}
}
