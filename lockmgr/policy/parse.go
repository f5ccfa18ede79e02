package policy

import (
	"slices"
	"time"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/position"
	"latchfs/lockmgr/policy/internal/reading"
	"latchfs/lockmgr/policy/lockfile"
)

// Error is one thing that is wrong with a policy file: the file, the line, and a reason.
// It reads "FILE:LINE: REASON".
type Error = reading.Error

// Errors is everything that is wrong with a policy file, by line. errors.As finds the
// single ones.
type Errors = reading.Errors

// Load reads the policy file at path. Errors are those of reading it, or
// Errors.
func Load(path string) (*Policy, error) { return LoadWith(path, nil) }

// Parse reads a policy as the package comment describes it. The name stands
// for the file in errors, which are always of type Errors, and in
// Settings.Rule.
func Parse(name string, data []byte) (*Policy, error) { return Compose(name, data, nil) }

// read reads what one file says. Its errors are of type Errors.
func read(name string, data []byte) (written, error) {
	doc, values, err := reading.Open(name, data)
	if err != nil {
		return written{}, err
	}
	p := parser{values}
	w := p.document(doc)
	if err := p.Err(); err != nil {
		return written{}, err
	}
	return w, nil
}

// parser turns a decoded document into a policy.
type parser struct{ *reading.Reader }

// The keys that are known, in the order in which errors list them.
const (
	keyBuiltin    = "builtin"
	keyDefaults   = "defaults"
	keyRule       = "rule"
	keyGlob       = "glob"
	keyMode       = "mode"
	keyWait       = "wait"
	keyDurability = "durability"
	keyAppend     = "append"
	keyOnKill     = "on-kill"
	keyGrow       = "grow"
	keyTTL        = "ttl"
	keyOnStale    = "on-stale"
	keyKey        = "key"
	keyActorEnv   = "actor-env"
	keyAlias      = "alias"
	keyClaim      = lockfile.Table
	keyName       = "name"
	keyRoots      = "roots"
	keyLiveIf     = "live-if"
	keyHistory    = "history"
	keyRejected   = "rejected"
	keyMaxBytes   = "max-bytes"
	keyMaxAge     = "max-age"

	keyLostUpdate = "lost-update"
	keyInsist     = "insist"
	keyClaimTTL   = "claim-ttl"
	keyFade       = "fade"
	keyObservers  = "observers"
	keyStrangers  = "strangers"

	keyValidate       = "validate"
	keyMaxSize        = "max-size"
	keyCommand        = "command"
	keyCommandTimeout = "command-timeout"
	keyCommandUser    = "command-user"
)

var (
	documentKeys = []string{keyBuiltin, keyActorEnv, keyDefaults, keyHistory, keyRejected, keyAlias, keyClaim, keyRule}
	settingKeys  = []string{
		keyMode, keyLiveIf, keyWait, keyDurability, keyAppend, keyOnKill, keyGrow, keyTTL, keyOnStale, keyKey,
		keyLostUpdate, keyInsist, keyClaimTTL, keyFade, keyObservers, keyStrangers,
		keyHistory, keyValidate, keyMaxSize, keyCommand, keyCommandTimeout, keyCommandUser,
	}
	boundKeys = []string{keyMaxBytes, keyMaxAge}
	ruleKeys  = append([]string{keyGlob}, settingKeys...)
	aliasKeys = []string{keyName, keyRoots}
)

func (p *parser) document(doc map[string]any) written {
	root := position.Root
	var s written
	s.defaultsFrom = p.Where(root.Key(keyDefaults))
	for key, v := range doc {
		at := root.Key(key)
		switch key {
		case keyBuiltin:
			builtin, ok := v.(bool)
			if !ok {
				p.Fail(at, "builtin must be true or false")
			}
			s.builtin = &builtin
		case keyDefaults:
			s.defaults = p.rule(at, v, settingKeys)
		case keyActorEnv:
			s.actorEnv = p.Strings(at, key, v, 0, checkVariable)
		case keyHistory:
			s.history = p.bounds(at, v)
		case keyRejected:
			s.rejected = p.bounds(at, v)
		case keyAlias:
			s.alias = p.aliases(at, v)
		case keyClaim:
			s.claims = lockfile.Read(p.Reader, at, v)
		case keyRule:
			s.rules = p.rules(at, v)
		default:
			p.Unknown(at, key, documentKeys)
		}
	}
	return s
}

func (p *parser) rules(at position.Node, v any) []Rule {
	var rules []Rule
	for i, v := range p.Tables(at, keyRule, v, "a rule") {
		r := p.rule(at.Item(i), v, ruleKeys)
		if table, ok := v.(map[string]any); ok && table[keyGlob] == nil {
			p.Fail(at.Item(i), "the rule has no glob")
		}
		r.origin = p.Where(at.Item(i))
		rules = append(rules, r)
	}
	return rules
}

// rule reads a table of settings; known says which keys it may have.
func (p *parser) rule(at position.Node, v any, known []string) Rule {
	var r Rule
	for key, v := range p.Table(at, v, known) {
		at := at.Key(key)
		if !slices.Contains(known, key) {
			p.Unknown(at, key, known)
			continue
		}
		if p.content(&r, at, key, v) || p.updates(&r, at, key, v) || p.live(&r, at, key, v) {
			continue
		}
		switch key {
		case keyGlob:
			r.Glob = p.Strings(at, key, v, 1, glob.Check)
		case keyMode:
			r.Mode = reading.Word(p.Reader, at, key, v, Atomic, Live, ReadOnly)
		case keyWait:
			r.Wait = p.Duration(at, key, v)
		case keyDurability:
			r.Durability = reading.Word(p.Reader, at, key, v, AutoDurability, Full, Ordered, Lazy)
		case keyAppend:
			r.Append = reading.Word(p.Reader, at, key, v, Record, Session)
		case keyOnKill:
			r.OnKill = reading.Word(p.Reader, at, key, v, Auto, Rollback, Commit)
		case keyGrow:
			r.Grow = p.grow(at, v)
		case keyTTL:
			r.TTL = p.ttl(at, v)
		case keyOnStale:
			r.OnStale = reading.Word(p.Reader, at, key, v, KeepStale, StealStale)
		case keyKey:
			r.Key = p.lockKey(at, v)
		}
	}
	return r
}

// content reads a setting about what a file holds and held, if key is one.
func (p *parser) content(r *Rule, at position.Node, key string, v any) bool {
	switch key {
	case keyHistory:
		r.History = p.Count(at, key, v, maxHistory)
	case keyValidate:
		r.Validate = p.Strings(at, key, v, 0, checkValidator)
	case keyMaxSize:
		r.MaxSize = p.Bytes(at, key, v)
	case keyCommand:
		r.Command = p.command(at, v)
	case keyCommandTimeout:
		r.CommandTimeout = p.Positive(at, key, v, "a command needs some time")
	case keyCommandUser:
		r.CommandUser = p.commandUser(at, v)
	default:
		return false
	}
	return true
}

// minTTL is the shortest lease. With a shorter one the heartbeats, of which a
// lease has three, would come later than they are due.
const minTTL = Duration(100 * time.Millisecond)

func (p *parser) ttl(at position.Node, v any) *Duration {
	d := p.Duration(at, keyTTL, v)
	if d != nil && 0 < *d && *d < minTTL {
		p.Fail(at, "bad ttl %q: must be at least %v, for a heartbeat is due every third of it; 0s is no lease at all", v, minTTL)
	}
	return d
}
