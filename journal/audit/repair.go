package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// Repair takes damaged lines out of the trail and appends them to a file aside, whose
// name it returns; nothing is changed where nothing is damaged, but that a rotation which
// was cut short is ended as Open does it. An unfinished end is left to Open, which cuts it
// off. Nobody may have the trail open.
func Repair(dir *os.File) (aside string, err error) {
	if err := settle(dir); err != nil {
		return "", err
	}
	for _, name := range Names() {
		moved, err := repairPart(dir, name)
		if err != nil {
			return aside, fmt.Errorf("%s: %w", name, err)
		}
		if moved {
			aside = damagedName
		}
	}
	return aside, nil
}

func repairPart(dir *os.File, name string) (moved bool, err error) {
	f, err := openPart(dir, name)
	if f == nil || err != nil {
		return false, err
	}
	defer f.Close()
	lines, err := readPart(f)
	if err != nil {
		return false, err
	}
	bad := lines.damaged
	if lines.tail.start < lines.tail.end && (name != Name || len(bad) > 0) {
		bad = append(bad, lines.tail) // what is no longer written to Open leaves alone
	}
	if len(bad) == 0 {
		return false, nil
	}
	// First what goes is safe, then it goes: after a crash it is there twice.
	err = copySpans(dir, damagedName, unix.O_APPEND, f, bad)
	if err == nil {
		err = copySpans(dir, newName, unix.O_TRUNC, f, lines.good)
	}
	if err == nil {
		err = rename(dir, newName, name)
	}
	return err == nil, errors.Join(err, statedir.Sync(dir))
}

// copySpans writes parts of from to a file of dir, and syncs it.
func copySpans(dir *os.File, name string, how int, from *os.File, spans []span) error {
	to, err := statedir.File(dir, name, unix.O_WRONLY|unix.O_CREAT|how)
	if err != nil {
		return err
	}
	defer to.Close()
	w := bufio.NewWriter(to)
	for _, s := range spans {
		if _, err := io.Copy(w, io.NewSectionReader(from, s.start, s.end-s.start)); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), to.Sync())
}
