package fs

import (
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// What the daemon answers while it cannot find out who else has a file open.

// blindly runs a test once while descriptors cannot be seen, and once while mappings
// cannot.
func blindly(t *testing.T, rules string, test func(t *testing.T, r *requests, blind *atomic.Bool)) {
	for what, of := range map[string]func(*unseen) *atomic.Bool{
		"descriptors": func(u *unseen) *atomic.Bool { return &u.files },
		"mappings":    func(u *unseen) *atomic.Bool { return &u.maps },
	} {
		t.Run(what, func(t *testing.T) {
			r, eyes := unmounted(t, rules)
			test(t, r, of(eyes))
		})
	}
}

// rewrite opens the file to write it anew, and does that.
func (r *requests) rewrite(text string) (id, fh uint64) {
	r.t.Helper()
	id = r.lookup("f")
	fh, st := r.open(id, unix.O_RDWR|unix.O_TRUNC) // what cannot be read cannot be mapped
	if st != 0 {
		r.t.Fatalf("open: %v", st)
	}
	r.write(id, fh, 0, text)
	return id, fh
}

// A close while it cannot be seen whether the file is still open succeeds, and decides
// nothing: the session goes on. The close after which it can be seen commits.
func TestCloseThatSeesNothing(t *testing.T) {
	blindly(t, "", func(t *testing.T, r *requests, blind *atomic.Bool) {
		r.replace("old")
		id, fh := r.rewrite("new")
		blind.Store(true)
		for range 2 {
			if st := r.closes(id, fh); st != 0 {
				t.Errorf("a close that sees nothing: %v", st)
			}
			r.want("nobody can be seen", "old", nil)
		}
		blind.Store(false)
		if st := r.closes(id, fh); st != 0 {
			t.Errorf("the close after it: %v", st)
		}
		r.want("everybody can be seen", "new", map[string]int{"commit": 1})
		r.release(id, fh)
		r.want("at the end", "new", map[string]int{"commit": 1})
		if kept := r.kept(); len(kept) > 0 {
			t.Errorf("refused: %q", kept)
		}
	})
}

// What was opened to write only, nobody can have mapped: nobody's mappings are asked for.
func TestCloseOfWhatCannotBeMapped(t *testing.T) {
	r, eyes := unmounted(t, "")
	r.replace("old")
	id := r.lookup("f")
	fh, st := r.open(id, unix.O_WRONLY|unix.O_TRUNC)
	if st != 0 {
		t.Fatalf("open: %v", st)
	}
	r.write(id, fh, 0, "new")
	eyes.maps.Store(true)
	if st := r.closes(id, fh); st != 0 {
		t.Errorf("close: %v", st)
	}
	r.want("after the close", "new", map[string]int{"commit": 1})
	r.release(id, fh)
}

// If it never can be seen, the kernel's word that the last descriptor is closed counts.
func TestReleaseThatSeesNothing(t *testing.T) {
	blindly(t, "", func(t *testing.T, r *requests, blind *atomic.Bool) {
		r.replace("old")
		id, fh := r.rewrite("new")
		blind.Store(true)
		r.flush(id, fh)
		r.want("after the close", "old", nil)
		r.release(id, fh)
		r.want("after the release", "new", map[string]int{"commit": 1})
	})
}

// What is refused after such a close is told to the next close, and kept: nothing was
// decided before.
func TestRefusalAfterACloseThatSawNothing(t *testing.T) {
	blindly(t, "", func(t *testing.T, r *requests, blind *atomic.Bool) {
		r.replace("old")
		id, fh := r.rewrite("new")
		blind.Store(true)
		r.flush(id, fh)
		r.replace("another's")
		r.want("changed outside the mount", "another's", nil)
		blind.Store(false)
		if st := r.closes(id, fh); st != unix.EBUSY {
			t.Errorf("the close after that: %v, want EBUSY", st)
		}
		r.want("at the end", "another's", map[string]int{"rollback": 1})
		if kept := r.kept(); !slices.Equal(kept, []string{"new"}) {
			t.Errorf("kept: %q", kept)
		}
		r.release(id, fh)
	})
}

// half is a line and the beginning of another one, which nobody would accept.
const half = "{\"a\": 1}\n{\"b\""

// halfLine appends that to a file of which each line is judged.
func halfLine(t *testing.T) (r *requests, eyes *unseen, id, fh uint64) {
	r, eyes = unmounted(t, "[[rule]]\nglob = \"f\"\nvalidate = \"jsonl\"\n")
	r.replace("")
	id = r.lookup("f")
	fh, st := r.open(id, unix.O_WRONLY|unix.O_APPEND)
	if st != 0 {
		t.Fatalf("open: %v", st)
	}
	eyes.files.Store(true)
	r.write(id, fh, 0, half)
	r.want("half a line", "{\"a\": 1}\n", nil)
	if st := r.closes(id, fh); st != 0 {
		t.Errorf("a close that sees nothing: %v", st)
	}
	r.want("after a close that sees nothing", "{\"a\": 1}\n", nil)
	return r, eyes, id, fh
}

// Half of a line waits for its end at a close while it cannot be seen whether somebody
// may go on with it.
func TestLineGoesOnAfterACloseThatSawNothing(t *testing.T) {
	r, _, id, fh := halfLine(t)
	r.write(id, fh, len(half), ": 2}\n")
	r.want("the whole line", "{\"a\": 1}\n{\"b\": 2}\n", nil)
	if kept := r.kept(); len(kept) > 0 {
		t.Errorf("refused: %q", kept)
	}
	r.flush(id, fh)
	r.want("at the end", "{\"a\": 1}\n{\"b\": 2}\n", map[string]int{"commit": 1})
	r.release(id, fh)
}

// When it can be seen that nobody goes on with it, it is judged as it is.
func TestLineIsRefusedAfterACloseThatSawNothing(t *testing.T) {
	r, eyes, id, fh := halfLine(t)
	eyes.files.Store(false)
	if st := r.closes(id, fh); st != unix.EBADMSG {
		t.Errorf("the close that sees: %v, want EBADMSG", st)
	}
	r.want("at the end", "{\"a\": 1}\n", map[string]int{"commit": 1, "rollback": 1})
	if kept := r.kept(); !slices.Equal(kept, []string{"{\"b\""}) {
		t.Errorf("kept: %q", kept)
	}
	r.release(id, fh)
}
