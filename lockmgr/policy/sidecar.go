package policy

import (
	"strings"

	"latchfs/lockmgr/policy/internal/glob"
)

// Sidecar reports whether path names a file that SQLite keeps beside a
// database (the rollback journal, the write-ahead log and its index:
// https://www.sqlite.org/tempfiles.html), and of which database. Such a file
// has to be live whenever its database is, also where that showed itself only
// by its locks: were the journal of a killed writer rolled back, the database
// could not recover.
func Sidecar(relPath string) (database string, ok bool) {
	for _, suffix := range []string{"-journal", "-wal", "-shm"} {
		if database, ok = strings.CutSuffix(relPath, suffix); ok {
			return database, glob.Base(database) != ""
		}
	}
	return "", false
}
