package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// The journal is told how much each line matters, and nobody else is.
func TestPrioritiesInTheJournal(t *testing.T) {
	for _, journal := range []bool{true, false} {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		if !journal { // inherited from a session whose output that was
			st.Ino++
		}
		t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
		l, err := openLog(logrus.TraceLevel, "", f)
		if err != nil {
			t.Fatal(err)
		}
		levels := []logrus.Level{logrus.ErrorLevel, logrus.WarnLevel, logrus.InfoLevel, logrus.DebugLevel, logrus.TraceLevel}
		for _, level := range levels {
			l.Entry().Log(level, "two\nlines")
		}
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		if len(lines) != len(levels) {
			t.Fatalf("%q", lines)
		}
		for i, want := range []string{"<3>level=", "<4>level=", "<6>level=", "<7>level=", "<7>level="} {
			if !journal {
				want = "time="
			}
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("journal %v: %q, want %s", journal, lines[i], want)
			}
		}
	}
}
