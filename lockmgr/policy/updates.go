package policy

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"latchfs/lockmgr/policy/internal/position"
	"latchfs/lockmgr/policy/internal/reading"
)

// LostUpdate says what becomes of a change that is based on a version of a file
// which another program has replaced since (DESIGN 6).
type LostUpdate string

// The answers to a change that would undo another's.
const (
	// RefuseLost: the open or the rename that would replace the file fails with
	// EBUSY; bytes that were written are kept aside. A program that tries again is
	// obeyed, if Insist allows that.
	RefuseLost LostUpdate = "refuse"
	// StrictLost: as RefuseLost, but no program is obeyed because it tries again, and
	// the removal of a file that has changed is refused, too.
	StrictLost LostUpdate = "strict"
	// WarnLost: it is done, and said so.
	WarnLost LostUpdate = "warn"
	// Serialize: an open for reading claims the file, so that who reads in order
	// to write comes one after the other.
	Serialize LostUpdate = "serialize"
	// Adaptive: Serialize, but only for programs that were seen to write back what
	// they had read.
	Adaptive LostUpdate = "adaptive"
	// Merge: both changes are kept where they can be joined; else as RefuseLost.
	Merge LostUpdate = "merge"
	// IgnoreLost: it is done, as on a plain directory.
	IgnoreLost LostUpdate = "off"
)

// Insist says what becomes of a change that was refused because another program had
// changed the file, when the same program makes it again without having read the file
// since: at least one second and at most ten minutes later.
type Insist string

// The answers to a program that insists.
const (
	// ObeyInsisting: it is obeyed, the event lost_update is recorded, and the history
	// keeps the version that is replaced.
	ObeyInsisting Insist = "obey"
	// NeverObey: it is refused again.
	NeverObey Insist = "never"
)

// Strangers says what a caller means that cannot be told apart from others, for
// the kernel gives it the pid 0: one in another pid namespace.
type Strangers string

// The ways to take strangers.
const (
	// IgnoreStrangers: their reads are not noted, their writes not checked.
	IgnoreStrangers Strangers = "ignore"
	// OneStranger: all of them count as one process.
	OneStranger Strangers = "together"
	// RefuseStrangers: their replacing of an existing file fails with EBUSY.
	RefuseStrangers Strangers = "refuse"
)

const (
	defaultClaimTTL = 30 * time.Second
	defaultFade     = 10 * time.Minute
)

// Observes reports whether a program is one of s.Observers. It is told by its
// name (comm) and by the absolute paths of its executable and, if it is one, of
// its script; what is not known is "".
func (s *Settings) Observes(comm string, paths ...string) bool {
	return slices.ContainsFunc(s.Observers, func(glob string) bool {
		if strings.Contains(glob, "/") {
			return slices.ContainsFunc(paths, func(p string) bool {
				return p != "" && doublestar.MatchUnvalidated(glob, p)
			})
		}
		return doublestar.MatchUnvalidated(glob, comm) || slices.ContainsFunc(paths, func(p string) bool {
			return p != "" && doublestar.MatchUnvalidated(glob, path.Base(p))
		})
	})
}

// LongestFade returns the longest Settings.Fade that holds for any path. What is
// older need not be remembered.
func (p *Policy) LongestFade() time.Duration {
	longest := p.defaults.Fade
	for i := range p.matchers {
		longest = max(longest, p.matchers[i].settings.Fade)
	}
	return longest
}

// updates reads a setting about lost updates, if key is one.
func (p *parser) updates(r *Rule, at position.Node, key string, v any) bool {
	switch key {
	case keyLostUpdate:
		r.LostUpdate = reading.Word(p.Reader, at, key, v, RefuseLost, StrictLost, WarnLost, Serialize, Adaptive, Merge, IgnoreLost)
	case keyInsist:
		r.Insist = reading.Word(p.Reader, at, key, v, ObeyInsisting, NeverObey)
	case keyClaimTTL:
		r.ClaimTTL = p.Positive(at, key, v, "a claim needs some time")
	case keyFade:
		r.Fade = p.Positive(at, key, v, "what was read must count for some time")
	case keyObservers:
		r.Observers = p.Strings(at, key, v, 0, checkObserver)
	case keyStrangers:
		r.Strangers = reading.Word(p.Reader, at, key, v, IgnoreStrangers, OneStranger, RefuseStrangers)
	default:
		return false
	}
	return true
}

// checkObserver says what is wrong with the glob of an observer, or "". One with
// a '/' that is neither absolute nor begins with a "**" could match nothing.
func checkObserver(glob string) string {
	bad := func(reason string) string { return "bad observer " + reading.Quote(glob) + ": " + reason }
	switch {
	case glob == "":
		return bad("must name a program")
	case !doublestar.ValidatePattern(glob):
		return bad("a bracket, a brace or a backslash is not closed")
	case strings.Contains(glob, "/") && !strings.HasPrefix(glob, "/") && !strings.HasPrefix(glob, "**/"):
		return bad(`a program is given by its name or by an absolute path, as in "jq", "/usr/bin/jq" or "**/show.py"`)
	}
	return ""
}

// overUpdates lays the rule's own settings about lost updates over s.
func (r Rule) overUpdates(s *Settings) {
	if r.LostUpdate != "" {
		s.LostUpdate = r.LostUpdate
	}
	if r.Insist != "" {
		s.Insist = r.Insist
	}
	if r.ClaimTTL != nil {
		s.ClaimTTL = time.Duration(*r.ClaimTTL)
	}
	if r.Fade != nil {
		s.Fade = time.Duration(*r.Fade)
	}
	if r.Observers != nil {
		s.Observers = r.Observers
		if len(s.Observers) == 0 {
			s.Observers = nil // one way to say none
		}
	}
	if r.Strangers != "" {
		s.Strangers = r.Strangers
	}
}
