package journal

import (
	"os"
	"testing"
)

func BenchmarkBeginDone(b *testing.B) {
	j := newOpener(b).open()
	in := Intent{Kind: KindReplace, Dir: "some/where", Name: "file.json", Shadow: ".latchfs-0123456789abcdef0123456789abcdef"}
	b.ReportAllocs()
	for b.Loop() {
		id, err := j.Begin(in)
		if err == nil {
			err = j.Done(id)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen is a start after a million changes.
func BenchmarkOpen(b *testing.B) {
	o := newOpener(b)
	j := o.open()
	for range 1_000_000 {
		id, err := j.Begin(Intent{Kind: KindReplace, Dir: "some/where", Name: "file.json"})
		if err == nil {
			err = j.Done(id)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	files := o.files()
	for b.Loop() {
		b.StopTimer()
		again := newOpener(b)
		for name, content := range files {
			check(b, os.WriteFile(again.path(name), []byte(content), 0o600))
		}
		b.StartTimer()
		again.open()
	}
}
