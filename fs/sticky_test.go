package fs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// On a mount of root's a save of bob's does not take a name in a sticky directory that has
// got a file of alice's outside the mount, right before the call that would take it, not
// even for a moment: the store knows how to take names away as a file's owner.
func TestSaveTakesNoForeignName(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's files can be given to others")
	}
	const alice, bob = 61001, 61002
	r, _ := unmounted(t, "")
	below := func(n string) string { return filepath.Join(r.data, n) }
	for n, uid := range map[string]int{"alices": alice, "bobs": bob} {
		if err := os.WriteFile(below(n), []byte(n), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(below(n), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(r.data, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	swapped := false
	r.f.disk.store.SetFault(func(step string) error {
		if got, err := os.ReadFile(below("bobs")); swapped && (err != nil || string(got) != "alices") {
			t.Errorf("before %q the name that alice's file has got holds %q, %v", step, got, err)
		}
		if step != "exchange" || swapped {
			return nil
		}
		swapped = true
		return unix.Renameat2(unix.AT_FDCWD, below("bobs"), unix.AT_FDCWD, below("alices"), unix.RENAME_EXCHANGE)
	})
	id := r.lookup("bobs")
	h := r.header(id)
	h.UID, h.GID = bob, bob
	var out Opened
	if e := r.f.opens.Open(nil, &OpenRequest{Request: h, Flags: unix.O_WRONLY | unix.O_TRUNC}, &out); e != 0 {
		t.Fatalf("open: %v", e)
	}
	r.write(id, out.Handle, 0, "new")
	if e := r.f.endings.Flush(nil, &FlushRequest{Request: h, Handle: out.Handle}); e != unix.EBUSY {
		t.Errorf("close: %v, want %v", e, unix.EBUSY)
	}
	r.release(id, out.Handle)
	if !swapped {
		t.Error("the save has not come to its exchange")
	}
	for n, want := range map[string]string{"bobs": "alices", "alices": "bobs"} {
		if got, err := os.ReadFile(below(n)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", n, got, err, want)
		}
	}
}
