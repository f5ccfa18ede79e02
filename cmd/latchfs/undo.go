package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
)

// undoFlags are the flags of `latchfs undo`.
type undoFlags struct {
	viewFlags
	actor     actorFlag
	user      userFlag
	since     momentFlag
	caller    int // the user who runs the command
	dryRun    bool
	force     bool
	keepGoing bool
	asJSON    bool
}

func newUndoCommand(sys system) *cobra.Command {
	var f undoFlags
	cmd := &cobra.Command{
		Use:   "undo --actor NAME --since TIME [PATH...]",
		Short: "Take back what somebody has changed",
		Long: `Take back what NAME has changed since TIME, in PATH and below it or in all of the
mount. Each file goes back to the version before NAME's first one since then, as a
new version: it is deleted if there was no file, and there again if NAME deleted it.
Files that are in that state already are left alone. Directories and symbolic links
that NAME removed are there again, and links that NAME made are deleted, as are files
and links that NAME has put in the place of something else; directories that NAME made
stay, and so do directories and links that NAME renamed.

Anybody may work under any label. So only root takes back what other users have done,
and is asked for --user where several have used the label; everybody else takes back
his own changes and no others.

A file is refused where somebody else has changed it after NAME, unless --force is
given: then that change is taken back with it. It is refused, too, where the version
to go back to is not kept any more, where something else that stays has its name, and
where NAME has only appended to it, which makes no version. If anything is refused nothing is changed and the exit code is 1;
with --keep-going the rest is taken back, and the exit code is 1.

` + sentence(momentHelp) + `
` + sentence(actorHelp),
		Example: `  latchfs undo --actor agent-7 --since 2h --dry-run
  latchfs undo --actor agent-7 --since 2h src`,
		RunE: func(cmd *cobra.Command, paths []string) error { return f.run(cmd, sys, paths) },
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.Var(&f.actor, "actor", "whose changes are taken back")
	fl.Var(&f.user, "user", "the user who has worked under that name (for root; others undo what they did themselves)")
	fl.Var(&f.since, "since", "what was changed at this time or later")
	fl.BoolVarP(&f.dryRun, "dry-run", "n", false, "only say what would be done")
	fl.BoolVar(&f.force, "force", false, "take back also what others have changed after NAME")
	fl.BoolVar(&f.keepGoing, "keep-going", false, "take back what is not refused")
	registerJSON(cmd, &f.asJSON, "print one JSON object for each file")
	return cmd
}

// run takes back what the flags say, in paths and below them.
func (f *undoFlags) run(cmd *cobra.Command, sys system, paths []string) error {
	if f.actor.name == "" || f.since.text == "" {
		return usagef("want --actor NAME and --since TIME")
	}
	if err := f.saysWhere(sys, paths); err != nil {
		return err
	}
	v, below, err := f.under(sys, paths)
	if err != nil {
		return err
	}
	all, err := v.histories(nil) // what is below may have been renamed from elsewhere
	if err != nil {
		return err
	}
	f.caller = sys.user
	if err := f.whose(all); err != nil {
		return err
	}
	plan, err := f.plan(v, all, below)
	if err != nil {
		return err
	}
	if note := f.unlabelled(all, below); note != "" {
		warn(cmd, "%s", note)
	}
	if len(plan) == 0 {
		warn(cmd, "nothing is to be taken back: %s has changed nothing there since then, or it is taken back already", printable.Line(f.actor.name))
	}
	var pinned *pins
	if !f.dryRun {
		if pinned, err = pinAll(sys, v, plan); err != nil {
			return err
		}
		defer pinned.end()
	}
	sys.callOurselves("latchfs-undo")
	return f.carryOut(cmd, v, plan, pinned)
}

// saysWhere is an error if nothing says which mount is meant but that there is only one: files
// are changed, and whoever is elsewhere may think of another directory.
func (f *undoFlags) saysWhere(sys system, paths []string) error {
	if len(paths) > 0 || f.mount != "" {
		return nil
	}
	if _, err := sys.locateGone("."); err == nil {
		return nil
	}
	m, err := sys.here()
	if err != nil {
		return err
	}
	return usagef("the working directory is in no latchfs mount: say where to undo, with --mount %s or a path", printable.Word(m.Mountpoint))
}

// whose finds out which user's changes are meant. A label alone does not tell: it is
// the word of whoever works under it.
func (f *undoFlags) whose(all histories) error {
	me := f.caller
	f.user.narrow(&f.actor)
	switch {
	case me != 0 && f.actor.only != nil && *f.actor.only != me:
		return fmt.Errorf("%s is another user: only root takes back what others have changed", userName(*f.actor.only))
	case me != 0:
		f.actor.only = &me
		return nil
	case f.actor.only != nil:
		return nil
	}
	users := map[int]bool{}
	for _, states := range all {
		for _, s := range states {
			if s.UID != nil && s.Actor == f.actor.name && f.isTheirs(s) {
				users[*s.UID] = true
			}
		}
	}
	if len(users) < 2 {
		return nil
	}
	var names []string
	for _, uid := range slices.Sorted(maps.Keys(users)) {
		names = append(names, userName(uid))
	}
	return fmt.Errorf("%s is a label of several users: %s; say with --user whose changes are to be taken back",
		printable.Line(f.actor.name), strings.Join(names, ", "))
}

// carryOut does what is planned, or says it.
func (f *undoFlags) carryOut(cmd *cobra.Command, v *view, plan []*undoing, pinned *pins) error {
	refused := 0
	for _, u := range plan {
		if u.Action == undoRefuse {
			refused++
		}
	}
	do := !f.dryRun && (refused == 0 || f.keepGoing)
	var failed error
	how := &progress{w: cmd.ErrOrStderr(), all: len(plan)}
	for _, action := range []string{undoRestore, undoDelete, undoRefuse} { // nothing is deleted before the rest is there
		for _, u := range plan {
			if u.Action != action || action == undoDelete && failed != nil {
				continue
			}
			if do && action != undoRefuse {
				if err := u.carryOut(cmd, v); err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				u.Done = true
				pinned.release(u)
				how.step(time.Now())
			}
			if err := f.report(cmd.OutOrStdout(), u); err != nil {
				return err
			}
		}
	}
	switch {
	case errors.Is(failed, unix.ENOSPC), errors.Is(failed, unix.EDQUOT):
		return fmt.Errorf("%w\nthe versions that are not put back yet are still kept: make room, and run it again", failed)
	case failed != nil:
		return failed
	case refused == 0:
		return nil
	case !do && !f.dryRun:
		return fmt.Errorf("%s refused: nothing was changed (--keep-going takes back the rest)", amount(int64(refused), "file"))
	}
	return exitError(exitFailure)
}

func (f *undoFlags) report(w io.Writer, u *undoing) error {
	if f.asJSON {
		return printJSON(w, u)
	}
	_, err := fmt.Fprintln(w, u.String())
	return err
}

// String says what is to be done, or was.
func (u *undoing) String() string {
	name := printable.Line(u.path)
	verb, did := "restore", "restored"
	var what string
	switch u.Action {
	case undoRefuse:
		return "refused   " + name + ": " + u.Reason
	case undoDelete:
		verb, did, what = "delete", "deleted", "it was not there before"
	default:
		if u.removed != nil {
			break
		}
		what = fmt.Sprintf("version %d of %s", u.Version, u.target.when())
	}
	if u.removed != nil {
		what = u.what()
	}
	if u.Done {
		verb = did
	}
	if u.Reason != "" {
		what += "; " + u.Reason
	}
	return fmt.Sprintf("%-8s  %s: %s", verb, name, what)
}

// carryOut takes the changes of one file back.
func (u *undoing) carryOut(cmd *cobra.Command, v *view) error {
	if now := v.stampAt(u.path); now != u.now {
		return fmt.Errorf("%s was changed just now: it is left as it is", printable.Line(u.path))
	}
	if u.Action == undoDelete {
		return u.remove(v)
	}
	back := func() {}
	if u.replaces {
		target, is := os.Readlink(v.file(u.path))
		if err := u.remove(v); err != nil {
			return err
		}
		if is == nil {
			back = func() { u.putLinkBack(v, target) }
		}
	}
	var err error
	if u.removed != nil {
		err = u.restoreNamed(v)
	} else {
		err = u.restore(cmd, v)
	}
	if err != nil {
		back()
	}
	return err
}

// restore writes what the file goes back to. If that was the content of another path
// when the plan was made, and that path has got its own back since, it is kept now.
func (u *undoing) restore(cmd *cobra.Command, v *view) error {
	name := u.source
	if stampAt(name) != u.sourceWas {
		if name = v.keptFile(u.target); stampAt(name) == (fileStamp{}) {
			return errors.New(notKept(u.target))
		}
	}
	return v.restore(cmd, u.target, name)
}

// fileStamp tells a file from what it becomes.
type fileStamp struct {
	ino, size    uint64
	mtime, ctime unix.Timespec
}

// stampAt is stampAt of what has a path, without following a symbolic link in the directories
// above: what one leads to has another path.
func (v *view) stampAt(p string) fileStamp {
	dir, err := v.openParent(p, false)
	if err != nil {
		return fileStamp{}
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return fileStamp{}
	}
	return fileStamp{st.Ino, uint64(st.Size), st.Mtim, st.Ctim}
}

// stampAt is the zero stamp where there is no file.
func stampAt(name string) fileStamp {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil {
		return fileStamp{}
	}
	return fileStamp{st.Ino, uint64(st.Size), st.Mtim, st.Ctim}
}
