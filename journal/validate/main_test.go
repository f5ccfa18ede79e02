package validate

import (
	"fmt"
	"os"
	"testing"
)

// smallParser is the name under which the test binary is a parser of YAML that may take
// little memory: what parseMemory can hold is parsed for as long as parseCPU lasts.
const smallParser = "small-parser"

const smallMemory = 64 << 20 // bytes

// The test binary is its own helper, and the daemon that is killed.
func TestMain(m *testing.M) {
	Serve()
	if os.Args[0] == smallParser {
		if err := serveParser(YAML, smallMemory); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(notRun)
		}
		os.Exit(0)
	}
	if options, ok := os.LookupEnv(asDaemon); ok {
		serveDaemon(options)
	}
	os.Exit(m.Run())
}
