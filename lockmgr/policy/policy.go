package policy

import (
	"time"
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

// OnKill says what becomes of a session whose writer died by a signal.
type OnKill string

// The answers to a killed writer (DESIGN 4.2).
const (
	// Rollback: the old version stays, the bytes are kept aside.
	Rollback OnKill = "rollback"
	// Commit: what was written counts.
	Commit OnKill = "commit"
)

// Duration is a time span that reads and prints as in time.ParseDuration.
type Duration time.Duration

// String returns the duration as time.Duration prints it.
func (d Duration) String() string { return time.Duration(d).String() }

// Rule is one rule of a policy. A zero field is inherited from the defaults.
type Rule struct {
	// Glob holds the patterns, at least one; any of them suffices.
	Glob       []string
	Mode       Mode
	Wait       *Duration
	Durability Durability
	Append     Append
	OnKill     OnKill

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
	// Rule names what decided, for people: "ORIGIN: GLOB", as in
	// "policy.toml:12: *.json" and "built-in: *.db", or "defaults".
	Rule string
}

// Policy is an immutable set of rules. Its methods may be called by several
// goroutines at once.
type Policy struct {
	defaults Settings
	rules    []Rule
	matchers []matcher // in the order in which they decide
	cache    *cache
}

// ruleDefaults is Settings.Rule where no rule matched.
const ruleDefaults = "defaults"

// factory are the defaults of a policy that sets none.
func factory() Settings {
	return Settings{
		Mode:       Atomic,
		Wait:       30 * time.Second,
		Durability: Full,
		Append:     Record,
		OnKill:     Rollback,
		Rule:       ruleDefaults,
	}
}

// Default returns the built-in policy: what holds without a policy file.
func Default() *Policy {
	return compile(factory(), builtinRules())
}

// Defaults returns the settings of a path that no rule matches.
func (p *Policy) Defaults() Settings { return p.defaults }

// Rules returns the rules in the order in which they decide, the built-in ones
// among them. The caller must not change what they point to.
func (p *Policy) Rules() []Rule { return append([]Rule(nil), p.rules...) }

// WithDefaults returns the same policy with another default wait, as an option
// of a command sets it. Rules with a wait of their own keep it.
func (p *Policy) WithDefaults(wait time.Duration) *Policy {
	d := p.defaults
	d.Wait = wait
	return compile(d, p.rules)
}

// For returns the settings that hold for a path relative to the data root
// ("a/b", without a leading '/'; "" is the root itself).
func (p *Policy) For(relPath string) Settings {
	if s, ok := p.cache.get(relPath); ok {
		return *s
	}
	s := p.decide(relPath)
	p.cache.put(relPath, s)
	return *s
}

// decide finds the first matching glob. What it returns is shared.
func (p *Policy) decide(relPath string) *Settings {
	base := baseName(relPath)
	for i := range p.matchers {
		if m := &p.matchers[i]; m.match(relPath, base) {
			return &m.settings
		}
	}
	return &p.defaults
}

// compile prepares a list of valid rules for matching.
func compile(defaults Settings, rules []Rule) *Policy {
	p := &Policy{defaults: defaults, rules: rules, cache: newCache()}
	for _, r := range rules {
		for _, g := range r.Glob {
			m := newMatcher(g)
			m.settings = r.over(defaults)
			m.settings.Rule = r.origin + ": " + g
			p.matchers = append(p.matchers, m)
		}
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
	return s
}
