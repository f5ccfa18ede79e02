package fs

import (
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy"
)

// Programs that count in a file as PHP's file_get_contents and file_put_contents with LOCK_EX do:
// they read it, open it to write without O_TRUNC, lock it, cut it, and write it. They look neither
// at the answer of the cut nor at that of the close: when the writes have succeeded, they believe
// that what they have written is there.

// drawPHP adds such programs to a script, as drawLocks does: two at least that use one file, so
// that they meet.
func (s *simScript) drawPHP(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 60))
	if r.IntN(6) != 0 {
		return
	}
	name := names[r.IntN(len(names))]
	for i := range 2 + r.IntN(3) {
		p := &s.programs[i%2] // not the guest, who may only read
		at := p.place(r)
		p.lines = slices.Insert(p.lines, at, "php "+name)
	}
}

// php counts in a file.
func (p *simProc) php(path string) {
	v, ok := p.cat(path)
	if !ok {
		return
	}
	known, bases := p.knows(p.w.kernel, v), p.bases(path, v)
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT)
	if e != 0 {
		return
	}
	f.version = unchanged
	if !p.lock(fd, simLockKind{alone: true}) {
		p.close(fd)
		return
	}
	cut := p.ftruncate(fd, 0)
	f.known, f.bases = known, bases
	if f.k != p.readOn {
		f.known = ""
	}
	f.version = p.w.model.newVersion(p)
	for i, part := range versionText(f.version) {
		if e = p.write(fd, part); e != 0 {
			if i == 0 && cut != 0 {
				f.version = unchanged
			}
			break
		}
	}
	p.believes(fd, f, e == 0)
}

// believes closes a file. Its program does not hear of it when the close takes back what the writes
// have acknowledged, so that it must not for a version that the program could have been told of
// before. Where changes are merged the close alone knows, and a transaction has its own commit.
func (p *simProc) believes(fd int, f *simFile, written bool) {
	e := p.close(fd)
	if !written || e != unix.EBUSY || f.isRobbed() || f.k.isDead() || p.txn != nil || p.w.opts.script.hazards.updates == policy.Merge {
		return
	}
	p.w.failf("%s was told that it has written %s, and only its close, which it does not look at, says that this is refused", p, f.path)
}
