package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// stage opens trails of one state directory and leaves them to crash.
type stage struct {
	t   testing.TB
	dir *os.File
	max int64
}

func newStage(t testing.TB) *stage {
	t.Helper()
	dir, err := os.Open(t.TempDir())
	check(t, err)
	t.Cleanup(func() { dir.Close() })
	return &stage{t: t, dir: dir}
}

func (s *stage) open() *Trail {
	s.t.Helper()
	return must[*Trail](s.t)(Open(s.dir, s.max))
}

func (s *stage) path(name string) string { return filepath.Join(s.dir.Name(), name) }

func (s *stage) write(name, content string) {
	s.t.Helper()
	check(s.t, os.WriteFile(s.path(name), []byte(content), 0o600))
}

// files returns the content of every file of the directory.
func (s *stage) files() map[string]string {
	s.t.Helper()
	m := map[string]string{}
	for _, e := range must[[]os.DirEntry](s.t)(os.ReadDir(s.dir.Name())) {
		m[e.Name()] = string(must[[]byte](s.t)(os.ReadFile(s.path(e.Name()))))
	}
	return m
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
