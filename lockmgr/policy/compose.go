package policy

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/naming"
	"latchfs/lockmgr/policy/lockfile"
)

// Preset is a policy that comes with the program, for the whole mount or for a part
// of it.
type Preset struct {
	Name string
	Data []byte // as in a policy file
	// Subtree is the directory for which it is; "" is the whole mount.
	Subtree string
}

// String names the preset as an option of a command does: "NAME" or "NAME=SUBTREE".
func (p Preset) String() string {
	if p.Subtree == "" {
		return p.Name
	}
	return p.Name + "=" + p.Subtree
}

// LoadWith reads the policy file at path, which may be "" for none, and joins it with
// presets as Compose does.
func LoadWith(path string, presets []Preset) (*Policy, error) {
	if path == "" {
		return Compose("", nil, presets)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return Compose(path, data, presets)
}

// Compose joins a policy file with presets.
//
// A preset for the whole mount comes after the file: first the file's rules, then its
// own, and what the file's [defaults] leave unset is the preset's.
//
// Of a preset with a Subtree, everything holds below that alone: its globs, the roots of
// its aliases and claims are below it, and its [defaults] are a last rule for what is
// there. After the rules of the file the preset decides alone there, with the built-in
// rules; of several the innermost. What it leaves unset comes from the defaults of the
// mount. Claims of all are good everywhere, those of the innermost first. The limits of
// the stores are those of the mount.
//
// The variables of actor-env are those of the file; if it has none, those of all
// presets, the innermost first, before the built-in ones.
//
// Errors of the texts are Errors; see CheckPresets for others. An alias of the file and
// one of a preset for the whole mount may not have the same name.
func Compose(name string, data []byte, presets []Preset) (*Policy, error) {
	if err := CheckPresets(presets); err != nil {
		return nil, err
	}
	file, err := read(name, data)
	if err != nil {
		return nil, err
	}
	presets = slices.Clone(presets)
	slices.SortStableFunc(presets, func(a, b Preset) int { return cmp.Compare(depth(b.Subtree), depth(a.Subtree)) })
	whole, parts := written{}, make([]written, 0, len(presets))
	var actorEnv []string
	for _, preset := range presets {
		w, err := read("preset "+preset.String(), preset.Data)
		if err != nil {
			return nil, err
		}
		actorEnv = append(actorEnv, w.actorEnv...)
		if preset.Subtree == "" {
			whole = w
			continue
		}
		parts = append(parts, w.below(preset.Subtree, cmp.Or(file.builtin, w.builtin, &yes)))
	}
	s := factorySource()
	if builtin := cmp.Or(file.builtin, whole.builtin, &yes); *builtin {
		s.rules = builtinRules()
	}
	if actorEnv = distinct(append(actorEnv, s.actorEnv...)); file.actorEnv == nil {
		file.actorEnv = actorEnv
	}
	s = whole.over(s)
	for _, part := range slices.Backward(parts) {
		s = part.over(s)
	}
	s = file.over(s)
	if err := distinctAliases(s.alias); err != nil {
		return nil, err
	}
	return compile(s), nil
}

// yes is what builtin is where nobody says otherwise.
var yes = true

// depth is how many components a path has; the innermost subtree has the most.
func depth(subtree string) int {
	if subtree == "" {
		return 0
	}
	return 1 + strings.Count(subtree, "/")
}

// distinct keeps the first of equal strings.
func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// CheckPresets says what keeps Compose from joining presets: two are for one subtree, or
// a subtree is not the path of a directory below the mount.
func CheckPresets(presets []Preset) error {
	for i, p := range presets {
		if p.Subtree != "" && !naming.IsDirectory(p.Subtree) {
			return fmt.Errorf("preset %s: %q is not the path of a directory below the mount", p, p.Subtree)
		}
		for _, q := range presets[:i] {
			if p.Subtree != q.Subtree {
				continue
			}
			if p.Subtree == "" {
				return fmt.Errorf("the presets %s and %s are both for the whole mount: give one of them a directory, as in %s=DIR", q, p, p.Name)
			}
			return fmt.Errorf("the presets %s and %s are for the same directory", q, p)
		}
	}
	return nil
}

// distinctAliases refuses two aliases of one name, which would be one for the lock
// table; in one file the parser has done so.
func distinctAliases(aliases []Alias) error {
	for i, a := range aliases {
		for _, b := range aliases[:i] {
			if a.Name == b.Name {
				return fmt.Errorf("%s: there is an alias %q already, in %s", b.origin, a.Name, a.origin)
			}
		}
	}
	return nil
}

// written is what one policy file says itself; what it leaves unset is nil or empty.
type written struct {
	builtin      *bool
	defaults     Rule
	actorEnv     []string
	history      writtenBounds
	rejected     writtenBounds
	alias        []Alias
	claims       []lockfile.Convention
	rules        []Rule
	defaultsFrom string // where its defaults stand: "policy.toml:3"
}

// over lays what a file says over what holds without it.
func (w *written) over(s source) source {
	s.defaults = w.defaults.over(s.defaults)
	if w.actorEnv != nil {
		s.actorEnv = w.actorEnv
	}
	s.history = w.history.over(s.history)
	s.rejected = w.rejected.over(s.rejected)
	s.alias = slices.Concat(w.alias, s.alias)
	s.claims = slices.Concat(w.claims, s.claims)
	s.rules = slices.Concat(w.rules, s.rules)
	return s
}

// below returns what a file says where it holds below a directory alone.
func (w *written) below(dir string, builtin *bool) written {
	var part written
	rules := w.rules
	if *builtin {
		rules = slices.Concat(rules, builtinRules())
	}
	for _, r := range append(slices.Clone(rules), Rule{Glob: []string{"/**"}, origin: w.defaultsFrom}) {
		r = r.orElse(w.defaults)
		r.Glob = glob.Below(dir, r.Glob)
		if group, ok := r.Key.Group(); ok {
			r.Key = Key(groupKey + nameBelow(dir, group))
		}
		part.rules = append(part.rules, r)
	}
	for _, a := range w.alias {
		a.Name = nameBelow(dir, a.Name)
		roots := make([]string, len(a.Roots))
		for i, root := range a.Roots {
			roots[i] = naming.Join(glob.Escape(dir), strings.TrimPrefix(root, "/"))
			if root == "." {
				roots[i] = glob.Escape(dir)
			}
		}
		a.Roots = roots
		part.alias = append(part.alias, a)
	}
	for _, c := range w.claims {
		part.claims = append(part.claims, c.Below(dir))
	}
	return part
}

// nameBelow is a name that only the alias or group of that name in that directory has. A
// name of a policy file may be as long as names can be; the sum then takes its end.
func nameBelow(dir, name string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(dir + "\x00" + name)) // never fails
	suffix := fmt.Sprintf("-%016x", sum.Sum64())
	return name[:min(len(name), naming.MaxLen-len(suffix))] + suffix
}

