package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// opener opens journals of one state directory and leaves them to crash.
type opener struct {
	t    testing.TB
	dir  *os.File
	opts Options
}

func newOpener(t testing.TB) *opener {
	t.Helper()
	return openerAt(t, t.TempDir())
}

func openerAt(t testing.TB, path string) *opener {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return &opener{t: t, dir: dir}
}

func (o *opener) open() *Journal {
	o.t.Helper()
	j, err := Open(o.dir, o.opts)
	if err != nil {
		o.t.Fatal(err)
	}
	return j
}

func (o *opener) path(name string) string { return filepath.Join(o.dir.Name(), name) }

// files returns the content of every file of the directory.
func (o *opener) files() map[string]string {
	o.t.Helper()
	entries, err := os.ReadDir(o.dir.Name())
	if err != nil {
		o.t.Fatal(err)
	}
	m := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(o.path(e.Name()))
		if err != nil {
			o.t.Fatal(err)
		}
		m[e.Name()] = string(b)
	}
	return m
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ids(intents []Intent) []uint64 {
	var ids []uint64
	for _, in := range intents {
		ids = append(ids, in.ID)
	}
	return ids
}

var fullIntent = Intent{
	Kind: KindInPlace, Dir: "a/\xff\xfe b", Name: "new\nline \u2028 <&> \x80", ShadowDir: "c\x01", Shadow: ".latchfs-1",
	InState: true, Token: 1 << 63, TargetDev: 8, TargetIno: 9, TargetBirth: -5, Meta: true, Mode: -1, UID: 0, GID: 12,
	ShadowIno: 10, Keep: "00ff", Size: 11, Sums: "\x00\xff>?",
}

var appendIntent = Intent{
	Kind: KindAppend, Dir: "logs", ShadowDir: "logs", Name: "app.\xfflog", TargetDev: 8, TargetIno: 11, TargetBirth: 5, Size: 100, Epoch: "boot/7",
}

func TestPendingSurvivesReopening(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	var want []Intent
	for i := range 5 {
		in := fullIntent
		in.Name += fmt.Sprint(i)
		id := must[uint64](t)(j.Begin(in))
		if i%2 == 0 {
			in.ID = id
			want = append(want, in)
		} else {
			check(t, j.Done(id))
		}
	}
	if got := j.Pending(); len(got) != 0 {
		t.Errorf("Pending reports intents of this run: %v", got)
	}
	for round := range 3 { // crash, crash, clean stop: the same each time
		if round == 2 {
			check(t, j.Close())
		}
		j = o.open()
		if diff := cmp.Diff(want, j.Pending()); diff != "" {
			t.Fatalf("round %d: %s", round, diff)
		}
	}
	check(t, j.Done(want[0].ID))
	check(t, j.Done(want[0].ID)) // idempotent
	check(t, j.Done(4711))       // unknown
	if diff := cmp.Diff(want[1:], j.Pending()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[1:], o.open().Pending()); diff != "" {
		t.Error(diff)
	}
}

func TestIDsAreNotReusedWhilePending(t *testing.T) {
	o := newOpener(t)
	first := must[uint64](t)(o.open().Begin(Intent{Kind: KindShadow}))
	second := must[uint64](t)(o.open().Begin(Intent{Kind: KindShadow}))
	if first == second {
		t.Errorf("id %d given twice", first)
	}
}

func TestTokensRiseAcrossCrashes(t *testing.T) {
	o := newOpener(t)
	o.opts.MaxBytes = 256 // rotates all the time
	var last uint64
	for range 5 {
		j := o.open()
		if j.LastToken() != last {
			t.Fatalf("LastToken is %d, issued up to %d", j.LastToken(), last)
		}
		for range 20 {
			first := must[uint64](t)(j.ReserveTokens(100))
			if first != last+1 {
				t.Fatalf("block begins at %d after %d", first, last)
			}
			last = first + 99
		}
	}
}

func TestReserveTokensIsSynced(t *testing.T) {
	j := newOpener(t).open()
	syncs := countSyncs(j)
	must[uint64](t)(j.ReserveTokens(1000))
	if *syncs != 1 {
		t.Errorf("%d syncs for a block of tokens, want 1", *syncs)
	}
}

