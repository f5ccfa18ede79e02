package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/naming"
)

// ClaimFormat says how programs write a claim file, and so what the mount reads in
// it.
type ClaimFormat string

// The formats.
const (
	// BeadsClaim: a JSON record with holder, pid, hostname and started_at (SEED B1).
	BeadsClaim ClaimFormat = "beads"
	// ClawdbotClaim: a JSON record with pid, session_id, acquired_at, hostname and
	// operation (SEED W2).
	ClawdbotClaim ClaimFormat = "clawdbot"
	// LockV1Claim: a JSON record of the lock/v1 specification, with a heartbeat and a
	// TTL of its own (SEED T3).
	LockV1Claim ClaimFormat = "lock/v1"
	// OwnerDirClaim: a directory with the files owner and record.json (SEED M5).
	OwnerDirClaim ClaimFormat = "owner-dir"
	// FlockClaim: the file has no content; a program that has it locked with flock
	// has what it stands for locked (SEED C4).
	FlockClaim ClaimFormat = "flock"
)

// ClaimCovers says what a claim file stands for.
type ClaimCovers string

// What a claim file may stand for (SEED "scope").
const (
	// CoversFile: one file, named after the claim file.
	CoversFile ClaimCovers = "file"
	// CoversDirectory: the directory in which the claim file lies, with all below it.
	CoversDirectory ClaimCovers = "directory"
	// CoversName: a named lock, which is that of no file.
	CoversName ClaimCovers = "name"
)

// ClaimStale says what becomes of a claim file whose holder is gone.
type ClaimStale string

// The answers to a stale claim file.
const (
	// RemoveStaleClaim: the mount removes it for the next program that needs what it
	// covers.
	RemoveStaleClaim ClaimStale = "remove"
	// KeepStaleClaim: it stays until somebody forces it (SEED T8).
	KeepStaleClaim ClaimStale = "keep"
)

// Malformed says what a claim file means that cannot be understood.
type Malformed string

// The answers to a malformed claim file (SEED "malformed claim file").
const (
	// MalformedLocked: what it covers is locked, by an unknown holder.
	MalformedLocked Malformed = "locked"
	// MalformedFree: it is no claim.
	MalformedFree Malformed = "free"
)

// ClaimFile declares lock files that programs write by a convention of their own,
// so that the mount holds everybody else to them: one [[claim]] of a policy.
type ClaimFile struct {
	// Glob holds the patterns of the claim files, at least one; any of them
	// suffices. With OwnerDirClaim they match the directory.
	Glob   []string
	Format ClaimFormat
	Covers ClaimCovers
	// Root is the directory in which the claim files of CoversFile mirror the tree:
	// with the root "locks", locks/src/a.c.lock stands for src/a.c. Empty: a claim
	// file lies beside its file.
	Root string
	// Tree is the directory that Root mirrors; "" is the data root.
	Tree string
	// TTL is after how long a claim is stale: without progress (ClawdbotClaim),
	// without a heartbeat where the record names no TTL (LockV1Claim), after the end
	// of its session (OwnerDirClaim). 0 is never.
	TTL time.Duration
	// ForeignTTL is the same for a record of ClawdbotClaim that another host has
	// written; 0 is never.
	ForeignTTL time.Duration
	// OnStale says what becomes of a stale claim file. FlockClaim has none.
	OnStale ClaimStale
	// Malformed says what a record means that cannot be understood. FlockClaim has
	// none.
	Malformed Malformed

	// origin is where the claim was written: "policy.toml:12".
	origin string
}

// Origin says where the claim was written: "FILE:LINE".
func (c *ClaimFile) Origin() string { return c.origin }

// factoryClaim is a claim of this format that sets nothing else.
func factoryClaim(format ClaimFormat) ClaimFile {
	c := ClaimFile{Format: format, OnStale: RemoveStaleClaim, Malformed: MalformedLocked}
	switch format {
	case BeadsClaim: // SEED B2, B3
	case ClawdbotClaim: // SEED W5, W10
		c.TTL, c.ForeignTTL, c.Malformed = 30*time.Second, 10*time.Second, MalformedFree
	case LockV1Claim: // SEED T4, T8
		c.TTL, c.OnStale = 900*time.Second, KeepStaleClaim
	case OwnerDirClaim: // SEED M6
		c.TTL = 5 * time.Minute
	case FlockClaim: // the kernel ends it with its holder
		c.OnStale, c.Malformed = "", ""
	}
	return c
}

