package fsck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/statedir"
)

// checkRejected examines the rejected store.
func (c *Checked) checkRejected() error {
	store, err := statedir.OpenDir(c.disk.StateFD(), rejected.Dir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(store)
	return disk.ReadDir(store, func(e disk.Entry) error {
		where := path.Join(disk.StateDirName, rejected.Dir, e.Name)
		var st unix.Stat_t
		content := unix.Fstatat(store, e.Name+"/"+rejected.Content, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
			st.Mode&unix.S_IFMT == unix.S_IFREG
		switch half := strings.HasPrefix(e.Name, rejected.NewPrefix); {
		case half && content:
			c.find(journal.Recoverable, FindHalfRejected, where, "refused bytes that were being put aside",
				"a crash came in between; the bytes are there, and the next mount gives the entry its name")
		case half:
			c.find(journal.Recoverable, FindHalfRejected, where, "refused bytes were to be put aside here",
				"a crash came before; the next mount removes the entry")
		case !content && rejected.BeingRemoved(store, e.Name):
			c.find(journal.Recoverable, FindHalfRejected, where, "refused bytes that were old enough to go are gone",
				"a crash came in between; the next mount removes the rest of the entry")
		case !content:
			c.find(journal.Problem, FindRejected, where, "has no content", "the refused bytes are gone")
		default:
			c.checkMeta(store, e.Name, where)
		}
		return nil
	})
}

// checkMeta reads what is known about an entry of the rejected store. Without it
// the bytes are kept all the same: a full disk may have been the reason.
func (c *Checked) checkMeta(store int, id, where string) {
	fd, err := unix.Openat(store, id+"/"+rejected.Meta, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return
	}
	where = path.Join(where, rejected.Meta)
	if err != nil {
		c.find(journal.Problem, FindRejected, where, err.Error(), "why the bytes were refused is not known")
		return
	}
	f := os.NewFile(uintptr(fd), rejected.Meta)
	defer f.Close()
	b, err := io.ReadAll(f)
	var meta map[string]any
	if err == nil && len(bytes.Trim(b, "\x00")) == 0 {
		// What is kept is not synced.
		c.find(journal.Info, FindRejected, where, "is empty: a power cut has taken it",
			"why the bytes were refused is not known")
		return
	}
	if err == nil {
		err = json.Unmarshal(b, &meta)
	}
	if err != nil {
		c.find(journal.Problem, FindRejected, where, "cannot be read: "+err.Error(),
			"why the bytes were refused is not known; they are there")
	}
}

// rejected puts damaged entries of the rejected store where they are not taken for
// entries: those without content beside the store, and what cannot be read of the
// others beside their content.
func (p *repair) rejected() error {
	store, err := statedir.OpenDir(p.c.disk.StateFD(), rejected.Dir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(store)
	for _, f := range p.c.Findings {
		if f.Kind != FindRejected {
			continue
		}
		from, id := f.Path, path.Base(f.Path)
		at, to := p.c.disk.StateFD(), "corrupt-rejected-"+id
		name := id
		if id == rejected.Meta {
			id = path.Base(path.Dir(from))
			at, name, to = store, id+"/"+rejected.Meta, id+"/corrupt-"+rejected.Meta
		}
		err := p.c.disk.Do("rename", func() error { return unix.Renameat2(store, name, at, to, unix.RENAME_NOREPLACE) })
		if err != nil {
			return fmt.Errorf("keep %q aside: %w", from, err)
		}
		p.note(FindRejected, from, "renamed to %s", path.Base(to))
	}
	return nil
}