func TestBeginAndDoneAreNotSynced(t *testing.T) {
	j := newOpener(t).open()
	syncs := countSyncs(j)
	check(t, j.Done(must[uint64](t)(j.Begin(fullIntent))))
	if *syncs != 0 {
		t.Errorf("%d syncs, want none", *syncs)
	}
	check(t, j.Sync())
	check(t, j.Sync()) // nothing new
	if *syncs != 1 {
		t.Errorf("%d syncs, want 1", *syncs)
	}
}

func countSyncs(j *Journal) *int {
	n, real := new(int), j.datasync
	j.datasync = func(f *os.File) error { *n++; return real(f) }
	return n
}

func TestCleanMarker(t *testing.T) {
	o := newOpener(t)
	clean := func(want bool) *Journal {
		t.Helper()
		j := o.open()
		if j.Clean() != want {
			t.Fatalf("Clean() = %v, want %v", j.Clean(), want)
		}
		return j
	}
	check(t, clean(true).Close()) // a new journal
	clean(true)                   // crashes
	check(t, clean(false).Close())
	// It stopped, but nobody has looked at what the crash left.
	j := clean(false)
	check(t, j.Settle())
	check(t, j.Close())
	check(t, clean(true).Close())
}

// A clean stop leaves no record of what is finished, which an earlier version may not know,
// and all that is not.
func TestCloseForgetsWhatIsFinished(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	first := must[uint64](t)(j.Begin(fullIntent))
	open := must[uint64](t)(j.Begin(appendIntent))
	must[uint64](t)(j.ReserveTokens(10))
	check(t, j.Done(first))
	check(t, j.Close())
	files := o.files()
	if len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
	for name, b := range files {
		if strings.Contains(b, fullIntent.Keep) || !strings.Contains(b, appendIntent.Epoch) {
			t.Errorf("%s holds %q", name, b)
		}
	}
	j = o.open()
	if p := j.Pending(); !j.Clean() || j.LastToken() != 10 || len(p) != 1 || p[0].ID != open {
		t.Errorf("clean %v, last token %d, pending %v", j.Clean(), j.LastToken(), p)
	}
	if id := must[uint64](t)(j.Begin(fullIntent)); id <= open {
		t.Errorf("the next intent is %d after %d", id, open)
	}
}

// Where there is no room for a new beginning a clean stop is one in the old segment.
func TestCloseWithoutRoom(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	check(t, j.Done(must[uint64](t)(j.Begin(fullIntent))))
	if err := os.Mkdir(o.path(newSegment), 0o700); err != nil {
		t.Fatal(err)
	}
	check(t, j.Close())
	if err := os.Remove(o.path(newSegment)); err != nil {
		t.Fatal(err)
	}
	if !o.open().Clean() {
		t.Error("the stop was not clean")
	}
}

func TestClosed(t *testing.T) {
	j := newOpener(t).open()
	check(t, j.Close())
	check(t, j.Close())
	if _, err := j.Begin(fullIntent); !errors.Is(err, ErrClosed) {
		t.Errorf("Begin after Close: %v", err)
	}
	if err := j.Sync(); !errors.Is(err, ErrClosed) {
		t.Errorf("Sync after Close: %v", err)
	}
}

func TestRotationBoundsTheJournalAndCarriesIntents(t *testing.T) {
	o := newOpener(t)
	o.opts.MaxBytes = 4 << 10
	j := o.open()
	var want []uint64
	for i := range 2000 {
		id := must[uint64](t)(j.Begin(fullIntent))
		if i%400 == 0 {
			want = append(want, id)
			continue
		}
		check(t, j.Done(id))
	}
	files := o.files()
	if len(files) != 1 {
		t.Errorf("%d files, want one segment", len(files))
	}
	for name, content := range files {
		if len(content) > 8<<10 {
			t.Errorf("%s has %d bytes", name, len(content))
		}
	}
	if got := ids(o.open().Pending()); !slices.Equal(got, want) {
		t.Errorf("pending %v, want %v", got, want)
	}
}

