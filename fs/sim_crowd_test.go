package fs

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/trim"
)

// A daemon that may have few files open, and makes the kernel forget those that nobody uses. What
// programs see does not change with that.

// simCrowd is how many inodes such a daemon may remember.
const simCrowd = 8

// crowds lets each fifth daemon be one. Half of them run below a kernel that cannot be told which
// nodes to forget.
func (w *simWorld) crowds(f *FS) {
	if w.opts.seed%5 == 3 && !w.directed {
		f.nodes.maxInodes = simCrowd
		f.nodes.trim = trim.New(simTrim{trimEngine{f}}, f.life.done)
	}
}

// simTrim has all that is idle forgotten, in an order that is the same each time.
type simTrim struct{ trimEngine }

// IdleNodes implements trim.Engine.
func (e simTrim) IdleNodes(int) []uint64 {
	all := e.trimEngine.IdleNodes(simCrowd * 100)
	slices.Sort(all)
	return all
}

// ForgetNames implements trim.Engine.
func (e simTrim) ForgetNames(int) {
	ns := e.f.nodes
	idle := ns.idleNames(simCrowd * 100)
	slices.SortFunc(idle, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.dir.key.ino, b.dir.key.ino), cmp.Compare(a.name, b.name))
	})
	for _, v := range idle {
		e.f.kernel.forgetName(v.dir, v.name)
		ns.unpin(v.dir)
	}
}

// Prune implements trim.Pruner: fuse_notify_prune drops the names of what nobody uses.
func (k *simKernel) Prune(nodes []uint64) error {
	if k.w.opts.seed%2 == 0 {
		return unix.ENOSYS
	}
	k.w.model.count("the daemon makes the kernel forget")
	used := k.w.inUse()
	k.mu.Lock()
	for _, id := range nodes {
		n := k.inodes[id]
		if n == nil || n.opens > 0 || used[n] || len(n.children) > 0 || id == rootID {
			continue
		}
		for _, dir := range k.inodes {
			for _, d := range dir.children {
				if d.inode == n {
					k.dropLocked(d)
				}
			}
		}
	}
	k.mu.Unlock()
	k.forgetUnused()
	return nil
}
