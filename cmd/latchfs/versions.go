package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"latchfs/fs/printable"
)

// The kinds of states in .locks/history.jsonl: content that came by a commit, no
// file since a deletion or a rename away, content that the mount came upon.
const (
	stateCommit = "commit"
	stateDelete = "delete"
	stateAway   = "rename-away"
	stateFound  = "found"
)

// fileVersion is a state that a path was in, a line of .locks/history.jsonl.
type fileVersion struct {
	named
	author
	Version   int64     `json:"version"`
	Time      time.Time `json:"time"`
	Event     string    `json:"event"`
	Operation string    `json:"operation"`
	Bytes     int64     `json:"bytes"`
	Mode      string    `json:"mode"`
	Kept      bool      `json:"kept"`
	Current   bool      `json:"current"`
	// From and To are the other paths of a rename, as they are.
	From string `json:"from"`
	To   string `json:"to"`

	line []byte
}

// isFile tells whether there was a file.
func (s *fileVersion) isFile() bool { return s.Event != stateDelete && s.Event != stateAway }

// what says how the state came about.
func (s *fileVersion) what() string {
	switch {
	case s.Event == stateDelete:
		return "deleted"
	case s.Event == stateAway && s.To != "":
		return "renamed to " + printable.Line(s.To)
	case s.Event == stateAway:
		return "renamed away"
	case s.Event == stateFound:
		return "already there when latchfs first saw it, or changed outside the mount"
	case s.From != "":
		return "renamed from " + printable.Line(s.From)
	case s.Operation == "" || s.Operation == "open":
		return printable.Line(s.Event)
	}
	return printable.Line(s.Operation)
}

// when says when and by whom.
func (s *fileVersion) when() string {
	text := s.Time.Local().Format(time.DateTime)
	if s.Program != "" || s.Actor != "" {
		text += " by " + s.author.String()
	}
	return text
}

// histories are the states of paths, oldest first.
type histories map[string][]*fileVersion

// histories reads what is known of the paths below some others.
func (v *view) histories(below []string) (histories, error) {
	file, err := os.Open(filepath.Join(v.locks, "history.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s keeps no history: %w", v.root, err)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := histories{}
	lines := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if s := parseVersion(line); s != nil && isBelow(s.real(), below) {
			all[s.real()] = append(all[s.real()], s)
		}
		switch {
		case err == io.EOF:
			for _, states := range all {
				slices.SortStableFunc(states, func(a, b *fileVersion) int { return cmp.Compare(a.Version, b.Version) })
			}
			return all, nil
		case err != nil:
			return nil, err
		}
	}
}

// parseVersion reads a line of history.jsonl; nil if it is none.
func parseVersion(line []byte) *fileVersion {
	s := &fileVersion{line: line}
	other := struct {
		From string `json:"from_base64"`
		To   string `json:"to_base64"`
	}{}
	if json.Unmarshal(line, s) != nil || s.Version < 1 || json.Unmarshal(line, &other) != nil {
		return nil
	}
	s.From = named{s.From, other.From}.real()
	s.To = named{s.To, other.To}.real()
	if s.Event == stateFound {
		s.author = author{} // nobody knows who made it
	}
	return s
}

// history reads what is known of one file.
func (v *view) history(p string) ([]*fileVersion, error) {
	all, err := v.histories([]string{p})
	if err != nil {
		return nil, err
	}
	if len(all[p]) == 0 {
		return nil, v.unknown(p)
	}
	return all[p], nil
}

// unknown is the error of a file of which no version is known. Lists name files from the
// mount's root on: of a name that was copied from one, in a directory below, it says where that
// file is.
func (v *view) unknown(p string) error {
	err := fmt.Errorf("no version of %s is known", printable.Line(p))
	cwd, no := os.Getwd()
	if no != nil {
		return err
	}
	dir, below := strings.CutPrefix(cwd, v.root+"/")
	listed, typedThere := strings.CutPrefix(p, dir+"/")
	if !below || !typedThere {
		return err
	}
	if all, no := v.histories([]string{listed}); no != nil || len(all[listed]) == 0 {
		return err
	}
	return fmt.Errorf("%w, but of %s", err, printable.Line(v.file(listed)))
}

