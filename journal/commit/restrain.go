package commit

import (
	"os"
	"strings"

	"latchfs/journal"

	"golang.org/x/sys/unix"
)

// restrain takes out of in what would give target rights that it does not have now.
// Between the crash and the recovery its owner may have taken them away, and a journal
// is only as good as the directory that it lies in: content is finished, rights are
// given by users alone.
func restrain(in journal.Intent, target int) (journal.Intent, error) {
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return in, os.NewSyscallError("fstat", err)
	}
	in.UID, in.GID = -1, -1
	if in.Mode >= 0 {
		in.Mode &= int64(st.Mode & 0o7777)
	}
	return in, nil
}

// anyXattr and userXattr say which extended attributes are carried over: all, or those
// that decide nothing about what anybody may do.
func anyXattr(string) bool       { return true }
func userXattr(name string) bool { return strings.HasPrefix(name, "user.") }
