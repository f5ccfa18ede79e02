// The race detector takes memory that this test would count.

//go:build !race

package validate

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// A parser that takes too much memory says so itself: how a Go program dies to which the
// kernel gives no more depends on where it is.
func TestParserTellsOfItsMemory(t *testing.T) {
	cmd := exec.Command(self)
	cmd.Args = []string{smallParser}
	cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}
	cmd.Stdin = content(t, "["+strings.Repeat("[],", 200_000)+"]")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	if a.Accepted || a.Refusal == nil || a.Refusal.Reason != tooMuchMemory {
		t.Errorf("the answer is %s", out)
	}
}