func TestCrashWhileRotating(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	must[uint64](t)(j.Begin(fullIntent))
	before := o.files()
	want := ids(o.open().Pending())
	after := o.files()
	var old string
	for name, content := range before {
		if _, ok := after[name]; !ok {
			old = name
			check(t, os.WriteFile(o.path(name), []byte(content), 0o600)) // not removed yet
		}
	}
	if old == "" {
		t.Fatal("no rotation")
	}
	check(t, os.WriteFile(o.path(newSegment), []byte("half a segm"), 0o600))
	if got := ids(o.open().Pending()); !slices.Equal(got, want) {
		t.Errorf("pending %v, want %v", got, want)
	}
	files := o.files()
	if _, ok := files[old]; ok || len(files) != 1 {
		t.Errorf("left behind: %d files", len(files))
	}
}

// A segment that cannot get its name takes no space on: on a full disk that is wanted.
func TestRotationWithoutANameLeavesNothing(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	begun := must[uint64](t)(j.Begin(fullIntent))
	next := o.path(segmentName(j.seg.number + 1))
	check(t, os.Mkdir(next, 0o700))
	j.mu.Lock()
	err := j.rotateLocked()
	j.mu.Unlock()
	if err == nil {
		t.Error("it got its name")
	}
	if _, err := os.Lstat(o.path(newSegment)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", newSegment, err)
	}
	check(t, os.Remove(next))
	check(t, j.Done(begun))
}

func TestRotationThatFailsIsPutOff(t *testing.T) {
	o := newOpener(t)
	o.opts.MaxBytes = 1 << 10
	j := o.open()
	check(t, os.Mkdir(o.path(newSegment), 0o700)) // nobody can make a segment
	var want []uint64
	for range 20 {
		want = append(want, must[uint64](t)(j.Begin(fullIntent)))
	}
	check(t, os.Remove(o.path(newSegment)))
	if got := ids(o.open().Pending()); !slices.Equal(got, want) {
		t.Errorf("pending %v, want %v", got, want)
	}
}

func TestFailedWriteLeavesNoTrace(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	first := must[uint64](t)(j.Begin(fullIntent))
	good := j.seg.file
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	check(t, err)
	defer full.Close()
	j.seg.file = full
	if _, err := j.Begin(fullIntent); err == nil {
		t.Fatal("Begin on a full disk succeeded")
	}
	if err := j.Done(first); err == nil {
		t.Fatal("Done on a full disk succeeded")
	}
	j.seg.file = good
	second := must[uint64](t)(j.Begin(fullIntent))
	if got, want := ids(o.open().Pending()), []uint64{first, second}; !slices.Equal(got, want) {
		t.Errorf("pending %v, want %v", got, want)
	}
}

func TestFailedSyncReplacesTheSegment(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	id := must[uint64](t)(j.Begin(fullIntent))
	real := j.datasync
	j.datasync = func(*os.File) error { return errors.New("injected") }
	name := j.seg.name
	check(t, os.Mkdir(o.path(newSegment), 0o700)) // nor can one be made
	if err := j.Sync(); err == nil {
		t.Fatal("Sync succeeded")
	}
	if _, err := j.Begin(fullIntent); err == nil {
		t.Fatal("a segment that cannot be trusted was written")
	}
	check(t, os.Remove(o.path(newSegment)))
	check(t, j.Sync())
	j.datasync = real
	if j.seg.name == name {
		t.Error("the segment that could not be synced is still in use")
	}
	if got := ids(o.open().Pending()); !slices.Equal(got, []uint64{id}) {
		t.Errorf("pending %v", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	o := newOpener(t)
	o.opts.MaxBytes = 8 << 10
	j := o.open()
	var wg sync.WaitGroup
	var mu sync.Mutex
	tokens := map[uint64]bool{}
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				id, err := j.Begin(fullIntent)
				if err == nil && i%10 == 0 {
					err = j.Sync()
				}
				if err == nil {
					err = j.Done(id)
				}
				if err != nil {
					t.Error(err)
				}
			}
			first, err := j.ReserveTokens(10)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || tokens[first] {
				t.Errorf("tokens from %d: %v", first, err)
			}
			tokens[first] = true
		})
	}
	wg.Wait()
	check(t, j.Close())
	j = o.open()
	if len(j.Pending()) > 0 || !j.Clean() || j.LastToken() != 80 {
		t.Errorf("pending %d, clean %v, last token %d", len(j.Pending()), j.Clean(), j.LastToken())
	}
}
