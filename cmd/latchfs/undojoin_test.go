package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What a link in the directories above leads to has another path.
func TestStampIsOfThePathItself(t *testing.T) {
	v := &view{root: t.TempDir()}
	for _, err := range []error{
		os.Mkdir(filepath.Join(v.root, "e"), 0o755),
		os.WriteFile(filepath.Join(v.root, "e/x"), []byte("x"), 0o644),
		os.Symlink("e", filepath.Join(v.root, "d")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	none := fileStamp{}
	if v.stampAt("e/x") == none || v.stampAt("e/x") != stampAt(v.file("e/x")) || v.stampAt("d") == none {
		t.Error("what is there has no stamp")
	}
	for _, p := range []string{"d/x", "e/y", "e/x/y", "nowhere/x"} {
		if v.stampAt(p) != none {
			t.Errorf("%s has a stamp", p)
		}
	}
}
