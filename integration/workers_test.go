package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A mount names the programs that work in the directory from before, and so go past
// it: the shell that called it, and one that has a file open. It does not name those
// that are there for the mount alone.
func TestMountNamesWhoIsInside(t *testing.T) {
	inTest(t)
	needsLatchfs(t)
	needsRoot(t)
	data, _ := newDirs(t)
	if err := os.WriteFile(data+"/f", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	reader := exec.Command("sh", "-c", `exec 5< "$1/f"; echo; exec cat`, "sh", data)
	reader.Dir = "/"
	readerPID, _ := startWaiting(t, reader)
	eventually(t, "the reader is cat", func() bool { return strings.TrimSpace(readProc(readerPID, "comm")) == "cat" })
	shell := exec.Command("bash", "-c", `"$1" mount . 2>&1; echo "shell $$ $?"`, "bash", bench.binary)
	shell.Dir = data
	b, err := shell.CombinedOutput()
	t.Cleanup(func() { latchfs(t, "umount", "--lazy", data) })
	if err != nil {
		t.Fatalf("%v %s", err, b)
	}
	pid := shell.Process.Pid
	for _, want := range []string{fmt.Sprintf("bash[%d]", pid), fmt.Sprintf("cat[%d]", readerPID), "work in " + data + " from before and are not protected", fmt.Sprintf("shell %d 0\n", pid)} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q is not in\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "latchfs[") {
		t.Errorf("it says\n%s", b)
	}
}
