package locksdir

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"latchfs/fs/report"
)

// keptFiles are the files of an entry in memory.
type keptFiles struct {
	content, meta string
	closed        *int
}

type keptContent struct {
	*strings.Reader
	closed *int
}

func (c keptContent) Close() error { *c.closed++; return nil }

func (k keptFiles) Content() (Content, error) {
	return keptContent{strings.NewReader(k.content), k.closed}, nil
}

func (k keptFiles) Meta() ([]byte, error) {
	if k.meta == "" {
		return nil, syscall.ENOENT
	}
	return []byte(k.meta), nil
}

func kept(id string, uid, gid, mode uint32) Rejected {
	files := keptFiles{content: "bytes of " + id, meta: "{\n  \"path\": \"a\u009b\u202e\"\n}\n", closed: new(int)}
	return Rejected{ID: id, Time: noon, UID: uid, GID: gid, Mode: mode, Size: int64(len(files.content)), Files: files}
}

func rejections() *fakeSource {
	f := newFake()
	f.kept = []Rejected{
		kept("1-private", 1000, 100, 0o600), kept("2-group", 1000, 100, 0o4770), kept("3-public", 1000, 100, 0o755),
		kept("4-notowner", 1000, 100, 0o044), kept("5-nogroup", 1000, 100, 0o604),
	}
	return f
}

func TestWhoSeesRejected(t *testing.T) {
	all := []string{"1-private", "2-group", "3-public", "4-notowner", "5-nogroup"}
	tests := []struct {
		name   string
		viewer report.Viewer
		want   []string
	}{
		{"root", root, all},
		{"the owner", alice, []string{"1-private", "2-group", "3-public", "5-nogroup"}},
		{"the group", report.Viewer{UID: 2000, GIDs: []uint32{7, 100}}, []string{"2-group", "3-public", "4-notowner"}},
		{"a stranger", stranger, []string{"3-public", "4-notowner"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := New(rejections())
			if got := names(t, tree, "rejected", tt.viewer); !slices.Equal(got, tt.want) {
				t.Fatalf("sees %q, want %q", got, tt.want)
			}
			for _, id := range all {
				for _, path := range []string{"rejected/" + id, "rejected/" + id + "/content", "rejected/" + id + "/meta.json"} {
					_, err := tree.Stat(path, tt.viewer)
					_, openErr := tree.Open(path, tt.viewer)
					if slices.Contains(tt.want, id) {
						if err != nil || openErr == syscall.ENOENT {
							t.Errorf("%s: %v, %v", path, err, openErr)
						}
						continue
					}
					wantErrno(t, "Stat "+path, err, syscall.ENOENT)
					wantErrno(t, "Open "+path, openErr, syscall.ENOENT)
					wantErrno(t, "Remove "+path, tree.Remove(path, tt.viewer), syscall.ENOENT)
				}
			}
		})
	}
}

func TestRejectedEntries(t *testing.T) {
	src := rejections()
	tree := New(src)
	e, err := tree.Stat("rejected/2-group", alice)
	if err != nil || !e.Dir || e.Name != "2-group" || e.UID != 1000 || e.GID != 100 || !e.Mtime.Equal(noon) {
		t.Errorf("Stat of the entry = %+v, %v", e, err)
	}
	e, err = tree.Stat("rejected/2-group/content", alice)
	if err != nil || e.Dir || e.Mode != 0o440 || e.UID != 1000 || e.GID != 100 || e.Size != 16 {
		t.Errorf("Stat of the content = %+v, %v", e, err)
	}
	if got := string(read(t, tree, "rejected/2-group/content", alice)); got != "bytes of 2-group" {
		t.Errorf("the content is %q", got)
	}
	if closed := src.kept[1].Files.(keptFiles).closed; *closed != 1 {
		t.Errorf("the content was closed %d times", *closed)
	}
	if got := string(read(t, tree, "rejected/2-group/meta.json", alice)); got != "{\n  \"path\": \"a\\u009b\\u202e\"\n}\n" {
		t.Errorf("meta.json is %q", got)
	}
	if got, want := names(t, tree, "rejected/2-group", alice), []string{"content", "meta.json"}; !slices.Equal(got, want) {
		t.Errorf("the entry lists %q, want %q", got, want)
	}
	if src.listed != 0 {
		t.Errorf("all entries were listed %d times for one", src.listed)
	}
}

// With a full disk bytes are kept without meta.json.
func TestRejectedWithoutMeta(t *testing.T) {
	src := newFake()
	src.kept = []Rejected{kept("1", 1000, 100, 0o600)}
	src.kept[0].Files = keptFiles{content: "x", closed: new(int)}
	tree := New(src)
	if got, want := names(t, tree, "rejected/1", alice), []string{"content"}; !slices.Equal(got, want) {
		t.Errorf("the entry lists %q, want %q", got, want)
	}
	_, err := tree.Stat("rejected/1/meta.json", alice)
	wantErrno(t, "Stat meta.json", err, syscall.ENOENT)
	_, err = tree.Open("rejected/1/meta.json", alice)
	wantErrno(t, "Open meta.json", err, syscall.ENOENT)
}

func TestRejectedErrors(t *testing.T) {
	tree := New(rejections())
	for _, path := range []string{"rejected/0", "rejected/3-public/", "rejected/3-public/x", "rejected/3-public/content/x", "rejected//content"} {
		_, err := tree.Stat(path, root)
		wantErrno(t, "Stat "+path, err, syscall.ENOENT)
		_, err = tree.Open(path, root)
		wantErrno(t, "Open "+path, err, syscall.ENOENT)
		_, err = tree.List(path, root)
		wantErrno(t, "List "+path, err, syscall.ENOENT)
		wantErrno(t, "Remove "+path, tree.Remove(path, root), syscall.ENOENT)
	}
	for _, path := range []string{"rejected", "rejected/3-public"} {
		_, err := tree.Open(path, root)
		wantErrno(t, "Open "+path, err, syscall.EISDIR)
		wantErrno(t, "Remove "+path, tree.Remove(path, root), syscall.EISDIR)
	}
	_, err := tree.List("rejected/3-public/content", root)
	wantErrno(t, "List content", err, syscall.ENOTDIR)
	wantErrno(t, "Remove content", tree.Remove("rejected/3-public/content", root), syscall.EPERM)
}

func BenchmarkRejected(b *testing.B) {
	src := newFake()
	for i := range 10_000 {
		src.kept = append(src.kept, kept(fmt.Sprintf("20251121T%09d", i), 1000, 100, 0o644))
	}
	tree := New(src)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tree.List("rejected", alice); err != nil {
			b.Fatal(err)
		}
	}
}
