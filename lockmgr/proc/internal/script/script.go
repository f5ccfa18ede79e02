// Package script finds what an interpreter runs by its arguments: the absolute path of the
// script; "-m MODULE"; "-c HASH" for code among the arguments; "-" for code on standard
// input. Of a program of many names in one file (busybox) it is the name. The answer is
// the same for every process that runs the same, and across restarts.
//
// The package is pure, and has no state: nothing is opened, and whether the script exists
// is not looked at. Options are read as the interpreter reads them as far as that decides
// where its script comes; those of interpreters that are not known are not read at all.
package script

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
)

// interpreter says how the arguments of one are read until its script comes.
type interpreter struct {
	names   []string // of executables; a version may follow: python3.13
	code    string   // option letters that are followed by code
	module  string   // option letters that are followed by a module's name
	takes   string   // option letters that are followed by anything else
	words   []string // long options that are followed by code
	wordArg []string // long options that are followed by anything else
}

var interpreters = []interpreter{
	{names: []string{"python", "pypy"}, code: "c", module: "m", takes: "WX"},
	{names: []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "fish"}, code: "c", takes: "oO", wordArg: []string{"--rcfile", "--init-file"}},
	{names: []string{"perl", "ruby"}, code: "eE", takes: "I"},
	{names: []string{"node", "nodejs", "bun", "deno"}, code: "ep", takes: "rC", words: []string{"--eval", "--print"}, wordArg: []string{"--require", "--import", "--loader"}},
	{names: []string{"php"}, code: "r", takes: "cdz"},
	{names: []string{"lua", "luajit"}, code: "e", takes: "l"},
	{names: []string{"tclsh", "Rscript", "guile"}},
}

// interpreterOf finds the interpreter that an executable is.
func interpreterOf(exe string) *interpreter {
	name := strings.TrimRight(exe, "0123456789.-")
	for i := range interpreters {
		for _, n := range interpreters[i].names {
			if name == n {
				return &interpreters[i]
			}
		}
	}
	return nil
}

// Of finds the script among the arguments of a program, the first of which is its own
// name. exe is the name of the executable, without its directory; cwd is asked for the
// working directory where that is needed, and answers "" where it does not know. The
// answer is "" for what is not a known interpreter.
func Of(exe string, args []string, cwd func() string) string {
	if len(args) == 0 {
		return ""
	}
	if exe == "busybox" {
		return path.Base(args[0])
	}
	in := interpreterOf(exe)
	if in == nil {
		return ""
	}
	for args = args[1:]; len(args) > 0; args = args[1:] {
		arg := args[0]
		switch {
		case arg == "--" && len(args) > 1:
			return absolute(args[1], cwd)
		case arg == "-" || arg == "--":
			return "-"
		case !strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "+"):
			return absolute(arg, cwd)
		}
		script, skips := in.option(arg, args[1:])
		if script != "" {
			return script
		}
		if skips && len(args) > 1 {
			args = args[1:]
		}
	}
	return "-"
}

// option reads one option. It returns the script where that is what the option
// says, and whether the argument after it belongs to it.
func (in *interpreter) option(arg string, rest []string) (script string, skips bool) {
	next := func(glued string) string {
		if glued == "" && len(rest) > 0 {
			return rest[0]
		}
		return glued
	}
	if strings.HasPrefix(arg, "--") {
		name, value, glued := strings.Cut(arg, "=")
		for _, w := range in.words {
			if w == name {
				return codeName(next(value)), false
			}
		}
		for _, w := range in.wordArg {
			if w == name {
				return "", !glued
			}
		}
		return "", false
	}
	for i := 1; i < len(arg); i++ {
		letter, glued := arg[i:i+1], arg[i+1:]
		switch {
		case strings.Contains(in.code, letter):
			return codeName(next(in.glued(glued))), false
		case strings.Contains(in.module, letter):
			return "-m " + next(glued), false
		case strings.Contains(in.takes, letter):
			return "", glued == ""
		}
	}
	return "", false
}

// glued is what stands right behind the letter for code: for python and its like
// that is the code, for a shell it is more options.
func (in *interpreter) glued(s string) string {
	if in.names[0] == "sh" {
		return ""
	}
	return s
}

// codeName stands for code that has no name.
func codeName(code string) string {
	sum := sha256.Sum256([]byte(code))
	return "-c " + hex.EncodeToString(sum[:4])
}

// absolute is a script's path from the working directory, as it is now.
func absolute(script string, cwd func() string) string {
	if path.IsAbs(script) {
		return path.Clean(script)
	}
	if dir := cwd(); dir != "" {
		return path.Join(dir, script)
	}
	return script
}