// orElse takes from d what the rule leaves unset.
func (r Rule) orElse(d Rule) Rule {
	r.Mode = cmp.Or(r.Mode, d.Mode)
	r.Wait = cmp.Or(r.Wait, d.Wait)
	r.Durability = cmp.Or(r.Durability, d.Durability)
	r.Append = cmp.Or(r.Append, d.Append)
	r.OnKill = cmp.Or(r.OnKill, d.OnKill)
	r.Grow = cmp.Or(r.Grow, d.Grow)
	r.TTL = cmp.Or(r.TTL, d.TTL)
	r.OnStale = cmp.Or(r.OnStale, d.OnStale)
	r.Key = cmp.Or(r.Key, d.Key)
	r.History = cmp.Or(r.History, d.History)
	r.LiveIf = listOr(r.LiveIf, d.LiveIf)

	r.LostUpdate = cmp.Or(r.LostUpdate, d.LostUpdate)
	r.Insist = cmp.Or(r.Insist, d.Insist)
	r.ClaimTTL = cmp.Or(r.ClaimTTL, d.ClaimTTL)
	r.Fade = cmp.Or(r.Fade, d.Fade)
	r.Observers = listOr(r.Observers, d.Observers)
	r.Strangers = cmp.Or(r.Strangers, d.Strangers)

	r.Validate = listOr(r.Validate, d.Validate)
	r.MaxSize = cmp.Or(r.MaxSize, d.MaxSize)
	r.Command = listOr(r.Command, d.Command)
	r.CommandTimeout = cmp.Or(r.CommandTimeout, d.CommandTimeout)
	r.CommandUser = cmp.Or(r.CommandUser, d.CommandUser)
	return r
}

// listOr is the first list that is set; one without entries is.
func listOr(a, b []string) []string {
	if a != nil {
		return a
	}
	return b
}
