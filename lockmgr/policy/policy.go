package policy

import (
	"slices"
	"time"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/reading"
	"latchfs/lockmgr/policy/lockfile"
)

// Mode says how writes to a file are treated.
type Mode string

// The modes.
const (
	// Atomic files are written in sessions and replaced at the commit.
	Atomic Mode = "atomic"
	// Live files are passed straight through, locks and mappings included
	// (DESIGN 4.5).
	Live Mode = "live"
	// ReadOnly files cannot be changed through the mount.
	ReadOnly Mode = "readonly"
)

// Durability says what is on disk when the close that commits returns.
type Durability string

// The durabilities (DESIGN 4.3).
const (
	// AutoDurability: as Full for what replaces a version, as Lazy for what is new.
	AutoDurability Durability = "auto"
	// Full: file and directory are synced.
	Full Durability = "full"
	// Ordered: the file is synced before the rename, so never torn.
	Ordered Durability = "ordered"
	// Lazy: crash-atomic without waiting.
	Lazy Durability = "lazy"
)

// Append says what a write to an O_APPEND descriptor is.
type Append string

// The ways to append (DESIGN 4.4).
const (
	// Record: each write is a small commit of its own.
	Record Append = "record"
	// Session: the descriptor is an ordinary session.
	Session Append = "session"
)

// OnKill says what becomes of a file whose writer died by a signal before it
// closed the file.
type OnKill string

// The answers to a killed writer (DESIGN 4.2).
const (
	// Auto: a file that exists keeps its old version, and the bytes are kept aside.
	// A new file, which has no earlier version, becomes what was written if its
	// writer was asked to stop (SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM, SIGXCPU);
	// after SIGKILL or a crash it does not appear, and the bytes are kept aside.
	// What the writer synced (fsync) stays: a file to which nothing was written
	// since its fsync becomes that, and a new file that was synced once becomes what
	// was written.
	Auto OnKill = "auto"
	// Rollback: the old version stays, or the new file does not appear, and the
	// bytes are kept aside.
	Rollback OnKill = "rollback"
	// Commit: the file becomes what was written.
	Commit OnKill = "commit"
)

// OnStale says what waiters do about a lock whose lease has expired: one that
// showed no life for its TTL. It is for sessions and guards; a lock that the
// kernel takes for a program (flock, fcntl) has no lease.
type OnStale string

// The answers to a stale lock (SEED W5, T7, T8).
const (
	// KeepStale: the lock stays until its holder lets go or somebody forces it.
	KeepStale OnStale = "keep"
	// StealStale: the next waiter takes it; the old holder is fenced off.
	StealStale OnStale = "steal"
)

// Duration is a time span that reads and prints as in time.ParseDuration.
type Duration = reading.Duration

// Rule is one rule of a policy. A zero field is inherited from the defaults.
type Rule struct {
	// Glob holds the patterns, at least one; any of them suffices.
	Glob       []string
	Mode       Mode
	Wait       *Duration
	Durability Durability
	Append     Append
	OnKill     OnKill
	Grow       *Duration // 0 is never
	TTL        *Duration
	OnStale    OnStale
	Key        Key
	History    *int
	// LiveIf holds the markers of live directories: see Settings. nil is inherited,
	// an empty list is none.
	LiveIf []string

	// What becomes of lost updates; nil is inherited, an empty list is none.
	LostUpdate LostUpdate
	Insist     Insist
	ClaimTTL   *Duration
	Fade       *Duration
	Observers  []string
	Strangers  Strangers

	// What Settings.Validate is made of; nil is inherited, an empty list is none.
	Validate       []string
	MaxSize        *Bytes
	Command        []string
	CommandTimeout *Duration
	CommandUser    string // "" is inherited

	// origin is where the rule was written: "policy.toml:12" or "built-in".
	origin string
}

// Origin says where the rule was written: "FILE:LINE", or "built-in".
func (r Rule) Origin() string { return r.origin }

// Settings are the rules that hold for one path, with nothing left open.
type Settings struct {
	Mode       Mode
	Wait       time.Duration
	Durability Durability
	Append     Append
	OnKill     OnKill
	// Grow is after how long a new file that is the standard output or error of
	// some process, and still open, appears and is live as long as it is open; 0 is
	// never. A file that a validator judges, and one of a transaction, never grows.
	Grow time.Duration
	// TTL is how long a lock is good without a sign of life; 0 is for ever.
	TTL     time.Duration
	OnStale OnStale
	Key     Key
	// History is how many earlier versions of a file are kept.
	History int
	// LiveIf holds the markers that make an atomic file live: one of the directories
	// above it has one of them (DESIGN 4.5). See MarkerFiles. The caller looks for
	// them, for the policy sees no disk. It is shared: not to be changed.
	LiveIf []string
	// LostUpdate says what becomes of a change that is based on a version which has
	// been replaced since.
	LostUpdate LostUpdate
	// Insist says what becomes of a refused change that is made again.
	Insist Insist
	// ClaimTTL is how long, at most, an open for reading keeps others away where
	// reads claim; above 0.
	ClaimTTL time.Duration
	// Fade is how long it counts that a relative of a process has read the file;
	// above 0.
	Fade time.Duration
	// Observers are the programs whose reads never claim: see Observes. It is
	// shared: not to be changed.
	Observers []string
	// Strangers says what callers mean that cannot be told apart.
	Strangers Strangers
	// Validate says which content is accepted; nil is all. It is shared: not to
	// be changed.
	Validate *Validation
	// Rule names what decided, for people: "ORIGIN: GLOB", as in
	// "policy.toml:12: *.json" and "built-in: *.db", or "defaults".
	Rule string
}

