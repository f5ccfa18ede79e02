package syscalls

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Older programs ask by other numbers for the same.
func TestOldCalls(t *testing.T) {
	if !StatsByName(call(unix.SYS_STAT)) || !StatsByName(call(unix.SYS_LSTAT)) || StatsByName(call(unix.SYS_FSTAT)) {
		t.Error("stat and lstat ask for the attributes of a path, fstat does not")
	}
	if !Creates(call(unix.SYS_OPEN, 1, unix.O_CREAT)) || Creates(call(unix.SYS_OPEN, 1, unix.O_RDWR, unix.O_CREAT)) {
		t.Error("the flags of open are its second argument")
	}
	if !Creates(call(unix.SYS_CREAT)) {
		t.Error("creat creates")
	}
	if !Chowns(call(unix.SYS_CHOWN)) || !Chowns(call(unix.SYS_LCHOWN)) {
		t.Error("chown and lchown change an owner")
	}
	if !SetsByName(call(unix.SYS_CHMOD)) || !SetsByName(call(unix.SYS_LCHOWN)) || !SetsByName(call(unix.SYS_UTIMES)) || SetsByName(call(unix.SYS_FUTIMESAT)) {
		t.Error("chmod, lchown and utimes change the attributes of the file at a path, futimesat may change those of a descriptor")
	}
	if !Removes(call(unix.SYS_UNLINK)) || Removes(call(unix.SYS_RMDIR)) {
		t.Error("unlink removes the name of a file, rmdir does not")
	}
	if !SetsTimes(call(unix.SYS_UTIME)) || !SetsTimes(call(unix.SYS_UTIMES)) || !SetsTimes(call(unix.SYS_FUTIMESAT)) {
		t.Error("utime, utimes and futimesat set the times of a file")
	}
}
