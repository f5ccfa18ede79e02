package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever gives the name of a directory or link to something else while it is brought
// back gains nothing: mode and owner are for what was made.
func TestUndoNameSwapped(t *testing.T) {
	if os.Getenv("LATCHFS_STRESS") == "" {
		t.Skip("left to make stress: what it finds depends on chance")
	}
	const tries = 300
	root := t.TempDir()
	v := &view{root: root}
	victims := map[string]string{}
	victim := func(i int, kind string) string { return filepath.Join(root, fmt.Sprint("victim-", kind, i)) }
	modeOf := func(name string) string {
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%o of %d", st.Mode, st.Uid)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range tries {
		file, dir := victim(i, "file"), victim(i, "dir")
		check(os.WriteFile(file, []byte("secret"), 0o600))
		check(os.Mkdir(dir, 0o700))
		check(os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
		check(os.Symlink(file, filepath.Join(root, fmt.Sprint("other", i, "-link"))))
		victims[file], victims[dir] = modeOf(file), modeOf(dir)
	}
	var current atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			i := int(current.Load())
			other := victim(i, "dir")
			if i%2 == 0 {
				other = filepath.Join(root, fmt.Sprint("other", i, "-link"))
			}
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, fmt.Sprint("n", i)), unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
		}
	}()
	for i := range tries {
		current.Store(int64(i))
		event := eventDeleteDir
		if i%3 == 0 {
			event = eventDeleteLink
		}
		u := &undoing{path: fmt.Sprint("n", i), Action: undoRestore, removed: &auditEvent{Event: event, fields: map[string]any{
			"mode": "0755", "target": "x", "file_uid": json.Number("61001"), "file_gid": json.Number("61001"),
		}}}
		_ = u.restoreNamed(v)
	}
	close(stop)
	<-stopped
	for i := range tries { // the directories are where they were, or under the new name
		name, other := filepath.Join(root, fmt.Sprint("n", i)), victim(i, "dir")
		if _, err := os.Lstat(filepath.Join(name, "f")); err == nil && i%2 == 1 {
			check(unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE))
		}
	}
	changed := 0
	for name, before := range victims {
		if modeOf(name) != before {
			changed++
		}
	}
	if changed > 0 {
		t.Errorf("%d of %d files and directories of others have another mode or owner", changed, len(victims))
	}
}
