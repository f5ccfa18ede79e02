package integration

import (
	"fmt"
	"os/exec"
	"strings"
)

// longName is a name of n bytes.
func longName(n int) string { return strings.Repeat("n", n) }

// runBriefly runs a command in the directory under test and sums up its end.
func runBriefly(p *probe, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return errnoName(err)
	}
	return fmt.Sprintf("%q, %s", strings.ReplaceAll(string(out), p.dir, "DIR"), cmd.ProcessState)
}
