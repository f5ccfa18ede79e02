package load

import (
	"fmt"
	"path/filepath"
	"strings"
)

// At says which operation failed on which file, of which it tells the last name alone;
// nil stays nil.
func At(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, filepath.Base(path), err)
}

// Shorten makes one line of a complaint, with no more than 300 bytes of it.
func Shorten(s string) string {
	const limit = 300
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		s = s[:limit] + " …"
	}
	return s
}