// ClaimTarget is what a claim file stands for.
type ClaimTarget struct {
	Covers ClaimCovers
	// Path is the file of CoversFile, and the directory of CoversDirectory; ""
	// is the data root.
	Path string
	// Name is the lock name of CoversName.
	Name string
}

// String describes the target for people.
func (t ClaimTarget) String() string {
	switch {
	case t.Covers == CoversName:
		return "the named lock " + t.Name
	case t.Covers == CoversFile:
		return "the file " + t.Path
	case t.Path == "":
		return "the whole mount"
	}
	return "the directory " + t.Path
}

// Target returns what the claim file at a path stands for; the path is one that the
// claim matches. An error says why the path stands for nothing, so that the file is
// no claim.
func (c *ClaimFile) Target(path string) (ClaimTarget, error) {
	t := ClaimTarget{Covers: c.Covers}
	if c.Covers == CoversDirectory {
		t.Path = naming.Dir(path)
		return t, nil
	}
	base := glob.Base(path)
	dot := strings.LastIndexByte(base, '.')
	if dot <= 0 {
		return t, errors.New("nothing is left of the name without its extension")
	}
	if c.Covers == CoversName {
		t.Name = base[:dot]
		if !naming.Valid(t.Name) {
			return t, fmt.Errorf("bad name %q: %s", t.Name, naming.Rule)
		}
		return t, nil
	}
	t.Path = path[:len(path)-len(base)+dot]
	if c.Root != "" {
		rest, below := strings.CutPrefix(t.Path, c.Root+"/")
		if !below {
			return t, fmt.Errorf("it does not lie below %s", c.Root)
		}
		t.Path = naming.Join(c.Tree, rest)
	}
	return t, nil
}

// claimMatcher is one glob of a claim, prepared.
type claimMatcher struct {
	glob  glob.Pattern
	claim *ClaimFile
}

// ClaimFile returns the claim that a path relative to the data root is a claim file
// of: the first one with a matching glob, nil if there is none. What it points to is
// shared: not to be changed.
func (p *Policy) ClaimFile(path string) *ClaimFile {
	if len(p.claimMatchers) == 0 {
		return nil
	}
	base := glob.Base(path)
	for i := range p.claimMatchers {
		if m := &p.claimMatchers[i]; m.glob.Match(path, base) {
			return m.claim
		}
	}
	return nil
}

// ClaimRecord returns the claim in whose directory a path lies: where path is one of
// the files of an OwnerDirClaim, dir is its directory; else c is nil.
func (p *Policy) ClaimRecord(path string) (dir string, c *ClaimFile) {
	if !p.hasOwnerDirs {
		return "", nil
	}
	dir = naming.Dir(path)
	if c = p.ClaimFile(dir); c == nil || c.Format != OwnerDirClaim {
		return "", nil
	}
	return dir, c
}

// HasClaimFiles reports whether the policy declares any claim file.
func (p *Policy) HasClaimFiles() bool { return len(p.claims) > 0 }

// ClaimFiles returns the claims in the order in which they decide. The caller must
// not change what they point to.
func (p *Policy) ClaimFiles() []*ClaimFile {
	claims := make([]*ClaimFile, len(p.claims))
	for i := range p.claims {
		claims[i] = &p.claims[i]
	}
	return claims
}

// compileClaims prepares the claims for matching.
func (p *Policy) compileClaims() {
	p.claims = slices.Clone(p.claims) // they are pointed to
	for i := range p.claims {
		c := &p.claims[i]
		p.hasOwnerDirs = p.hasOwnerDirs || c.Format == OwnerDirClaim
		for _, g := range c.Glob {
			p.claimMatchers = append(p.claimMatchers, claimMatcher{glob.New(g), c})
		}
	}
}

// asClaim returns the settings of a path for which s was decided: those of a claim
// file are not left to the rules, for the claim says who may write it. Such a file is
// atomic, so that nobody reads half of a record, and in the way of no other. A claim
// that is a matter of flock keeps what the rules say, and so does one that stands for
// nothing.
func (p *Policy) asClaim(path string, s *Settings) *Settings {
	file, c := path, p.ClaimFile(path)
	if c == nil {
		file, c = p.ClaimRecord(path)
	}
	if c == nil || c.Format == FlockClaim {
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
