package commit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// RemoveOrphan removes name from the directory dir if it is a reserved name
// that no living shadow uses: what a crash left behind.
func (s *Store) RemoveOrphan(dir int, name string) error {
	if !generated(name) || s.nameInUse(name) {
		return fmt.Errorf("%q is no orphan", name)
	}
	return s.do("unlink", func() error { return unix.Unlinkat(dir, name, 0) })
}