// numbered finds a version by its number, as it is written on the command line.
func numbered(states []*fileVersion, number string) (*fileVersion, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return nil, usagef("%q is no number of a version", number)
	}
	for _, s := range states {
		if s.Version == n {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s has no version %d, or it is not known any more: latchfs history shows what there is",
		printable.Line(states[0].real()), n)
}

// content is where a version can be read: among the kept ones, in the file itself,
// or in the file that it was renamed to. all are the histories in which that is
// looked for; nil: all there are. It is an error if it is nowhere.
func (v *view) content(s *fileVersion, all histories) (string, error) {
	switch {
	case !s.isFile():
		return os.DevNull, nil
	case s.Kept:
		return v.keptFile(s), nil
	case s.Current:
		return v.file(s.real()), nil
	}
	if all == nil {
		var err error
		if all, err = v.histories(nil); err != nil {
			return "", err
		}
	}
	if now := all.follow(s); now != nil && now.Current {
		if _, err := os.Lstat(v.keptFile(s)); err == nil {
			return v.keptFile(s), nil // since somebody has replaced the other
		}
		if st, err := os.Lstat(v.file(now.real())); err == nil && st.Mode().IsRegular() && st.Size() == s.Bytes {
			return v.file(now.real()), nil
		}
	}
	return "", errors.New(notKept(s))
}

// keptFile is the file of a version that is kept. A file of the same name below a
// directory of that path comes before it.
func (v *view) keptFile(s *fileVersion) string {
	name := filepath.Join(v.locks, "history", s.real(), strconv.FormatInt(s.Version, 10))
	if st, err := os.Lstat(name); err == nil && st.IsDir() {
		name += "~"
	}
	return name
}

// follow is the version of another path that a version became by being renamed, as
// often as it was; nil if it never was.
func (all histories) follow(s *fileVersion) *fileVersion {
	var found *fileVersion
	for range len(all) { // whatever the records say, it ends
		away := all.next(s)
		if away == nil || away.Event != stateAway {
			return found
		}
		s = all.arrival(away)
		if s == nil {
			return nil
		}
		found = s
	}
	return nil
}

// next is the version after s.
func (all histories) next(s *fileVersion) *fileVersion {
	for _, n := range all[s.real()] {
		if n.Version == s.Version+1 {
			return n
		}
	}
	return nil
}

// arrival is what a rename away made of the path that it led to.
func (all histories) arrival(away *fileVersion) *fileVersion {
	var found *fileVersion
	apart := func(s *fileVersion) time.Duration { return s.Time.Sub(away.Time).Abs() }
	for _, s := range all[away.To] {
		if s.From == away.real() && s.isFile() && (found == nil || apart(s) < apart(found)) {
			found = s
		}
	}
	return found
}

func notKept(s *fileVersion) string {
	return fmt.Sprintf("version %d of %s is not kept any more", s.Version, printable.Line(s.real()))
}

// sameContent tells whether two files hold the same.
func sameContent(a, b string) (bool, error) {
	var files [2]*os.File
	var sizes [2]int64
	for i, name := range []string{a, b} {
		file, err := os.Open(name)
		if err != nil {
			return false, err
		}
		defer file.Close()
		st, err := file.Stat()
		if err != nil {
			return false, err
		}
		files[i], sizes[i] = file, st.Size()
	}
	if sizes[0] != sizes[1] {
		return false, nil
	}
	return sameBytes(files[0], files[1])
}

func sameBytes(a, b io.Reader) (bool, error) {
	bufA, bufB := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, bufA)
		m, errB := io.ReadFull(b, bufB)
		ends := errA == io.EOF || errA == io.ErrUnexpectedEOF
		switch {
		case errA != nil && !ends:
			return false, errA
		case errB != nil && errB != io.EOF && errB != io.ErrUnexpectedEOF:
			return false, errB
		case n != m || !bytes.Equal(bufA[:n], bufB[:m]):
			return false, nil
		case ends:
			return true, nil
		}
	}
}
