package policy

import "latchfs/lockmgr/policy/lockfile"

// ClaimFile returns the convention that a path relative to the data root is a claim file
// of, nil if there is none. What it points to is shared: not to be changed.
func (p *Policy) ClaimFile(path string) *lockfile.Convention { return p.lockfiles.Of(path) }

// ClaimRecord returns the convention of the claim file in whose directory a path lies:
// where path is one of the files of a lockfile.OwnerDir, dir is its directory; else c is
// nil.
func (p *Policy) ClaimRecord(path string) (dir string, c *lockfile.Convention) {
	return p.lockfiles.Record(path)
}

// HasClaimFiles reports whether the policy declares any claim file.
func (p *Policy) HasClaimFiles() bool { return !p.lockfiles.IsEmpty() }

// ClaimFiles returns the conventions in the order in which they decide. The caller must
// not change what they point to.
func (p *Policy) ClaimFiles() []*lockfile.Convention { return p.lockfiles.All() }

// asClaim returns the settings of a path for which s was decided: those of a claim
// file are not left to the rules, for its convention says who may write it. Such a file is
// atomic, so that nobody reads half of a record, and in the way of no other. A claim
// that is a matter of flock keeps what the rules say, and so does one that stands for
// nothing.
func (p *Policy) asClaim(path string, s *Settings) *Settings {
	file, c := path, p.ClaimFile(path)
	if c == nil {
		file, c = p.ClaimRecord(path)
	}
	if c == nil || c.Format == lockfile.Flock {
		return s
	}
	if _, err := c.Target(file); err != nil {
		return s
	}
	claim := *s
	if claim.Mode != ReadOnly {
		claim.Mode = Atomic
	}
	claim.LiveIf, claim.Grow, claim.Append = nil, 0, Session
	claim.LostUpdate, claim.Validate, claim.Key = IgnoreLost, nil, FileKey
	return &claim
}
