package fs

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Programs whose children have their descriptors.

// fork starts a child, which runs a command and has the descriptors of the process.
func (p *simProc) fork(command string) *simProc {
	return p.w.launch(p, simProgramOf(p.comm+"-child", command))
}

// pass gives a descriptor to a child, which writes.
func (p *simProc) pass(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	p.w.logf("%s has a child, which writes", p)
	child := p.fork("finish")
	p.close(fd)
	<-child.dead // as a shell waits
}

// share writes while a child has the descriptor, too, and closes it.
func (p *simProc) share(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	p.w.logf("%s has a child, which closes the file", p)
	child := p.fork("drop")
	p.fill(fd, f)
	<-child.dead
}

// drop closes the descriptors that the process has inherited.
func (p *simProc) drop() {
	for _, fd := range slices.Sorted(maps.Keys(p.fds)) {
		p.close(fd)
	}
}

// finish is what the child does: it writes to the descriptor that it has.
func (p *simProc) finish() {
	for fd, f := range p.fds {
		if f.writes() {
			for _, part := range versionText(f.version) {
				p.write(fd, part)
			}
			p.close(fd)
			return
		}
	}
}
