package integration

import "testing"

// A file whose mode permits its owner neither to read nor to write it is synced through the
// descriptor that has made it, as on a plain directory: git makes its objects so.
func TestSyncOfAFileWithoutRights(t *testing.T) {
	alongside(t)
	const script = `
import os
for mode in (0o444, 0o400, 0o200, 0o000, 0o600):
    fd = os.open("f", os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
    os.write(fd, b"x"); os.fsync(fd); os.fdatasync(fd); os.write(fd, b"y"); os.fsync(fd); os.close(fd)
    print(oct(os.stat("f").st_mode), os.path.getsize("f")); os.unlink("f")
fd = os.open("g", os.O_CREAT | os.O_WRONLY, 0o600)
os.write(fd, b"x"); os.fchmod(fd, 0o400); os.fsync(fd); os.close(fd)
print(oct(os.stat("g").st_mode), os.path.getsize("g")); os.unlink("g")
`
	const push = `git init -q --bare b.git && git init -q w && cd w && echo text > f && git add f &&
git -c user.name=ann -c user.email=ann@example.org commit -q -m first && git push -q ../b.git HEAD && git -C ../b.git fsck`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
		mustEndWith(t, m.Bash(t, push), 0)
	})
}
