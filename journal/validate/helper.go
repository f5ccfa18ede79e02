package validate

import (
	"errors"
	"fmt"
	"os"
)

// HelperName is the name under which Options.Helper is called.
const HelperName = "latchfs-validate"

// What a helper is for.
const (
	helperParse = "parse" // FORMAT: it parses its standard input
	helperRun   = "run"   // CONFINEMENT: it becomes a command
)

// notRun is the exit status of a helper that could not become the command, and has
// said why.
const notRun = 199

// Serve is what the main function of Options.Helper begins with: in a process that
// was started as a helper it does not return.
func Serve() {
	if len(os.Args) != 3 || os.Args[0] != HelperName {
		return
	}
	var err error
	switch os.Args[1] {
	case helperParse:
		err = serveParser(Format(os.Args[2]), parseMemory)
	case helperRun:
		err = becomeCommand([]byte(os.Args[2]))
	default:
		err = errors.New("an unknown kind of helper")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(notRun)
	}
	os.Exit(0)
}
