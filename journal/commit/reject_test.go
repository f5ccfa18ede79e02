package commit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/rejected"
)

func TestReject(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		check(t, os.Chmod(w.path("f"), 0o4754))
		if root(t) {
			check(t, os.Chown(w.path("f"), 12, 34))
			check(t, os.Chmod(w.path("f"), 0o4754))
		}
		var ids []string
		for _, content := range []string{"one", "two"} {
			sh, _ := w.shadowOf("f")
			check(t, unix.Fsetxattr(sh.FD(), "system.posix_acl_access", acl(7, 7, 7, 7, 7), 0))
			overwriteFD(t, sh.FD(), content)
			check(t, unix.Fchmod(sh.FD(), 0o4754))
			ino := statFD(t, sh.FD()).Ino
			id, err := sh.Reject(map[string]any{"path": "f", "reason": "because", "id": "mine"})
			check(t, err)
			check(t, sh.Discard())
			kept := filepath.Join(".latchfs/rejected", id)
			st := w.stat(kept + "/content")
			if w.read(kept+"/content") != content || st.Mode != unix.S_IFREG|0o600 || st.Ino != ino {
				t.Errorf("kept %q, %+v", w.read(kept+"/content"), st)
			}
			var meta map[string]any
			check(t, json.Unmarshal([]byte(w.read(kept+"/meta.json")), &meta))
			file := meta["file"].(map[string]any)
			if meta["id"] != id || meta["path"] != "f" || meta["reason"] != "because" || meta["time"] == nil || file["mode"] != "4754" || file["size"] != 3.0 {
				t.Errorf("meta %v", meta)
			}
			if root(t) && (st.Uid != 12 || st.Gid != 34 || file["uid"] != 12.0 || file["gid"] != 34.0) {
				t.Errorf("owner %d %d, meta %v", st.Uid, st.Gid, meta)
			}
			for _, dir := range []string{".latchfs/rejected", kept} {
				if mode := w.stat(dir).Mode & 0o777; mode != 0o700 {
					t.Errorf("%s has mode %o", dir, mode)
				}
			}
			ids = append(ids, id)
		}
		if ids[0] >= ids[1] {
			t.Errorf("ids do not sort by time: %q", ids)
		}
		if w.read("f") != "old" {
			t.Error("the file has changed")
		}
		w.checkNothingLeft()
	})
}

// On a full disk room is made for what little an entry takes.
func TestRejectDropsBallast(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.restart()
		w.write("f", "old")
		if n := ballast(t, w); n != rejected.BallastCount {
			t.Fatalf("%d files of ballast after a start", n)
		}
		full := map[string]bool{"mkdir": true, "link": true, "meta": true, "rename": true}
		w.s.disk.Fault = func(step string) error {
			if full[step] { // until something is given back
				full[step] = false
				return unix.ENOSPC
			}
			if step == "ballast" {
				return unix.ENOSPC
			}
			return nil
		}
		sh, _ := w.shadowOf("f")
		id, err := sh.Reject(map[string]any{"reason": "because"})
		check(t, errors.Join(err, sh.Discard()))
		kept := ".latchfs/rejected/" + id
		if w.read(kept+"/content") != "old" || !strings.Contains(w.read(kept+"/meta.json"), "because") {
			t.Error("not kept")
		}
		if n := ballast(t, w); n != rejected.BallastCount-4 {
			t.Errorf("%d files of ballast on a full disk", n)
		}
		// The next one that finds room takes new ballast.
		w.s.disk.Fault = nil
		sh, _ = w.shadowOf("f")
		_, err = sh.Reject(nil)
		check(t, errors.Join(err, sh.Discard()))
		if n := ballast(t, w); n != rejected.BallastCount {
			t.Errorf("%d files of ballast", n)
		}
		w.checkNothingLeft()
	})
}

// What has found no room for its name gets it as soon as there is room, at the latest when the
// store is closed: nobody takes the stop for a crash then.
func TestRejectNamesLate(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.restart()
		w.write("f", "old")
		another := func() error {
			sh, _ := w.shadowOf("f")
			_, err := sh.Reject(nil)
			return errors.Join(err, sh.Discard())
		}
		for _, room := range []struct {
			how     string
			come    func() error
			entries int
		}{{"another entry", another, 2}, {"the end", w.s.Close, 1}} { // older ones have been removed for the sake of room
			w.s.disk.Fault = func(step string) error {
				if step == "rename" || step == "ballast" {
					return unix.ENOSPC
				}
				return nil
			}
			sh, _ := w.shadowOf("f")
			if id, err := sh.Reject(map[string]any{"reason": "because"}); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("%s: %q, %v", room.how, id, err)
			}
			check(t, sh.Discard())
			w.s.disk.Fault = nil
			check(t, room.come())
			named, err := filepath.Glob(w.path(".latchfs/rejected/[0-9]*/meta.json"))
			if err != nil || len(named) != room.entries {
				t.Errorf("%s: there are %q, want %d; %v", room.how, named, room.entries, err)
			}
		}
	})
}

func ballast(t *testing.T, w *world) int {
	t.Helper()
	found, err := filepath.Glob(w.path(".latchfs/" + rejected.BallastPrefix + "*"))
	check(t, err)
	return len(found)
}

// What is published belongs to the file: keeping its bytes must not touch it.
func TestRejectAfterPublishCopies(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		sh, base := w.shadowOf("f")
		check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		_, err := sh.Publish(w.publishOptions("f", base))
		check(t, err)
		before := w.stat("f")
		id, err := sh.Reject(nil)
		check(t, err)
		check(t, sh.Discard())
		after := w.stat("f")
		before.Atim, after.Atim, before.Blocks = unix.Timespec{}, unix.Timespec{}, after.Blocks
		if diff := cmp.Diff(before, after); diff != "" {
			t.Error(diff)
		}
		if got := w.read(".latchfs/rejected/" + id + "/content"); got != "new" {
			t.Errorf("kept %q", got)
		}
	})
}

// The state directory may lie on another filesystem than the file.
func TestRejectAcrossFilesystems(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for name, at := range filesystems {
			elsewhere, err := os.MkdirTemp(at, "elsewhere-")
			check(t, err)
			defer os.RemoveAll(elsewhere)
			outer := newWorldAt(t, w, elsewhere)
			outer.sparse("f")
			sh, _ := outer.shadowOf("f")
			id, err := sh.Reject(nil)
			check(t, err)
			kept := openFile(t, w.path(".latchfs/rejected/"+id+"/content"), os.O_RDONLY)
			t.Log(name)
			checkSame(t, sh.FD(), int(kept.Fd()))
			check(t, sh.Discard())
		}
		w.checkNothingLeft()
	})
}
