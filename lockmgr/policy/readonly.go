package policy

import "latchfs/lockmgr/policy/internal/glob"

// HoldsReadOnly reports whether the name of a directory is a part of what makes files below
// it read-only, as "frozen" is of "frozen/**": under another name they would not be.
func (p *Policy) HoldsReadOnly(dir string) bool {
	base := glob.Base(dir)
	for i := range p.above {
		if p.above[i].Match(dir, base) {
			return true
		}
	}
	return false
}

// gatherReadOnly finds the directories of HoldsReadOnly.
func (p *Policy) gatherReadOnly() {
	for _, r := range p.rules {
		if r.Mode != ReadOnly {
			continue
		}
		for _, g := range r.Glob {
			for _, dir := range glob.Above(g) {
				p.above = append(p.above, glob.New(dir))
			}
		}
	}
}
