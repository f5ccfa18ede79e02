package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a crash has left in a directory does not keep its user from removing it before the
// sweep has come by; what only begins like that is left alone.
func TestRmdirRemovesOrphans(t *testing.T) {
	for name, want := range map[string]unix.Errno{
		".latchfs-" + strings.Repeat("0f", 16): 0,
		".latchfs-mine":                        unix.ENOTEMPTY,
	} {
		r, _ := unmounted(t, "")
		dir := filepath.Join(r.data, "d")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.lookup("d")
		h := r.header(rootID)
		if e := r.f.entries.Rmdir(nil, &h, "d"); e != want {
			t.Errorf("rmdir beside %s: %v, want %v", name, e, want)
		}
		if _, err := os.Stat(dir); os.IsNotExist(err) != (want == 0) {
			t.Errorf("beside %s the directory: %v", name, err)
		}
	}
}
