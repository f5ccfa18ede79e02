package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// mount(8) hands a filesystem type that it does not know to a helper program.
// Which one, and how, depends on what is installed (seen with util-linux 2.38
// and fuse3 3.14):
//
//	mount -t latchfs DIR MNT            mount.latchfs DIR MNT -o rw
//	mount -t fuse.latchfs DIR MNT       mount.fuse.latchfs DIR MNT -o rw
//	... without mount.fuse.latchfs      latchfs DIR MNT -o rw,dev,suid   (from mount.fuse)
//	mount -t fuse latchfs#DIR MNT       latchfs DIR MNT -o rw,dev,suid   (from mount.fuse)
//
// The general form is `DIR MNT [-sfnv] [-N namespace] [-o options] [-t type]`
// (mount(8), "External helpers").

// Exit codes of a mount helper (mount(8), "Exit status").
const (
	helperUsage   = 1
	helperFailure = 32
)

// helperNames are the names under which mount(8) calls the program.
var helperNames = []string{"mount.latchfs", "mount.fuse.latchfs"}

// helperCall is what mount(8) asks for.
type helperCall struct {
	dir, mountpoint string
	options         []string // each as OPT or OPT=VALUE
	fake            bool     // -f: do everything but mount
	sloppy          bool     // -s: tolerate unknown options
	verbose         bool     // -v
	err             error    // the call could not be understood
}

// asHelper recognizes a call by mount(8) or mount.fuse. The latter calls the
// program by its own name; then the first argument is the path of a directory
// where a subcommand would be, and options follow. fstab has only absolute
// paths, and no subcommand contains a slash.
func asHelper(argv []string) (helperCall, bool) {
	name := filepath.Base(argv[0])
	for _, h := range helperNames {
		if name == h {
			return parseHelper(argv[1:]), true
		}
	}
	if len(argv) > 2 && strings.HasPrefix(argv[1], "/") {
		return parseHelper(argv[1:]), true
	}
	return helperCall{}, false
}

// parseHelper reads the arguments after the program's name.
func parseHelper(args []string) helperCall {
	var c helperCall
	var paths []string
	fail := func(format string, a ...any) helperCall {
		c.err = usagef(format, a...)
		return c
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if len(arg) < 2 || arg[0] != '-' {
			paths = append(paths, arg)
			continue
		}
		for rest := arg[1:]; rest != ""; {
			flag := rest[0]
			rest = rest[1:]
			switch flag {
			case 'f':
				c.fake = true
			case 's':
				c.sloppy = true
			case 'v':
				c.verbose = true
			case 'n': // no mtab: nothing to leave out
			case 'o', 't', 'N': // with a value, attached or as the next argument
				if rest == "" {
					if len(args) == 0 {
						return fail("-%c needs a value", flag)
					}
					rest, args = args[0], args[1:]
				}
				if flag == 'o' {
					c.options = append(c.options, splitOptions(rest)...)
				}
				// -t repeats our type, -N is a namespace that mount(8) has
				// entered already.
				rest = ""
			default:
				return fail("unknown flag -%c", flag)
			}
		}
	}
	if len(paths) != 2 {
		return fail("want a data directory and a mount point, got %d paths", len(paths))
	}
	c.dir, c.mountpoint = paths[0], paths[1]
	return c
}

// mountArgs is the same request as arguments of `latchfs mount`.
func (c helperCall) mountArgs() ([]string, error) {
	if c.err != nil {
		return nil, c.err
	}
	args := []string{"mount"}
	if c.verbose {
		args = append(args, "--log-level=info")
	}
	for _, o := range c.options {
		flag, known, err := translateOption(o)
		switch {
		case err != nil:
			return nil, err
		case !known && !c.sloppy:
			return nil, usagef("unknown mount option %q", o)
		case flag != "":
			args = append(args, flag)
		}
	}
	return append(args, "--", c.dir, c.mountpoint), nil
}

// runHelper serves one call by mount(8).
func runHelper(c helperCall, stdout, stderr io.Writer) int {
	args, err := c.mountArgs()
	if err != nil {
		fmt.Fprintf(stderr, "mount.latchfs: %v\n", err)
		fmt.Fprintln(stderr, "usage: mount.latchfs DIR MOUNTPOINT [-sfnv] [-o options]")
		return helperUsage
	}
	for _, o := range c.options {
		if inVain(o) {
			fmt.Fprintf(stderr, "mount.latchfs: warning: mount option %q has no effect: it is up to the filesystem below, as that is mounted\n", o)
		}
	}
	if c.fake {
		return exitOK
	}
	switch execute(args, stdout, stderr) {
	case exitOK:
		return exitOK
	case exitUsage:
		return helperUsage
	default:
		return helperFailure
	}
}
