package integration

import (
	"os"
	"testing"
	"time"
)

// What the durability "auto" promises of a power cut (DESIGN §4.3): what replaces a
// version is there, and so is what was new in its directory before; what is new is whole
// or not there, and there if its program has called fsync, or a second has passed. A
// program that saves by itself has what it has synced.
func TestPowerCutUnderAuto(t *testing.T) {
	needsLatchfs(t)
	forEachDisk(t, func(t *testing.T, d *powerDisk) {
		m := mount(t, onPower(d), withPolicy("[defaults]\ndurability = \"auto\"\n"), withFindings("damaged-rejected"))
		for _, dir := range []string{"replaced", "removed", "moved", "new", "synced", "early", "careful", "hasty"} {
			m.Mkdir(dir)
		}
		for _, f := range []string{"replaced/f", "removed/f", "moved/f", "careful/f", "hasty/f"} {
			m.WriteFile(f, "old")
		}
		m.WriteFile("early/log", "one\n")
		m.WriteFile("early/gone", "x")
		syncDisk(t, m)

		m.WriteFile("early/new", "new")
		appendTo(t, m.Path("early/log"), "two\n")
		must(t, os.Remove(m.Path("early/gone")))
		must(t, os.Mkdir(m.Path("early/dir"), 0o755))
		time.Sleep(3 * time.Second) // no event says that a second has passed, and the disk had time

		m.WriteFile("replaced/before", "new")
		m.WriteFile("replaced/f", "new")
		must(t, os.Remove(m.Path("removed/f")))
		m.WriteFile("removed/f", "new") // as tar, install and git save
		must(t, os.Rename(m.Path("moved/f"), m.Path("moved/f~")))
		m.WriteFile("moved/f", "new")
		m.WriteFile("new/f", "new")
		writeSynced(t, m.Path("synced/f"), "new")
		for _, dir := range []string{"hasty", "careful"} { // what is synced last helps nobody else
			writeSynced(t, m.Path(dir+"/temp"), "new")
			must(t, os.Rename(m.Path(dir+"/temp"), m.Path(dir+"/f")))
		}
		dir, err := os.Open(m.Path("careful"))
		must(t, err)
		must(t, dir.Sync())
		must(t, dir.Close())
		powerCut(t, m, d, nil)

		for name, want := range map[string]string{
			"replaced/before": "new", "replaced/f": "new", "removed/f": "new", "moved/f": "new", "synced/f": "new", "careful/f": "new",
			"early/new": "new", "early/log": "one\ntwo\n",
		} {
			if b, err := os.ReadFile(m.Path(name)); err != nil || string(b) != want {
				t.Errorf("%s holds %q, want %q: %v", name, b, want, err)
			}
		}
		if b, err := os.ReadFile(m.Path("new/f")); err == nil && string(b) != "new" {
			t.Errorf("new/f holds %q: it must be whole or not there", b)
		}
		if b, err := os.ReadFile(m.Path("hasty/f")); err != nil || string(b) != "new" && string(b) != "old" {
			t.Errorf("hasty/f holds %q, want one of the two versions: %v", b, err)
		}
		if _, err := os.Stat(m.Path("early/gone")); !os.IsNotExist(err) {
			t.Errorf("what was removed seconds before the cut is there: %v", err)
		}
		if _, err := os.Stat(m.Path("early/dir")); err != nil {
			t.Errorf("what was made seconds before the cut is not there: %v", err)
		}
		m.awaitSwept(t)
	})
}

// writeSynced makes a file, and waits until the disk has it.
func writeSynced(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

// appendTo is what a shell's >> does.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	must(t, f.Close())
}
