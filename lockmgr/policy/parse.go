package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/position"
)

// Error is one thing that is wrong with a policy file.
type Error struct {
	File   string
	Line   int // from 1
	Reason string
}

// Error returns "FILE:LINE: REASON", the form that editors jump to.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Errors is everything that is wrong with a policy file, by line.
type Errors []*Error

// Error returns one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find the single errors.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// Load reads the policy file at path. Errors are those of reading it, or
// Errors.
func Load(path string) (*Policy, error) { return LoadWith(path, nil) }

// Parse reads a policy as the package comment describes it. The name stands
// for the file in errors, which are always of type Errors, and in
// Settings.Rule.
func Parse(name string, data []byte) (*Policy, error) { return Compose(name, data, nil) }

// read reads what one file says. Its errors are of type Errors.
func read(name string, data []byte) (written, error) {
	var doc map[string]any
	if err := toml.Unmarshal(data, &doc); err != nil {
		return written{}, Errors{syntaxError(name, err)}
	}
	p := parser{file: name, at: position.Locate(data)}
	w := p.document(doc)
	if len(p.errs) > 0 {
		slices.SortStableFunc(p.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
		return written{}, p.errs
	}
	return w, nil
}

// syntaxError turns what the TOML decoder found into an error of ours.
func syntaxError(file string, err error) *Error {
	e := &Error{File: file, Line: 1, Reason: strings.TrimPrefix(err.Error(), "toml: ")}
	var de *toml.DecodeError
	if errors.As(err, &de) {
		e.Line, _ = de.Position()
	}
	return e
}

// parser turns a decoded document into a policy and collects what is wrong.
// The document is decoded into maps and judged here, for the decoder's strict
// mode matches keys without regard to case and stops at the first wrong type.
type parser struct {
	file string
	at   position.Map
	errs Errors
}

// fail records an error at the line of a node.
func (p *parser) fail(at position.Node, format string, args ...any) {
	p.errs = append(p.errs, &Error{File: p.file, Line: p.at.Line(at), Reason: fmt.Sprintf(format, args...)})
}

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
	s.defaultsFrom = fmt.Sprintf("%s:%d", p.file, p.at.Line(root.Key(keyDefaults)))
	for key, v := range doc {
		at := root.Key(key)
		switch key {
		case keyBuiltin:
			builtin, ok := v.(bool)
			if !ok {
				p.fail(at, "builtin must be true or false")
			}
			s.builtin = &builtin
		case keyDefaults:
			s.defaults = p.rule(at, v, settingKeys)
		case keyActorEnv:
			s.actorEnv = p.strings(at, key, v, 0, checkVariable)
		case keyHistory:
			s.history = p.bounds(at, v)
		case keyRejected:
			s.rejected = p.bounds(at, v)
		case keyAlias:
			s.alias = p.aliases(at, v)
		case keyClaim:
			s.claims = p.claimFiles(at, v)
		case keyRule:
			s.rules = p.rules(at, v)
		default:
			p.unknown(at, key, documentKeys)
		}
	}
	return s
}

func (p *parser) rules(at position.Node, v any) []Rule {
	list, ok := v.([]any)
	if !ok {
		p.fail(at, "a rule starts with [[rule]], in double brackets")
		return nil
	}
	var rules []Rule
	for i, v := range list {
		r := p.rule(at.Item(i), v, ruleKeys)
		if table, ok := v.(map[string]any); ok && table[keyGlob] == nil {
			p.fail(at.Item(i), "the rule has no glob")
		}
		r.origin = fmt.Sprintf("%s:%d", p.file, p.at.Line(at.Item(i)))
		rules = append(rules, r)
	}
	return rules
}

