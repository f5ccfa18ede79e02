package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// syncedWriters begins to write several files anew, syncs each, says so, and closes none.
const syncedWriters = `
import os, sys
os.umask(0o077)
for path in ("f", "linked", "g", "new", "dir/new"):
    flags = os.O_CREAT if path.endswith("new") else os.O_TRUNC
    fd = os.open(path, os.O_WRONLY | flags, 0o600)
    os.write(fd, b"synced " + path.encode())
    os.fsync(fd)
    if path == "g":
        os.write(fd, b", and more")
os.open("unsynced", os.O_WRONLY | os.O_CREAT)
print("ready", flush=True)
sys.stdin.readline()
`

// makeSynced makes the files that are to be written.
func makeSynced(t *testing.T, m *Mount) {
	t.Helper()
	m.Mkdir("dir")
	for _, name := range []string{"f", "linked", "g"} {
		m.WriteFile(name, "old "+name)
	}
	m.LaunchBash(t, "chmod 600 f g linked; ln linked other").OK()
}

// checkSynced looks for what it had synced, after the next start.
func checkSynced(t *testing.T, m *Mount) {
	t.Helper()
	for _, name := range []string{"new", "dir/new"} {
		st, err := os.Stat(filepath.Join(m.Data, name))
		if got := m.ReadFile(name); err != nil || got != "synced "+name || st.Mode().Perm() != 0o600 {
			t.Errorf("%s holds %q: %v", name, got, err)
		}
		if events := m.EventsOf("recovery", name); len(events) != 1 || !strings.Contains(events[0].Reason, "it appears as its writer had synced it") {
			t.Errorf("of %s: %+v", name, events)
		}
	}
	if slices.Contains(m.List(""), "unsynced") {
		t.Error("a new file that nobody has synced has appeared")
	}
	for _, name := range []string{"f", "linked", "g"} {
		if got := m.ReadFile(name); got != "old "+name {
			t.Errorf("%s holds %q", name, got)
		}
		events := m.EventsOf("recovery", name)
		if name == "linked" { // by either of its names
			events = append(events, m.EventsOf("recovery", "other")...)
		}
		if len(events) != 1 {
			t.Errorf("of %s: %+v", name, events)
			continue
		}
		at := filepath.Join("rejected", events[0].Kept)
		if got := m.Locks(at + "/content"); !strings.HasPrefix(got, "synced "+name) {
			t.Errorf("of %s %q is kept: %+v", name, got, events[0])
		}
		if meta := m.Locks(at + "/meta.json"); !strings.Contains(meta, `"path": "`+events[0].Path+`"`) {
			t.Errorf("of %s: %s", name, meta)
		}
		if m.UID == 0 {
			if got, err := m.runAs(t, ordinaryUID, "cat", m.Path(".locks/"+at+"/content")); err == nil {
				t.Errorf("another user may read %q, of %s", got, name)
			}
		}
	}
}

// The daemon is killed when fsyncs were acknowledged and the files are open still. What was
// synced is in a new file, and beside an existing one.
func TestSyncedBytesSurviveTheDaemon(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		makeSynced(t, m)
		p := m.LaunchPython(t, syncedWriters)
		p.AwaitLine("ready")
		m.Crash(t)
		p.Kill()
		m.Start(t)
		checkSynced(t, m)
	})
}

// The daemon is stopped then.
func TestSyncedBytesSurviveAStop(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		makeSynced(t, m)
		p := m.LaunchPython(t, syncedWriters)
		p.AwaitLine("ready")
		m.terminate(t, syscall.SIGTERM)
		m.awaitEnd(t, patience)
		p.Kill()
		for _, name := range []string{"new", "dir/new"} {
			if got := m.under(t, name); got != "synced "+name {
				t.Errorf("%s holds %q", name, got)
			}
		}
		m.Start(t)
		for _, name := range []string{"f", "g"} {
			events := m.EventsOf("rollback", name)
			if len(events) != 1 || m.under(t, name) != "old "+name {
				t.Fatalf("%s holds %q: %+v", name, m.under(t, name), events)
			}
			if got := m.Locks(filepath.Join("rejected", events[0].Kept, "content")); !strings.HasPrefix(got, "synced "+name) {
				t.Errorf("of %s %q is kept", name, got)
			}
		}
	}, withArgs("--grace", "50ms"))
}

// The power is cut then.
func TestPowerCutAfterFsync(t *testing.T) {
	needsLatchfs(t)
	forEachDisk(t, func(t *testing.T, d *powerDisk) {
		m := mount(t, onPower(d))
		makeSynced(t, m)
		syncDisk(t, m)
		p := m.LaunchPython(t, syncedWriters)
		p.AwaitLine("ready")
		must(t, d.snapshot())
		m.Crash(t)
		p.Kill()
		m.detach()
		d.restart(t)
		m.Start(t)
		checkSynced(t, m)
		m.awaitSwept(t)
	})
}