// Policy is an immutable set of rules. Its methods may be called by several
// goroutines at once.
type Policy struct {
	source
	matchers  []matcher // in the order in which they decide
	aliases   []aliasMatcher
	lockfiles *lockfile.Set
	mapsAny   bool // some path may have a lock name other than itself
	markers   markers
	above     []string // see HoldsReadOnly
	settings  *cache[*Settings]
	names     *cache[string]
}

// source is what a policy file says, in full: its own rules and the built-in
// ones, all of them valid.
type source struct {
	defaults Settings
	rules    []Rule
	alias    []Alias
	claims   []lockfile.Convention
	actorEnv []string
	history  Bounds
	rejected Bounds
}

// ruleDefaults is Settings.Rule where no rule matched.
const ruleDefaults = "defaults"

// factory are the defaults of a policy that sets none.
func factory() Settings {
	return Settings{
		Mode:       Atomic,
		Wait:       30 * time.Second,
		Durability: AutoDurability,
		Append:     Record,
		OnKill:     Auto,
		Grow:       defaultGrow,
		TTL:        15 * time.Minute,
		OnStale:    KeepStale,
		Key:        FileKey,
		History:    10,
		LiveIf:     factoryMarkers(),
		LostUpdate: RefuseLost,
		Insist:     ObeyInsisting,
		ClaimTTL:   defaultClaimTTL,
		Fade:       defaultFade,
		Strangers:  IgnoreStrangers,
		Rule:       ruleDefaults,
	}
}

// factoryActorEnv are the variables of a policy that names none: our own, and
// the one that existing writers set (SEED W11).
func factoryActorEnv() []string { return []string{"LATCHFS_ACTOR", "CLAWDBOT_SESSION_ID"} }

// factorySource is what a policy file begins with.
func factorySource() source {
	return source{
		defaults: factory(), actorEnv: factoryActorEnv(), history: factoryHistory(), rejected: factoryRejected(),
	}
}

// Default returns the built-in policy: what holds without a policy file.
func Default() *Policy {
	s := factorySource()
	s.rules = builtinRules()
	return compile(s)
}

// Defaults returns the settings of a path that no rule matches.
func (p *Policy) Defaults() Settings { return p.defaults }

// Rules returns the rules in the order in which they decide, the built-in ones
// among them. The caller must not change what they point to.
func (p *Policy) Rules() []Rule { return slices.Clone(p.rules) }

// Aliases returns the aliases in the order in which they decide. The caller must
// not change what they point to.
func (p *Policy) Aliases() []Alias { return slices.Clone(p.alias) }

// ActorEnv returns the environment variables whose value labels a process as an
// actor: the first of them that is set and not empty counts.
func (p *Policy) ActorEnv() []string { return slices.Clone(p.actorEnv) }

// WithDefaults returns the same policy with another default wait, as an option
// of a command sets it. Rules with a wait of their own keep it.
func (p *Policy) WithDefaults(wait time.Duration) *Policy {
	s := p.source
	s.defaults.Wait = wait
	return compile(s)
}

// For returns the settings that hold for a path relative to the data root
// ("a/b", without a leading '/'; "" is the root itself).
func (p *Policy) For(relPath string) Settings { return *p.settingsOf(relPath) }

// settingsOf is For without the copy. What it returns is shared.
func (p *Policy) settingsOf(relPath string) *Settings {
	if s, ok := p.settings.get(relPath); ok {
		return s
	}
	s := p.asClaim(relPath, p.decide(relPath))
	p.settings.put(relPath, s)
	return s
}

// decide finds the first matching glob. What it returns is shared.
func (p *Policy) decide(relPath string) *Settings {
	base := glob.Base(relPath)
	for i := range p.matchers {
		if m := &p.matchers[i]; m.glob.Match(relPath, base) {
			return &m.settings
		}
	}
	return &p.defaults
}

// matcher is one glob of a rule, with the settings that it decides for.
type matcher struct {
	glob     glob.Pattern
	settings Settings
}

// compile prepares what a policy says for matching.
func compile(s source) *Policy {
	p := &Policy{source: s, lockfiles: lockfile.NewSet(s.claims), settings: newCache[*Settings](), names: newCache[string]()}
	p.mapsAny = len(s.alias) > 0 || s.defaults.Key != FileKey
	for _, r := range s.rules {
		for _, g := range r.Glob {
			m := matcher{glob: glob.New(g), settings: r.over(s.defaults)}
			m.settings.Rule = r.origin + ": " + g
			p.mapsAny = p.mapsAny || m.settings.Key != FileKey
			p.matchers = append(p.matchers, m)
		}
	}
	p.gatherMarkers()
	p.gatherReadOnly()
	for _, a := range s.alias {
		p.aliases = append(p.aliases, newAliasMatcher(a))
	}
	return p
}

// over lays the rule's own settings over the defaults.
func (r Rule) over(s Settings) Settings {
	if r.Mode != "" {
		s.Mode = r.Mode
	}
	if r.Wait != nil {
		s.Wait = time.Duration(*r.Wait)
	}
	if r.Durability != "" {
		s.Durability = r.Durability
	}
	if r.Append != "" {
		s.Append = r.Append
	}
	if r.OnKill != "" {
		s.OnKill = r.OnKill
	}
	if r.Grow != nil {
		s.Grow = time.Duration(*r.Grow)
	}
	if r.TTL != nil {
		s.TTL = time.Duration(*r.TTL)
	}
	if r.OnStale != "" {
		s.OnStale = r.OnStale
	}
	if r.Key != "" {
		s.Key = r.Key
	}
	if r.History != nil {
		s.History = *r.History
	}
	r.overUpdates(&s)
	r.overLive(&s)
	s.Validate = r.validation(s.Validate)
	return s
}
