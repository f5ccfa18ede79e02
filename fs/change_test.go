package fs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/journal/history"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// What every recorder was told of each operation. Each step is a shell script at the
// mount; what follows is what has become of the histories, of the knowledge of versions,
// of the live files, of the claims of reads and of the lessons, and what was written to
// the audit trail. `go test ./fs -run TestChanges -rewrite` writes it anew.
func TestChanges(t *testing.T) {
	datadriven.Walk(t, "testdata/changes", func(t *testing.T, path string) {
		w := newWatched(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.run(d.Input)
		})
	})
}

// watched is a mounted filesystem whose recorders are looked at.
type watched struct {
	t    *testing.T
	f    *FS
	data string
	at   string
	was  map[string]string // what the recorders held, by recorder and path
	read int64             // of the audit trail
}

func newWatched(t *testing.T) *watched {
	rules, err := policy.Parse("test", []byte(`
[defaults]
lost-update = "warn"
[[rule]]
glob = "claims/**"
lost-update = "serialize"
[[rule]]
glob = "lessons/**"
lost-update = "adaptive"
[[rule]]
glob = "*.live"
mode = "live"
`))
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{t: t, data: t.TempDir(), at: t.TempDir()}
	f, m := mounted(t, Options{Dir: w.data, Mountpoint: w.at, Policy: rules, Log: quiet{}})
	t.Cleanup(func() {
		// A stop does not wait for mount namespaces that were made meanwhile.
		if err := m.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.f = f
	w.was = w.recorded()
	w.audited()
	return w
}

// run runs a script at the mount and says what the recorders hold now that they did not
// hold before, and what is in the audit trail.
func (w *watched) run(script string) string {
	w.t.Helper()
	out, err := exec.Command("sh", "-c", "cd "+w.at+"\n"+script).CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", out)
		w.t.Fatalf("%s: %v", script, err)
	}
	w.settle()
	is := w.recorded()
	var b strings.Builder
	b.Write(out)
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if is[key] != w.was[key] {
			fmt.Fprintf(&b, "%s: %s\n", key, is[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.was)) {
		if _, still := is[key]; !still {
			fmt.Fprintf(&b, "%s: nothing\n", key)
		}
	}
	w.was = is
	b.WriteString(w.audited())
	return b.String()
}

// settle waits until the kernel has closed everything.
func (w *watched) settle() {
	w.t.Helper()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		w.f.nodes.mu.Lock()
		open := len(w.f.handles.open) + len(w.f.nodes.sessions)
		for _, n := range w.f.nodes.inodes {
			if n.carried && n.liveWriters == 0 { // its last descriptor is closed, and what follows from that not begun
				open++
			}
		}
		w.f.nodes.mu.Unlock()
		if open == 0 {
			w.f.nodes.paths.Lock() // what has begun holds it
			defer w.f.nodes.paths.Unlock()
			return
		}
		if time.Now().After(until) {
			w.t.Fatalf("%d descriptors and sessions stay open", open)
		}
	}
}

// recorded is what the recorders hold.
func (w *watched) recorded() map[string]string {
	w.t.Helper()
	is := map[string]string{}
	h := w.f.view.source.Versions.Store
	for v := range h.All() { // of a path in their order
		is["history "+v.Path] = w.describe(&v, len(slices.Collect(h.NewestOf(v.Path))))
	}
	w.known(is)
	w.f.nodes.mu.Lock()
	w.f.nodes.dentries.All(func(d *dentry) {
		if by := d.State.live; by != notLive {
			is["live "+d.Path()] = map[liveBy]string{liveByUse: "by use", liveByHandle: "by a descriptor"}[by]
		}
	})
	w.f.nodes.mu.Unlock()
	for path, comm := range w.f.locks.readClaims.Paths() {
		is["claim "+path] = "of a read by " + comm
	}
	for _, p := range w.f.losses.lessons.List() {
		name, _, _ := strings.Cut(filepath.Base(p.Name), " ")
		name = strings.TrimRight(name, ".0123456789")
		is["lessons "+name] = fmt.Sprintf("%d reads, %d written back, the last %s", p.Reads, p.Written, cmp.Or(p.Path, "none"))
	}
	return is
}

func (w *watched) describe(v *history.Version, versions int) string {
	s := fmt.Sprintf("%d versions, the last %d %s by %s of %s", versions, v.Number, v.Event, v.Operation, v.Program)
	for _, x := range []struct{ name, value string }{{"from", v.From}, {"to", v.To}} {
		if x.value != "" {
			s += " " + x.name + " " + x.value
		}
	}
	s += fmt.Sprintf(", base %d, %d bytes", v.Base, v.State.Size)
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(w.data, v.Path), &st) == nil && v.State == history.StateOf(&st) {
		s += fmt.Sprintf(", the file, mode %o", v.Rights.Mode)
	}
	return s
}

// known adds what is known of read versions.
func (w *watched) known(is map[string]string) {
	w.t.Helper()
	for key, last := range w.f.rules.knowledge.Versions() {
		path, link := w.named(string(key), last.Stamp)
		s := fmt.Sprintf("version %d", last.Number)
		if by := last.Author; by != (knowledge.Author{}) {
			s += fmt.Sprintf(" by %s of %s", by.Operation, by.Program)
		}
		switch owners := last.Owners(); {
		case len(owners) == 0:
			s += ", nobody's"
		case owners[0].PID != last.Author.PID:
			s += ", another's"
		}
		if last.Added() {
			s += ", added"
		}
		is[link+path] = s + ", " + w.shown(path, last.Stamp)
	}
}

// named is the path of a key, or one of the paths of an inode with several.
func (w *watched) named(key string, stamp knowledge.Stamp) (path, kind string) {
	if !strings.HasPrefix(key, "//") {
		return key, "knowledge "
	}
	var first string
	_ = filepath.WalkDir(w.data, func(p string, _ os.DirEntry, _ error) error {
		var st unix.Stat_t
		if rel, err := filepath.Rel(w.data, p); err == nil && first == "" && unix.Lstat(p, &st) == nil && lostupdate.LinkKey(stampOfFile(&st)) == knowledge.Key(key) &&
			!strings.HasPrefix(rel, ".latchfs") {
			first = rel
		}
		return nil
	})
	if first == "" {
		return "a file that is gone", "inode of "
	}
	return first, "inode of "
}

// shown tells which file a stamp is of.
func (w *watched) shown(path string, stamp knowledge.Stamp) string {
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(w.data, path), &st)
	switch {
	case stamp == (knowledge.Stamp{}) && err == unix.ENOENT:
		return "no file"
	case err == nil && stampOfFile(&st) == stamp:
		return "the file"
	}
	return "another file"
}

// audited is what has been written to the audit trail since it was asked last.
func (w *watched) audited() string {
	w.t.Helper()
	log := w.f.reports.trail.View()
	data, err := io.ReadAll(io.NewSectionReader(log, w.read, log.Size()-w.read))
	if err != nil {
		w.t.Fatal(err)
	}
	w.read += int64(len(data))
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		var ev map[string]any
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "audit %s", ev["event"])
		if path, ok := ev["path"]; ok {
			fmt.Fprintf(&b, " %s", path)
		}
		for _, key := range slices.Sorted(maps.Keys(ev)) {
			switch key {
			case "timestamp", "event", "path", "actor", "uid", "file_uid", "file_gid":
			case "pid", "token", "session":
				fmt.Fprintf(&b, " %s", key)
			default:
				fmt.Fprintf(&b, " %s=%v", key, ev[key])
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
