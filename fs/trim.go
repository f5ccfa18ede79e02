package fs

import (
	"latchfs/fs/trim"
)

// maxRemembered is how many inodes the kernel may remember before it is made to forget
// some, however many descriptors there are: with each goes about a KiB of ours, and as much
// of the kernel's.
const maxRemembered = 1 << 16

// idlePart is the part of the descriptors that files may have to which records were appended a
// moment ago.
const idlePart = 16

// crowd is how many inodes the kernel may remember before it is made to forget some.
func (ns *nodes) crowd() int { return min(ns.maxInodes/2, maxRemembered) }

// trimEngine is the filesystem as package trim needs it.
type trimEngine struct{ f *FS }

var _ trim.Engine = trimEngine{}

func (f *FS) openTrimmer() { f.nodes.trim = trim.New(trimEngine{f}, f.life.done) }

// Crowd implements trim.Engine.
func (r trimEngine) Crowd() int { return r.f.nodes.crowd() }

// Remembered implements trim.Engine.
func (r trimEngine) Remembered() int { return r.f.nodes.countInodes() }

// Measured implements trim.Engine.
func (r trimEngine) Measured(n int64) {
	r.f.callers.descriptors.SetLimits(descriptorLimits(n))
	if r.f.disk.store != nil {
		r.f.disk.store.SetMaxIdleTails(int(n / idlePart))
	}
}

// Short implements trim.Engine.
func (r trimEngine) Short(n int64) {
	r.f.disk.log.Warnf("programs get ENFILE, for the daemon has %d descriptors, and all are in use: raise LimitNOFILE of its unit, or ulimit -n before latchfs mount", n)
}

// Pruner implements trim.Engine: it is the kernel, if that can be told which nodes to
// forget.
func (r trimEngine) Pruner() trim.Pruner {
	if p, ok := r.f.kernel.srv.(trim.Pruner); ok {
		return p
	}
	return nil
}

// IdleNodes implements trim.Engine.
func (r trimEngine) IdleNodes(limit int) []uint64 {
	f := r.f
	f.nodes.mu.Lock()
	defer f.nodes.mu.Unlock()
	var files, dirs []uint64
	for id, k := range f.nodes.kernelNodes {
		to := &files
		if k.in.isDir() {
			to = &dirs
		}
		if len(*to) < limit && k.nlookup > 0 && f.nodes.isIdleLocked(k.in) {
			*to = append(*to, id)
		}
		if len(files) == limit && len(dirs) == limit {
			break
		}
	}
	return append(files, dirs...)
}

// ForgetNames implements trim.Engine.
func (r trimEngine) ForgetNames(limit int) {
	for _, v := range r.f.nodes.idleNames(limit) {
		if !r.f.nodes.isMountpoint(v.dir, v.name) {
			r.f.kernel.forgetName(v.dir, v.name)
		}
		r.f.nodes.unpin(v.dir)
	}
}

func (ns *nodes) countInodes() int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return len(ns.inodes)
}

// isIdleLocked reports whether we can do without what is known of n. nodes.mu is held.
func (ns *nodes) isIdleLocked(n *inode) bool {
	if n.isDir() {
		return n.pins == 0 && !n.isRoot()
	}
	return n.parent != nil && !n.isOpenLocked() && n.sess == nil && n.shadow == nil && n.fd >= 0 && !n.live
}

// idleNames lists names of idle files, their directories pinned.
func (ns *nodes) idleNames(limit int) []place {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	var out []place
	for _, n := range ns.inodes {
		if len(out) == limit {
			break
		}
		if n.isDir() || !ns.isIdleLocked(n) {
			continue
		}
		n.parent.pins++
		out = append(out, place{dir: n.parent, name: n.dentry.Name()})
	}
	return out
}
