package listing

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// visible is what the tests want to see.
func visible(name string) bool { return !strings.HasPrefix(name, ".latchfs") && !IsDots(name) }

// dirent64 encodes one linux_dirent64 record.
func dirent64(ino uint64, kind byte, name string) []byte {
	b := make([]byte, (19+len(name)+1+7)&^7)
	binary.NativeEndian.PutUint64(b, ino)
	binary.NativeEndian.PutUint16(b[16:], uint16(len(b)))
	b[18] = kind
	copy(b[19:], name)
	return b
}

func TestParseDirents(t *testing.T) {
	buf := slices.Concat(
		dirent64(7, unix.DT_REG, "plain"),
		dirent64(8, unix.DT_REG, ".latchfs-0123"),
		dirent64(9, unix.DT_DIR, ".latchfs"),
		dirent64(10, unix.DT_LNK, "\xff\n"),
	)
	got := parse(nil, buf, visible)
	want := []Entry{{Name: "plain", Ino: 7, Kind: unix.S_IFREG}, {Name: "\xff\n", Ino: 10, Kind: unix.S_IFLNK}}
	if !slices.Equal(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for _, cut := range []int{1, 19, 20, len(buf) - 1} {
		if got := parse(nil, buf[:cut], visible); len(got) > 1 {
			t.Errorf("of %d bytes: %+v", cut, got)
		}
	}
}

func FuzzParseDirents(f *testing.F) {
	f.Add(slices.Concat(dirent64(1, unix.DT_REG, "a"), dirent64(2, unix.DT_DIR, "bb")))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range parse(nil, b, visible) {
			if slices.Contains([]byte(e.Name), 0) {
				t.Fatalf("name %q holds a NUL", e.Name)
			}
		}
	})
}

// A stage has a stream over a real directory, and counts how often that is read.
type stage struct {
	t       *testing.T
	dir     string
	stream  *Stream
	reads   int
	fails   error
	padding int           // how much longer the names are than they are
	used    map[int64]int // by user
	limit   int
}

func onStage(t *testing.T, names ...string) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), used: map[int64]int{}, limit: 1 << 30}
	for _, name := range names {
		s.write(name)
	}
	fd, err := unix.Open(s.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.stream = NewStream(fd, 7, s)
	return s
}

func (s *stage) write(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// Entries implements Dir.
func (s *stage) Entries(fd int) ([]Entry, error) {
	s.reads++
	if s.fails != nil {
		return nil, s.fails
	}
	list, err := Read(fd, visible)
	for i := range list {
		list[i].Name += strings.Repeat("x", s.padding)
	}
	return list, err
}

// Take implements Book.
func (s *stage) Take(uid uint32, n int64) bool {
	if s.used[int64(uid)]+int(n) > s.limit {
		return false
	}
	s.used[int64(uid)] += int(n)
	return true
}

// Give implements Book.
func (s *stage) Give(uid uint32, n int64) { s.used[int64(uid)] -= int(n) }

// want reads from an offset, and compares how many names there are, how often the directory
// has been read, and what the user pays.
func (s *stage) want(offset uint64, names, reads, used int) {
	s.t.Helper()
	list, err := s.stream.List(offset, s)
	if err != nil || len(list) != names || s.reads != reads || s.used[7] != used {
		s.t.Errorf("from %d: %d names, %v, read %d times, %d paid", offset, len(list), err, s.reads, s.used[7])
	}
}

// What was read stays as it is until the directory is rewound.
func TestStream(t *testing.T) {
	s := onStage(t, "a", "b", "c", ".latchfs-x")
	s.want(0, 3, 1, 3*65)
	s.write("dd")
	s.want(1, 3, 1, 3*65)
	s.want(3, 0, 1, 3*65)
	s.want(9, 0, 1, 3*65)
	s.want(0, 4, 2, 3*65+66)
	s.want(3, 4, 2, 3*65+66)
	s.stream.Close()
	if s.used[7] != 0 || len(s.used) != 1 {
		t.Errorf("closed, and paid for: %v", s.used)
	}
}

// A stream that is read from the middle first reads the directory, too: seekdir(3).
func TestStreamFromTheMiddle(t *testing.T) {
	s := onStage(t, "a", "b", "c")
	s.want(2, 3, 1, 3*65)
	s.stream.Close()
}

// A long listing is forgotten at its end, and read again by whoever goes back.
func TestLongListing(t *testing.T) {
	s := onStage(t, "a", "b")
	s.padding = kept / 2
	cost := 2 * (65 + kept/2)
	s.want(0, 2, 1, cost)
	s.want(1, 2, 1, cost)
	s.want(2, 0, 1, 0)
	s.want(2, 0, 1, 0)
	s.want(1, 2, 2, cost)
	s.padding = kept/2 - 65
	s.want(0, 2, 3, kept)
	s.want(2, 0, 3, kept)
}

func TestListingThatCostsTooMuch(t *testing.T) {
	s := onStage(t, "a", "b")
	s.want(0, 2, 1, 130)
	s.limit = 100
	if _, err := s.stream.List(0, s); err != unix.ENOMEM || s.used[7] != 0 {
		t.Errorf("%v, and %d are paid", err, s.used[7])
	}
	s.limit = 130
	s.want(0, 2, 3, 130)
}

func TestListingThatFails(t *testing.T) {
	s := onStage(t, "a", "b")
	s.want(0, 2, 1, 130)
	s.fails = errors.New("no")
	if _, err := s.stream.List(0, s); err != s.fails {
		t.Error(err)
	}
	s.want(1, 2, 2, 130) // what was read is there
	if err := s.stream.Do(unix.Fsync); err != nil {
		t.Error(err)
	}
	if err := s.stream.Do(func(int) error { return s.fails }); err != s.fails {
		t.Error(err)
	}
	s.stream.Close()
	another, err := unix.Open(s.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // by the same number
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(another)
	if _, err := s.stream.List(0, s); err != unix.EBADF {
		t.Errorf("closed: %v", err)
	}
	if err := s.stream.Do(unix.Fsync); err != unix.EBADF {
		t.Errorf("closed: %v", err)
	}
}

// A directory has more names than one call of the kernel's tells.
func TestReadMany(t *testing.T) {
	dir := t.TempDir()
	const many = 1300
	for i := range many {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("n", 40)+string(rune('a'+i%26))+string(rune('A'+i/26%26))+string(rune('a'+i/676))), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	list, err := Read(fd, visible)
	if err != nil || len(list) != many+1 {
		t.Fatalf("%d names, %v", len(list), err)
	}
	kinds := map[uint32]int{}
	for _, e := range list {
		kinds[e.Kind]++
	}
	if kinds[unix.S_IFREG] != many || kinds[unix.S_IFDIR] != 1 {
		t.Errorf("kinds: %v", kinds)
	}
	if _, err := Read(-1, visible); err != unix.EBADF {
		t.Errorf("closed: %v", err)
	}
}