// rule reads a table of settings; known says which keys it may have.
func (p *parser) rule(at position.Node, v any, known []string) Rule {
	var r Rule
	table, ok := v.(map[string]any)
	if !ok {
		p.fail(at, "must be a table of %s", strings.Join(known, ", "))
		return r
	}
	for key, v := range table {
		at := at.Key(key)
		if !slices.Contains(known, key) {
			p.unknown(at, key, known)
			continue
		}
		if p.content(&r, at, key, v) || p.updates(&r, at, key, v) || p.live(&r, at, key, v) {
			continue
		}
		switch key {
		case keyGlob:
			r.Glob = p.strings(at, key, v, 1, glob.Check)
		case keyMode:
			r.Mode = word(p, at, key, v, Atomic, Live, ReadOnly)
		case keyWait:
			r.Wait = p.duration(at, key, v)
		case keyDurability:
			r.Durability = word(p, at, key, v, AutoDurability, Full, Ordered, Lazy)
		case keyAppend:
			r.Append = word(p, at, key, v, Record, Session)
		case keyOnKill:
			r.OnKill = word(p, at, key, v, Auto, Rollback, Commit)
		case keyGrow:
			r.Grow = p.grow(at, v)
		case keyTTL:
			r.TTL = p.ttl(at, v)
		case keyOnStale:
			r.OnStale = word(p, at, key, v, KeepStale, StealStale)
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
		r.History = p.count(at, key, v)
	case keyValidate:
		r.Validate = p.strings(at, key, v, 0, checkValidator)
	case keyMaxSize:
		r.MaxSize = p.bytes(at, key, v)
	case keyCommand:
		r.Command = p.command(at, v)
	case keyCommandTimeout:
		r.CommandTimeout = p.positive(at, key, v, "a command needs some time")
	case keyCommandUser:
		r.CommandUser = p.commandUser(at, v)
	default:
		return false
	}
	return true
}

// strings reads one string or a list of them. The check says what is wrong with
// one, or "".
func (p *parser) strings(at position.Node, key string, v any, atLeast int, check func(string) string) []string {
	if s, ok := v.(string); ok {
		v = []any{s}
	}
	want := key + " must be a string or a list of strings"
	if atLeast > 0 {
		want += ", and not empty"
	}
	list, ok := v.([]any)
	if !ok || len(list) < atLeast {
		p.fail(at, "%s", want)
		return nil
	}
	read := make([]string, 0, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			p.fail(at.Item(i), "%s", want)
			continue
		}
		if reason := check(s); reason != "" {
			p.fail(at.Item(i), "%s", reason)
		}
		read = append(read, s)
	}
	return read
}

// duration reads a duration, nil where it cannot be read.
func (p *parser) duration(at position.Node, key string, v any) *Duration {
	s, ok := v.(string)
	if !ok {
		p.fail(at, `%s must be a string with a unit, as in "30s", "1m30s" or "0s"`, key)
		return nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		p.fail(at, `bad %s %q: a duration is written as in "30s", "1m30s" or "0s"`, key, s)
		return nil
	case d < 0:
		p.fail(at, "bad %s %q: a duration cannot be negative", key, s)
		return nil
	}
	return (*Duration)(&d)
}

// positive reads a duration that cannot be 0, for a reason.
func (p *parser) positive(at position.Node, key string, v any, reason string) *Duration {
	d := p.duration(at, key, v)
	if d != nil && *d == 0 {
		p.fail(at, "bad %s %q: %s", key, v, reason)
	}
	return d
}

// minTTL is the shortest lease. With a shorter one the heartbeats, of which a
// lease has three, would come later than they are due.
const minTTL = Duration(100 * time.Millisecond)

func (p *parser) ttl(at position.Node, v any) *Duration {
	d := p.duration(at, keyTTL, v)
	if d != nil && 0 < *d && *d < minTTL {
		p.fail(at, "bad ttl %q: must be at least %v, for a heartbeat is due every third of it; 0s is no lease at all", v, minTTL)
	}
	return d
}

// word reads one of a few known words.
func word[T ~string](p *parser, at position.Node, key string, v any, known ...T) T {
	s, ok := v.(string)
	if ok && slices.Contains(known, T(s)) {
		return T(s)
	}
	words := make([]string, len(known))
	for i, w := range known {
		words[i] = fmt.Sprintf("%q", string(w))
	}
	if ok {
		p.fail(at, "bad %s %q: must be one of %s", key, s, strings.Join(words, ", "))
	} else {
		p.fail(at, "%s must be one of %s", key, strings.Join(words, ", "))
	}
	return ""
}

func (p *parser) unknown(at position.Node, key string, known []string) {
	p.fail(at, "unknown key %q: known here are %s", key, strings.Join(known, ", "))
}
