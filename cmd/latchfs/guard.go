package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// ownsRest marks a command whose arguments after -- are another program's.
const ownsRest = "arguments after -- are another program's"

func newGuardCommand(sys system) *cobra.Command {
	var f lockFlags
	var txn bool
	cmd := &cobra.Command{
		Use:   "guard [flags] [FILE...] -- CMD [ARG...]",
		Short: "Run a command while holding locks",
		Long: `Take locks on FILEs, on --tree directories and on --name names, all of them or
none, run CMD, and give them back when CMD ends, however it ends. The files need
not exist. What CMD starts may use the locked files, too; LATCHFS_SESSION in its
environment is the id of the lock.

With --txn all that CMD and what it starts writes, creates, removes and renames is
a transaction: they alone see it until CMD ends. If that is with exit code 0 all of
it is published at once, else nothing is, and what was written is kept in
.locks/rejected. A transaction that cannot be published (a file is no valid JSON,
the disk is full) is exit code 1, with the reason. Live files (latchfs policy test
PATH) are not staged.

If guard itself is killed, the lock lasts as long as anything that CMD started.
SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to CMD.

The exit code is that of CMD, 128 and the signal's number if one ended it, 126 or
127 if it cannot be executed or found. It is 8 if the lock is not acquired in
time; CMD is not run then, the message says who holds the lock, and with --json a
JSON object does, too.`,
		Example: `  latchfs guard todo.json -- sh -c 'jq .n+=1 todo.json | sponge todo.json'
  latchfs guard --tree memory --wait 5s --operation import -- ./import.py
  latchfs guard --txn todo.json archive.json -- ./move-done.sh
  latchfs guard --name deploy-prod --wait 0 -- ./deploy.sh`,
		Annotations:           map[string]string{ownsRest: ""},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 || dash == len(args) {
				return usagef("want -- and the command to run")
			}
			return guard(cmd, sys, &f, txn, args[:dash], args[dash:])
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&txn, "txn", false, "publish all that CMD writes if it exits with 0, else nothing")
	registerJSON(cmd, &f.asJSON, "say it as a JSON object, too, if the lock is not acquired")
	return cmd
}

// guard runs argv while it holds what the flags and files name.
func guard(cmd *cobra.Command, sys system, f *lockFlags, txn bool, files, argv []string) error {
	req, err := f.request(cmd)
	if err != nil {
		return err
	}
	req.Txn = txn
	req.Operation = cmp.Or(req.Operation, filepath.Base(argv[0]))
	// A request that makes no sense is told before a command that is not there.
	c, err := f.begin(sys, req, files)
	if err != nil {
		return err
	}
	defer c.end()
	program, err := findProgram(cmd, argv[0])
	if err != nil {
		return err
	}

	signals, stop := catchSignals()
	defer stop()
	a, err := await(c.start(req), signals)
	if err != nil {
		return err
	}
	if !a.OK {
		return refused(cmd, a.Refusal, f.asJSON)
	}
	defer c.giveBack(cmd, a.Lock, req.Holder)
	if a.Warning != "" {
		warn(cmd, "%s", a.Warning)
	}
	heirloom, err := inheritable(c.file)
	if err != nil {
		return err
	}
	defer heirloom.Close()
	child := &guarded{
		cmd:     cmd,
		program: program,
		argv:    argv,
		env:     append(os.Environ(), control.SessionEnv+"="+a.Lock),
		signals: signals,
	}
	ended := child.run()
	if txn {
		return c.decide(cmd, a.Lock, ended)
	}
	return ended
}

// decide commits the transaction of a command that has ended well, and rolls back
// that of another.
func (c *conversation) decide(cmd *cobra.Command, lock string, ended error) error {
	if ended != nil {
		r := &control.Request{Op: control.Rollback, Lock: lock, Reason: "the command ended with " + ended.Error()}
		a, err := c.ask(r)
		switch {
		case c.gone:
			warn(cmd, "latchfs has ended before the command did: nothing of the transaction is in the files")
		case err != nil || !a.OK:
			warn(cmd, "the transaction was not rolled back yet; it is at the end of this command")
		default:
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: the command ended with %v: all that it changed was rolled back; what it wrote, if anything, is kept: see latchfs rejected list\n",
				calledAs(cmd), ended)
		}
		return ended // as the command did
	}
	// Signals wait: what becomes of the transaction has to be known.
	a, err := c.ask(&control.Request{Op: control.Commit, Lock: lock})
	switch {
	case c.gone:
		return errors.New("latchfs has ended and did not answer: when the directory is mounted again, either all of the transaction is in the files, or nothing of it")
	case err != nil:
		return fmt.Errorf("it is not known whether the transaction was committed: %w", err)
	case !a.OK:
		return fmt.Errorf("the transaction was rolled back: %s", said(a.Refusal))
	case a.Warning != "":
		return fmt.Errorf("the transaction was committed, but: %s", a.Warning)
	}
	return nil
}

// inheritable makes a copy of a descriptor that the processes have which we
// start, so that the lock outlives us as long as one of them runs. Its number is
// one that scripts do not use by habit: what the caller has opened for CMD stays
// where it is, and CMD does not close ours by chance.
func inheritable(file *os.File) (*os.File, error) {
	const lowest = 100
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD, lowest)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// asked is what became of a request.
type asked struct {
	answer *answer
	err    error
}

// start is ask in the background.
func (c *conversation) start(req *control.Request) <-chan asked {
	done := make(chan asked, 1)
	go func() {
		a, err := c.ask(req)
		done <- asked{a, err}
	}()
	return done
}

// await returns what became of a request. A signal ends the wait: the caller ends
// the conversation then, and with it whatever the request may still get.
func await(done <-chan asked, signals <-chan os.Signal) (*answer, error) {
	var r asked
	select {
	case s := <-signals:
		return nil, exitError(signalled(s))
	case r = <-done:
	}
	select {
	case s := <-signals: // it came before there was a command to get it
		return nil, exitError(signalled(s))
	default:
		return r.answer, r.err
	}
}

// giveBack releases a lock of the conversation's, or of a holder's if that is not 0, whoever
// else still has the descriptor. What goes wrong does not change how CMD ended (SEED M3,
// T10). Signals do not keep us from it: the one that ended CMD may reach us only now.
func (c *conversation) giveBack(cmd *cobra.Command, lock string, holder int32) {
	if c.gone {
		return // and its locks with it, which was told
	}
	select {
	case r := <-c.start(&control.Request{Op: control.Release, Lock: lock, Holder: holder}):
		switch {
		case c.gone:
			warn(cmd, "latchfs has ended before the command did, and the lock with it")
		case r.err != nil:
			warn(cmd, "the lock was not released: %v", r.err)
		case !r.answer.OK:
			warn(cmd, "the lock was not released: %s", said(r.answer.Refusal))
		case r.answer.Warning != "":
			warn(cmd, "%s", r.answer.Warning)
		}
	case <-time.After(answerTimeout):
		warn(cmd, "the lock was not released: no answer within %v", answerTimeout)
	}
}
