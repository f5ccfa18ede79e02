package integration

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A claim on a directory keeps new writers of live files out, too, and lets
// those go on who are at work (requirements B2 and B5).
func TestGuardKeepsWritersOfLiveFilesOut(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("beads")
		m.WriteFile("beads/issues.db", "data")
		early := m.Client(t)
		fd := early.Open("beads/issues.db", unix.O_RDWR)
		claim := m.LaunchBash(t, `exec 9<>.locks/control
echo '{"op":"acquire","trees":["beads"],"operation":"sync"}' >&9
read -r reply <&9; echo "${reply:0:10}"
read -r _; echo own >> beads/issues.db; echo written
read -r _`)
		claim.AwaitLine(`{"ok":true`)
		early.Write(fd, "more")
		opens := m.Client(t).GoOpen("beads/issues.db", unix.O_RDWR)
		creates := m.Client(t).GoOpen("beads/new.log", unix.O_WRONLY|unix.O_CREAT)
		opens.MustBlock(t)
		creates.MustBlock(t)
		if got := m.ReadFile("beads/issues.db"); got != "more" {
			t.Errorf("a reader finds %q", got)
		}
		claim.Send("")
		claim.AwaitLine("written")
		claim.Kill()
		opens.OK()
		creates.OK()
		early.MustClose(fd)
	})
}
