package fs_test

import (
	"testing"

	"latchfs/fs"
	"latchfs/fs/face"
)

func init() {
	fs.MountForTest = func(t *testing.T, o fs.Options) (*fs.FS, fs.MountedForTest) {
		m, err := face.Start(o)
		if err != nil {
			t.Fatal(err)
		}
		return m.FS(), m
	}
}
