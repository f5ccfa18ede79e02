package fs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel asks to exchange two names of which one has gone: it was removed past the mount, or
// was a new file whose writer was killed.
func TestExchangeWithWhatHasGone(t *testing.T) {
	for _, gone := range []string{"f", "g"} {
		r, _ := unmounted(t, "")
		r.replace("old")
		r.lookup("f")
		if err := os.WriteFile(filepath.Join(r.data, "g"), []byte("other"), 0o644); err != nil {
			t.Fatal(err)
		}
		r.lookup("g")
		if err := os.Remove(filepath.Join(r.data, gone)); err != nil {
			t.Fatal(err)
		}
		in := RenameRequest{Request: r.header(rootID), NewDir: rootID, Flags: unix.RENAME_EXCHANGE}
		if e := r.f.entries.Rename(nil, &in, "f", "g"); e != unix.ENOENT {
			t.Errorf("exchange without %s: %v", gone, e)
		}
	}
}
