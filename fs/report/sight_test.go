package report

import "testing"

// Of a lock that a viewer may know of it learns neither the file that the holder writes
// nor the key that the lock is on, where it does not reach those.
func TestShownTo(t *testing.T) {
	hidden := []string{"private"}
	sight := hides(hidden)
	stranger := Viewer{UID: 2000}
	for _, x := range []struct {
		about     string
		is        Record
		file, key string // that are shown
	}{
		{"nothing private", Record{Path: "d/f", File: "d/g", Key: "d/h", Asker: Asker{UID: 2000}}, "d/g", "d/h"},
		{"the file", Record{Path: "d/f", File: "private/g", Key: "d/h", Asker: Asker{UID: 2000}}, "", "d/h"},
		{"the key", Record{Path: "d/f", File: "d/g", Key: "private/h", Asker: Asker{UID: 2000}}, "d/g", ""},
		{"both", Record{Path: "d/f", File: "private/g", Key: "private/h", Asker: Asker{UID: 1000}}, "", ""},
	} {
		was := x.is
		got, ok := x.is.ShownTo(stranger, sight)
		if !ok || got.File != x.file || got.Key != x.key || got.Path != "d/f" {
			t.Errorf("%s is private: %+v, %t", x.about, got, ok)
		}
		if x.is.File != was.File || x.is.Key != was.Key {
			t.Errorf("%s is private: the record itself was changed to %+v", x.about, x.is)
		}
	}
	if r, ok := (&Record{Path: "private/f"}).ShownTo(stranger, sight); ok {
		t.Errorf("a lock on a private path is shown: %+v", r)
	}
}

// Whoever is kept from a path by a lock on something that it may not know of learns that
// somebody is in the way, and not of what the lock is.
func TestShownInTheWay(t *testing.T) {
	sight, stranger := hides([]string{"private"}), Viewer{UID: 2000}
	secret := &Record{Path: "private", Tree: true, File: "private/f", Key: "private", Asker: Asker{UID: 1000, Program: "vim", Cwd: "/private"}}
	got := secret.ShownInTheWay("d/f", stranger, sight)
	if got == nil || got.Path != "d/f" || got.Tree || got.File != "" || got.Key != "" || got.Cwd != "" || got.Program != "vim" {
		t.Errorf("a stranger sees %+v", got)
	}
	if got := secret.ShownInTheWay("private/g", stranger, sight); got.Path != "" || got.Cwd != "" {
		t.Errorf("a stranger to both sees %+v", got)
	}
	if got := secret.ShownInTheWay("d/f", stranger, nil); got != secret {
		t.Errorf("who sees everything sees %+v", got)
	}
	if got := (*Record)(nil).ShownInTheWay("d/f", stranger, sight); got != nil {
		t.Errorf("nobody is in the way, and is shown as %+v", got)
	}
}
