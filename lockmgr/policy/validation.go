package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"latchfs/lockmgr/policy/internal/position"
	"latchfs/lockmgr/policy/internal/reading"
)

// Format is a syntax that a file's content must have.
type Format string

// The formats (DESIGN 4.2).
const (
	JSON  Format = "json"
	JSONL Format = "jsonl" // one JSON value a line
	TOML  Format = "toml"
	YAML  Format = "yaml"
)

// nonEmpty stands beside the formats in a policy's list (SEED C12).
const nonEmpty = "non-empty"

// Validation says which content a commit accepts. All of it must hold.
type Validation struct {
	Formats  []Format
	NonEmpty bool
	MaxSize  int64 // in bytes; 0: any
	// Command is a program with its arguments that judges the content; empty:
	// none. One that takes longer than Timeout refuses.
	Command []string
	Timeout time.Duration
	// CommandUser is the user as whom root runs Command: a name or a number.
	CommandUser string
}

// defaultTimeout is how long a validating command may take.
const defaultTimeout = 10 * time.Second

// defaultCommandUser is the user as whom root runs a validating command.
const defaultCommandUser = "nobody"

// validation lays the rule's own validation over v, which may be nil and is not
// changed. What accepts everything is nil.
func (r Rule) validation(v *Validation) *Validation {
	out := Validation{Timeout: defaultTimeout, CommandUser: defaultCommandUser}
	if v != nil {
		out = *v
	}
	if r.Validate != nil {
		out.Formats, out.NonEmpty = nil, false
		for _, name := range r.Validate {
			if name == nonEmpty {
				out.NonEmpty = true
			} else {
				out.Formats = append(out.Formats, Format(name))
			}
		}
	}
	if r.MaxSize != nil {
		out.MaxSize = int64(*r.MaxSize)
	}
	if r.Command != nil {
		out.Command = r.Command
	}
	if r.CommandTimeout != nil {
		out.Timeout = time.Duration(*r.CommandTimeout)
	}
	if r.CommandUser != "" {
		out.CommandUser = r.CommandUser
	}
	if len(out.Formats) == 0 && !out.NonEmpty && out.MaxSize == 0 && len(out.Command) == 0 {
		return nil
	}
	return &out
}

// List is the value of the policy's validate that says the same.
func (v *Validation) List() []string {
	var list []string
	if v == nil {
		return nil
	}
	for _, f := range v.Formats {
		list = append(list, string(f))
	}
	if v.NonEmpty {
		list = append(list, nonEmpty)
	}
	return list
}

// String describes v for people: "json, non-empty, at most 10MiB".
func (v *Validation) String() string {
	if v == nil {
		return "-"
	}
	words := v.List()
	if v.MaxSize > 0 {
		words = append(words, "at most "+Bytes(v.MaxSize).String())
	}
	if len(v.Command) > 0 {
		words = append(words, "command "+v.Command[0])
	}
	return strings.Join(words, ", ")
}

// Bytes is a size that reads and prints as in "10MiB".
type Bytes = reading.Bytes

func checkValidator(name string) string {
	known := []string{string(JSON), string(JSONL), string(TOML), string(YAML), nonEmpty}
	if slices.Contains(known, name) {
		return ""
	}
	return fmt.Sprintf("bad %s %q: known are %s", keyValidate, name, strings.Join(known, ", "))
}

// CommandUsers are the users as whom the policy has commands run, in order.
func (p *Policy) CommandUsers() []string {
	var users []string
	add := func(v *Validation) {
		if v != nil && len(v.Command) > 0 && !slices.Contains(users, v.CommandUser) {
			users = append(users, v.CommandUser)
		}
	}
	add(p.defaults.Validate)
	for _, r := range p.rules {
		add(r.validation(p.defaults.Validate))
	}
	slices.Sort(users)
	return users
}

// commandUser reads the name or number of a user who is not root: the content of a
// file may be anybody's, and what judges it is not to be more than that.
func (p *parser) commandUser(at position.Node, v any) string {
	user, ok := v.(string)
	if n, isNumber := v.(int64); isNumber && n >= 0 {
		user, ok = strconv.FormatInt(n, 10), true
	}
	switch {
	case !ok || user == "" || strings.ContainsAny(user, ":\x00\n"):
		p.Fail(at, "%s must be the name or the number of a user", keyCommandUser)
	case user == "root" || strings.Trim(user, "0") == "":
		p.Fail(at, "bad %s %q: a command cannot run as root", keyCommandUser, user)
	}
	return user
}

// command reads a program with its arguments. It has no shell, so the program is
// one word, and an absolute path: the daemon's PATH is nobody's business.
func (p *parser) command(at position.Node, v any) []string {
	words := p.Strings(at, keyCommand, v, 0, func(s string) string {
		if strings.ContainsRune(s, 0) {
			return keyCommand + " holds a zero byte"
		}
		return ""
	})
	if len(words) > 0 && !strings.HasPrefix(words[0], "/") {
		p.Fail(at, "bad %s %q: the program must be given with its absolute path, and each argument as a string of its own", keyCommand, words[0])
	}
	return words
}
