package crashload

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// shut is a log that takes no line.
type shut struct{}

var errShut = errors.New("the log is shut")

func (shut) Write([]byte) (int, error) { return 0, errShut }

// Nothing is written whose beginning is not in the log: a crash may come right after it.
func TestLogKnowsOfEachSave(t *testing.T) {
	dir := t.TempDir()
	for i := range (&Load{}).ways() {
		s := Load{Dir: filepath.Join(dir, "load"), Log: shut{}, encode: Encode}
		if err := os.Mkdir(s.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := s.ways()[i](3); !errors.Is(err, errShut) {
			t.Errorf("way %d ended with %v", i, err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if st, err := os.Stat(file); err != nil || st.Size() > 0 {
				t.Errorf("way %d has written %s", i, file)
			}
		}
		if err := os.RemoveAll(s.Dir); err != nil {
			t.Fatal(err)
		}
	}
}
