package integration

import (
	"os"
	"testing"
)

// durableMaker makes files as a program does that wants to know that they are on disk, and
// does what its argument says in between.
const durableMaker = `
import os, sys
def make(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, b"all of " + path.encode())
    os.fsync(fd)
    return fd
def sync():
    fd = os.open("dir", os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
def close(path): os.close(make(path))
exec(sys.argv[1])
sync()
`

// durableWays are what the program does, and what is in its directory after a cut of the
// power: of each way the last fsync is the directory's, and nobody else's helps.
var durableWays = []struct {
	does string
	want map[string]string // "": it is not there; "-": it is, whatever it holds
}{
	{`close("dir/a")`, map[string]string{"dir/a": "all of dir/a"}},
	{`close("dir/a"); sync(); os.unlink("dir/a"); close("dir/a")`, map[string]string{"dir/a": "all of dir/a"}},
	{`[(close("dir/%d" % i), sync()) for i in range(5)]`, map[string]string{"dir/0": "all of dir/0", "dir/4": "all of dir/4"}},
	{`fds = make("dir/a"), make("dir/b"); os.close(fds[0]); os.close(fds[1])`,
		map[string]string{"dir/a": "all of dir/a", "dir/b": "all of dir/b"}},
	{`fd = make("dir/a"); os.write(fd, b" and more"); os.close(fd)`, map[string]string{"dir/a": "all of dir/a and more"}},
	{`fd = make("dir/a"); os.rename("dir/a", "dir/b"); os.close(fd)`, map[string]string{"dir/a": "", "dir/b": "all of dir/a"}},
	{`close("dir/a"); open("dir/new", "w").close()`, map[string]string{"dir/a": "all of dir/a", "dir/new": "-"}},
	{`close("dir/a"); open("dir/live.db", "w").close()`, map[string]string{"dir/a": "all of dir/a", "dir/live.db": "-"}},
	{`fd = make("dir/a"); os.mkdir("dir/made"); os.close(fd)`, map[string]string{"dir/a": "all of dir/a", "dir/made": "-"}},
	{`close("dir/a"); os.link("dir/a", "dir/b")`, map[string]string{"dir/a": "all of dir/a", "dir/b": "all of dir/a"}},
	{`close("dir/a"); sync(); os.rename("dir/a", "dir/b")`, map[string]string{"dir/a": "", "dir/b": "all of dir/a"}},
	{`close("dir/a"); sync(); os.unlink("dir/a")`, map[string]string{"dir/a": ""}},
	{`close("dir/a"); os.chmod("dir", 0o750)`, map[string]string{"dir/a": "all of dir/a", "dir": "-"}},
}

// What a program has made, synced and found on disk by a sync of the directory is there
// after a cut of the power, and so is all else that it has done to the directory.
func TestPowerCutAfterTheSyncOfADirectory(t *testing.T) {
	needsLatchfs(t)
	forEachDisk(t, func(t *testing.T, d *powerDisk) {
		m := mount(t, onPower(d))
		for _, way := range durableWays {
			must(t, os.RemoveAll(m.Path("dir")))
			m.Mkdir("dir")
			syncDisk(t, m)
			m.LaunchPython(t, durableMaker, way.does).OK()
			powerCut(t, m, d, nil)
			for name, want := range way.want {
				switch st, err := os.Stat(m.Path(name)); {
				case want == "" && !os.IsNotExist(err):
					t.Errorf("%s: %s is there: %v", way.does, name, err)
				case want == "":
				case err != nil:
					t.Errorf("%s: %v", way.does, err)
				case name == "dir" && st.Mode().Perm() != 0o750:
					t.Errorf("%s: %v", way.does, st.Mode())
				case want != "-" && m.ReadFile(name) != want:
					t.Errorf("%s: %s holds %q", way.does, name, m.ReadFile(name))
				}
			}
			m.awaitSwept(t)
		}
	})
}
