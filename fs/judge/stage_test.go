package judge

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/validate"
	"latchfs/lockmgr/policy"
)

// The test binary is its own helper.
func TestMain(m *testing.M) {
	validate.Serve()
	os.Exit(m.Run())
}

// asJSON is what most names of a stage ask for.
var asJSON = &policy.Validation{Formats: []policy.Format{policy.JSON}}

// A stage is a policy by paths, with a judge of it.
type stage struct {
	*Judge
	t   *testing.T
	set map[string]policy.Settings
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, set: map[string]policy.Settings{}}
	s.Judge = New(Config{Settings: func(path string) policy.Settings { return s.set[path] }})
	t.Cleanup(s.Stop)
	return s
}

// rules says what the policy asks of paths.
func (s *stage) rules(v *policy.Validation, paths ...string) {
	for _, path := range paths {
		s.set[path] = policy.Settings{Mode: policy.Atomic, Validate: v}
	}
}

// file makes a file and opens it for reading.
func (s *stage) file(content string) (fd int, name string) {
	s.t.Helper()
	name = filepath.Join(s.t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { unix.Close(fd) })
	return fd, name
}

// content is a Content that counts how often it was opened.
type content struct {
	name    string
	path    string // of the file that it is in
	err     error
	pending bool
	opened  int
}

func (s *stage) content(text string) *content {
	_, name := s.file(text)
	return &content{name: "src", path: name}
}

func (k *content) Open() (int, error) {
	if k.err != nil {
		return -1, k.err
	}
	k.opened++
	return unix.Open(k.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
func (k *content) IsPending() bool { return k.pending }
func (k *content) Name() string    { return k.name }

// draft is a Draft that counts how often its base was looked at.
type draft struct {
	fd     int
	file   string
	paths  []string
	base   error
	looked int
}

func (s *stage) draft(text string, paths ...string) *draft {
	fd, name := s.file(text)
	return &draft{fd: fd, file: name, paths: paths}
}

func (d *draft) Paths() []string { return d.paths }
func (d *draft) CheckBase() error {
	d.looked++
	return d.base
}
func (d *draft) FD() int        { return d.fd }
func (d *draft) Writer() uint32 { return 1000 }

// write gives a file other content.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
