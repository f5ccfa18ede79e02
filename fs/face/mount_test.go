package face

import (
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs"
)

func TestPanicEndsTheDaemon(t *testing.T) {
	handle := mountOptions(&fs.Options{}, &unix.Statfs_t{}).PanicHandler
	defer func() {
		if recover() == nil {
			t.Error("after a panic the daemon goes on, perhaps with a mutex held")
		}
	}()
	handle("a defect")
}
