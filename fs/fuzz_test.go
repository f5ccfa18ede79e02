package fs

import (
	"testing"
	"unicode/utf8"

	"latchfs/fs/control"
)

// FuzzParseKept reads any bytes as what is written about rejected bytes.
func FuzzParseKept(f *testing.F) {
	f.Add([]byte(`{"path":"a","time":"2026-01-02T03:04:05Z","file":{"mode":"0644","uid":1,"gid":2}}`))
	f.Add([]byte(`{"file":{"mode":"-1"}}`))
	f.Add([]byte(`{"file":{"mode":"7777777"},"time":1}`))
	f.Fuzz(func(t *testing.T, meta []byte) {
		if k, ok := parseKept(meta); ok && k.mode > 0o7777 {
			t.Errorf("mode %o", k.mode)
		}
	})
}

// FuzzShortLabel cuts any variable of the environment.
func FuzzShortLabel(f *testing.F) {
	f.Add("agent-7")
	f.Add(string(make([]byte, 300)))
	f.Fuzz(func(t *testing.T, s string) {
		got := shortLabel(s)
		if len(got) > control.MaxLabel || utf8.ValidString(s) && !utf8.ValidString(got) || len(s) <= control.MaxLabel && got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	})
}
