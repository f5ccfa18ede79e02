package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
)

// Events about directories and links.
const (
	eventMakeDir    = "make_dir"
	eventDeleteDir  = "delete_dir"
	eventMakeLink   = "make_link"
	eventDeleteLink = "delete_link"
)

// doings are what the audit trail has for undo, as far back as it goes.
type doings struct {
	// appended are the records that were appended since a moment: they make no
	// versions, the one that is there grows.
	appended map[string][]*auditEvent
	// named are, of each path, the events about a directory or link since then.
	named map[string][]*auditEvent
	// known: something that the actor did, at whatever time.
	known bool
}

// trail reads the audit trail.
func (f *undoFlags) trail(v *view) (*doings, error) {
	t := &doings{appended: map[string][]*auditEvent{}, named: map[string][]*auditEvent{}}
	err := v.eachTrailLine(func(line []byte) {
		if f.concerns(line, t.known) {
			if e, ok := parseEvent(line); ok {
				f.enter(t, e)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// eachTrailLine calls use for each line of the audit trail, oldest first. Where there is no
// trail there are none.
func (v *view) eachTrailLine(use func(line []byte)) error {
	file, err := os.Open(filepath.Join(v.locks, "events.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		use(line)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// concerns tells cheaply whether a line may be of use.
func (f *undoFlags) concerns(line []byte, known bool) bool {
	for _, word := range []string{`"append"`, eventMakeDir, eventDeleteDir, eventMakeLink, eventDeleteLink} {
		if bytes.Contains(line, []byte(word)) {
			return true
		}
	}
	return !known && len(line) > 1
}

// enter sorts an event in.
func (f *undoFlags) enter(t *doings, e *auditEvent) {
	t.known = t.known || f.actor.matches(&e.author)
	if e.Timestamp.Before(f.since.at) {
		return
	}
	switch e.Event {
	case stateCommit:
		if e.fields["operation"] == opAppend {
			t.appended[e.real()] = append(t.appended[e.real()], e)
		}
	case eventMakeDir, eventDeleteDir, eventMakeLink, eventDeleteLink:
		t.named[e.real()] = append(t.named[e.real()], e)
	}
}

// planNamed says which directories and links are brought back: what the actor has removed, if
// nobody else was the last to do something there, and it had not made that itself since then.
// Links that the actor made are deleted, also where one has the name of what is brought back.
func (f *undoFlags) planNamed(v *view, t *doings, below []string) []*undoing {
	var plan []*undoing
	for p, events := range t.named {
		last := events[len(events)-1]
		if !isBelow(p, below) || !f.actor.matches(&last.author) {
			continue
		}
		first := events[slices.IndexFunc(events, func(e *auditEvent) bool { return f.actor.matches(&e.author) })]
		u := &undoing{named: last.named, path: p, now: v.stampAt(p), removed: first}
		gone, link := u.now == fileStamp{}, isLink(v.file(p))
		switch made := first.Event == eventMakeDir || first.Event == eventMakeLink; {
		case made && link && last.Event == eventMakeLink:
			u.Action = undoDelete
		case !made && gone && (last.Event == eventDeleteDir || last.Event == eventDeleteLink):
			u.Action = undoRestore
		case !made && link && last.Event == eventMakeLink && !u.isLinkAgain(v):
			u.Action = undoRestore
			u.replace()
		case !made && !gone && !link && isFile(v.file(p)):
			u.Action = undoRestore // if that file goes: see join
		default:
			continue
		}
		plan = append(plan, u)
	}
	slices.SortFunc(plan, func(a, b *undoing) int { return strings.Compare(a.path, b.path) })
	return plan
}

// isLinkAgain tells whether a link is there that leads where the removed one did.
func (u *undoing) isLinkAgain(v *view) bool {
	target, err := os.Readlink(v.file(u.path))
	return err == nil && u.removed.Event == eventDeleteLink && target == u.linkTarget()
}

func isFile(name string) bool {
	st, err := os.Lstat(name)
	return err == nil && st.Mode().IsRegular()
}

func isLink(name string) bool {
	st, err := os.Lstat(name)
	return err == nil && st.Mode()&os.ModeSymlink != 0
}

// what says of a directory or link what it is.
func (u *undoing) what() string {
	switch {
	case u.removed.Event == eventDeleteDir:
		return "the directory"
	case u.Action == undoDelete:
		return "the link was not there"
	}
	return "the link to " + printable.Line(u.linkTarget())
}

func (u *undoing) linkTarget() string {
	if b, err := base64.StdEncoding.DecodeString(u.removed.str("target_base64")); err == nil && len(b) > 0 {
		return string(b)
	}
	target, _ := u.removed.fields["target"].(string)
	return target
}

// restoreNamed makes the directory or link again, with the owner that it had where
// that is ours to say.
func (u *undoing) restoreNamed(v *view) error {
	dir, err := v.openParent(u.path, true)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name, op := path.Base(u.path), "mkdir"
	if u.removed.Event == eventDeleteDir {
		err = u.makeDir(dir, name)
	} else {
		op, err = "symlink", u.makeLink(dir, name)
	}
	if err != nil {
		return &os.PathError{Op: op, Path: v.file(u.path), Err: err}
	}
	return nil
}

// makeDir makes a directory. Owner and mode are given to what was made and not to a
// name, which somebody else may have given to another file meanwhile.
func (u *undoing) makeDir(dir int, name string) error {
	mode, err := strconv.ParseUint(u.removed.str("mode"), 8, 12)
	if err != nil {
		mode = 0o755
	}
	if err := unix.Mkdirat(dir, name, uint32(mode)); err != nil {
		return err
	}
	fd, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	made := os.NewFile(uintptr(fd), name)
	defer made.Close()
	if !isOurs(fd) {
		return nil
	}
	if _, err := made.Readdirnames(1); err != io.EOF {
		return errors.New("another directory has got the name just now")
	}
	u.giveBack(fd)
	return unix.Fchmod(fd, uint32(mode))
}

// makeLink makes a symbolic link.
func (u *undoing) makeLink(dir int, name string) error {
	if err := unix.Symlinkat(u.linkTarget(), dir, name); err != nil {
		return err
	}
	fd, err := openAt(dir, name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK && isOurs(fd) {
		u.giveBack(fd)
	}
	return nil
}

// isOurs reports whether a file is ours, as what we make is, except in the mount of
// another user.
func isOurs(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Uid == uint32(os.Geteuid())
}

// giveBack gives what was made to the owner that it had. Where root cannot, it is ours.
func (u *undoing) giveBack(fd int) {
	if os.Geteuid() == 0 {
		_ = unix.Fchownat(fd, "", int(u.removed.count("file_uid")), int(u.removed.count("file_gid")), unix.AT_EMPTY_PATH)
	}
}

// isScript tells whether a program is one that runs scripts.
func isScript(program string) bool {
	name := strings.TrimRight(program, "0123456789.")
	return slices.Contains([]string{"bash", "dash", "fish", "ksh", "node", "perl", "php", "python", "ruby", "sh", "zsh"}, name)
}

// unlabelled says which files scripts of the actor's user, without a label, have
// changed since: one that sets the variable for itself has none, for a label counts
// from the start of a process.
func (f *undoFlags) unlabelled(all histories, below []string) string {
	users := map[int]bool{}
	for _, states := range all {
		for _, s := range states {
			if s.Actor == f.actor.name && s.Actor != s.Program && s.UID != nil {
				users[*s.UID] = true
			}
		}
	}
	var files, by []string
	for p, states := range all {
		i := slices.IndexFunc(states, func(s *fileVersion) bool {
			return !s.Time.Before(f.since.at) && isScript(s.Program) && (s.Actor == "" || s.Actor == s.Program) && s.UID != nil && users[*s.UID]
		})
		if i < 0 || !isBelow(p, below) || slices.ContainsFunc(states, f.isTheirs) {
			continue
		}
		who := states[i].author.withUser()
		files = append(files, printable.Line(p))
		if !slices.Contains(by, who) {
			by = append(by, who)
		}
	}
	if len(files) == 0 {
		return ""
	}
	slices.Sort(files)
	slices.Sort(by)
	few := func(names []string) string {
		const most = 3
		if len(names) > most {
			return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
		}
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s changed since then by scripts without a label, and left: %s (by %s)", amount(int64(len(files)), "file"), few(files), few(by))
}

// progress tells from time to time how far a long undo is.
type progress struct {
	w    io.Writer
	all  int
	done int
	next time.Time
}

// progressEvery is how often.
const progressEvery = 5 * time.Second

func (p *progress) step(now time.Time) {
	p.done++
	if p.next.IsZero() {
		p.next = now.Add(progressEvery)
	}
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(progressEvery)
	fmt.Fprintf(p.w, "%d of %d are done\n", p.done, p.all)
}
