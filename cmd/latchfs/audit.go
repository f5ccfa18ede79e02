package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
	"latchfs/journal/commit"
)

// auditFlags are the flags of `latchfs audit`.
type auditFlags struct {
	viewFlags
	since, until momentFlag
	events       []string
	actor        actorFlag
	user         userFlag
	asJSON       bool
	follow       bool
}

func newAuditCommand(sys system) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit [PATH...]",
		Short: "Show what has happened: commits, refusals, stolen locks, recoveries",
		Long: `Show the audit trail, oldest first: every commit, refusal and rollback of PATH and
what is below it, or all of the mount. It also reads the trail of a directory that
is not mounted, for whoever may read its .latchfs.

` + sentence(momentHelp) + `
` + sentence(actorHelp) + `

With --follow the last ten events that match come first, or all after --since, and
then each as it happens.`,
		Example: `  latchfs audit --since 2h --event rollback,refusal
  latchfs audit --actor agent-7 todo.json
  latchfs audit --json --since 09:00 | jq 'select(.bytes > 1000000)'`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			return f.run(cmd, sys, paths)
		},
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.Var(&f.since, "since", "only what happened at this time or later")
	fl.Var(&f.until, "until", "only what happened at this time or earlier")
	fl.StringSliceVar(&f.events, "event", nil, "only events of this `KIND`; may be repeated, or a list with commas")
	fl.Var(&f.actor, "actor", "only what this one did")
	fl.Var(&f.user, "user", "only what this user did; with --actor, under that name")
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on with what happens from now on")
	registerJSON(cmd, &f.asJSON, "print the events as they are recorded, one JSON object a line")
	_ = cmd.RegisterFlagCompletionFunc("event", // fails for a flag that is not there
		cobra.FixedCompletions(knownEvents(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// sentence begins with a capital and ends with a full stop.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// trail is where events are read from.
type trail struct {
	files  []string // oldest first
	paths  []string // those asked for, from the root
	closed bool     // nobody writes to it
}

// followedLines is how many events `latchfs audit -f` begins with.
const followedLines = 10

// followPause is how long it looks away: a virtual file has no notification.
const followPause = 200 * time.Millisecond

func (f *auditFlags) run(cmd *cobra.Command, sys system, paths []string) error {
	if err := f.mayBeAsked(); err != nil {
		return err
	}
	t, err := f.find(sys, paths)
	if err != nil {
		return err
	}
	f.user.narrow(&f.actor)
	if f.follow && t.closed {
		return errors.New("--follow: the directory is not mounted, nothing will happen")
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	r := &auditReader{f: f, t: t, out: out}
	if f.follow && f.since.text == "" {
		r.last = make([][]byte, 0, followedLines)
	}
	for _, file := range t.files {
		if err = r.read(file); err != nil {
			break
		}
	}
	if r.damaged > 0 {
		defer warn(cmd, "%d lines that are no events were left out", r.damaged)
	}
	return errors.Join(err, out.Flush())
}

// find finds the trail of the paths: that of their mount, or of the unmounted
// directory around them.
func (f *auditFlags) find(sys system, paths []string) (*trail, error) {
	ask := paths
	if dir, _ := dataRoot("."); len(paths) == 0 && f.mount == "" && dir != "" {
		ask = []string{dir} // rather than of the only mount there is
	}
	v, below, err := f.under(sys, ask)
	if err == nil {
		return &trail{files: []string{filepath.Join(v.locks, "events.jsonl")}, paths: below}, nil
	}
	var usage *usageError
	if errors.As(err, &usage) || len(ask) == 0 {
		return nil, err
	}
	t := &trail{closed: true}
	root := ""
	for _, p := range ask {
		dir, rel := dataRoot(p)
		switch {
		case dir == "":
			return nil, err
		case root != "" && root != dir:
			return nil, usagef("%s is in %s, not in %s: one command is about one directory", p, dir, root)
		}
		root = dir
		t.paths = append(t.paths, rel)
	}
	for _, name := range []string{"events.jsonl.1", "events.jsonl"} {
		name = filepath.Join(root, commit.StateDirName, name)
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.files = append(t.files, name)
		}
	}
	return t, nil
}

// dataRoot is the unmounted data directory that a path is in, and the path from
// there; "" if there is none.
func dataRoot(name string) (root, rel string) {
	real, err := realPath(name)
	if err != nil {
		return "", ""
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		if st, err := os.Stat(filepath.Join(dir, commit.StateDirName)); err == nil && st.IsDir() {
			rel, err := filepath.Rel(dir, real)
			if err != nil {
				return "", ""
			}
			return dir, rel
		}
		if dir == filepath.Dir(dir) {
			return "", ""
		}
	}
}

// auditReader prints the events of a trail.
type auditReader struct {
	f       *auditFlags
	t       *trail
	out     *bufio.Writer
	damaged int
	// last holds back the latest lines while the beginning of a trail that is
	// followed is read; nil: everything is printed at once.
	last [][]byte
}

// read prints what is in a file, and if it is followed what comes.
func (r *auditReader) read(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 64<<10)
	var line []byte
	for {
		part, err := lines.ReadBytes('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			if err := r.line(line); err != nil {
				return err
			}
			line = line[:0]
			continue
		case err != io.EOF:
			return err
		case !r.f.follow:
			if len(line) > 0 {
				r.damaged++ // its end is missing
			}
			return nil
		}
		if err := r.caughtUp(); err != nil {
			return err
		}
		time.Sleep(followPause)
	}
}

// caughtUp is called where a trail that is followed ends for now.
func (r *auditReader) caughtUp() error {
	for _, line := range r.last {
		if _, err := r.out.Write(line); err != nil {
			return err
		}
	}
	r.last = nil
	return r.out.Flush()
}

// line prints an event, if it is asked for.
func (r *auditReader) line(line []byte) error {
	e, ok := parseEvent(line)
	if !ok {
		r.damaged++
		return nil
	}
	if !r.f.wants(e, r.t.paths) {
		return nil
	}
	if r.f.asJSON {
		line = printable.JSON(line)
	} else {
		line = e.appendLine(nil)
	}
	if r.last == nil {
		_, err := r.out.Write(line)
		return err
	}
	if len(r.last) == followedLines {
		r.last = r.last[1:]
	}
	r.last = append(r.last, bytes.Clone(line))
	return nil
}

// wants tells whether an event is asked for.
func (f *auditFlags) wants(e *auditEvent, below []string) bool {
	switch {
	case !includes(f.since, f.until, e.Timestamp),
		len(f.events) > 0 && !slices.Contains(f.events, e.Event),
		f.user.name != "" && (e.UID == nil || *e.UID != f.user.uid),
		f.actor.name != "" && !f.actor.matches(&e.author):
		return false
	}
	if slices.Contains(below, ".") {
		return true // also what concerns no file
	}
	return len(below) == 0 || slices.ContainsFunc(e.paths(), func(p string) bool { return isBelow(p, below) })
}

// mayBeAsked refuses a kind of event that does not exist: nothing would be shown, as if
// nothing had happened.
func (f *auditFlags) mayBeAsked() error {
	known := knownEvents()
	for _, kind := range f.events {
		if !slices.Contains(known, kind) {
			return usagef("--event %s: there is no such event; there are %s", printable.Line(kind), strings.Join(known, ", "))
		}
	}
	return nil
}

// knownEvents are the kinds of events.
func knownEvents() []string {
	kinds := slices.Clone(listedEvents)
	for kind := range eventTexts {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// appendLine appends an event as a line for people.
func (e *auditEvent) appendLine(b []byte) []byte {
	what := e.subject()
	if text := e.text(); text != "" {
		if what != "" {
			what += ": "
		}
		what += text
	}
	line := fmt.Sprintf("%s  %-16s  %-22s  %s", e.Timestamp.Local().Format(time.DateTime), e.kind(), e.author.withUser(), what)
	return append(append(b, strings.TrimRight(line, " ")...), '\n')
}
