package policy

import (
	"slices"

	"latchfs/lockmgr/policy/internal/glob"
)

// HoldsReadOnly reports whether a rule of mode readonly names a directory on the way to what
// is read-only, as "frozen/**" names "frozen": under another name that would not be so.
func (p *Policy) HoldsReadOnly(dir string) bool { return slices.Contains(p.above, dir) }

// gatherReadOnly finds the directories of HoldsReadOnly.
func (p *Policy) gatherReadOnly() {
	for _, r := range p.rules {
		if r.Mode != ReadOnly {
			continue
		}
		for _, g := range r.Glob {
			p.above = append(p.above, glob.Above(g)...)
		}
	}
}
