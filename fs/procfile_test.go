package fs

import (
	"slices"
	"testing"
)

// Who has a version open is found by the numbers that its node had before, too: the kernel may
// not have asked since, and /proc shows what the kernel knows.
func TestOpenFilesAreFoundByEarlierNumbers(t *testing.T) {
	hs := &handles{disk: &disk{dev: 1}, nodes: &nodes{}}
	h := &handle{handles: hs, n: &inode{key: inoKey{1, 9}}, k: &kernelNode{numbers: []inoKey{{1, 7}, {1, 8}}}}
	file := h.procFile()
	if file.Ino != 9 || !slices.Equal(file.Also, []uint64{7, 8}) {
		t.Errorf("found by %d and %d, want 9 and 7, 8", file.Ino, file.Also)
	}
}
