package claimfile

import "time"

// Format says how a claim file is written.
type Format string

// The formats.
const (
	Beads    Format = "beads"
	Clawdbot Format = "clawdbot"
	LockV1   Format = "lock/v1"
	OwnerDir Format = "owner-dir"
	Flock    Format = "flock"
)

// Malformed says what a claim file with a malformed record is.
type Malformed string

// What a malformed record is.
const (
	Locked Malformed = "locked"
	Free   Malformed = "free"
)

// Rule is what the policy says about claim files of one kind.
type Rule struct {
	Format     Format
	TTL        time.Duration // without a sign of life for longer: stale; 0: never
	ForeignTTL time.Duration // the same for a record of another host
	Malformed  Malformed
}
