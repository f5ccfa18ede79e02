package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// TOML writes out the policy in force: every default, and every rule in the
// order in which they decide, the built-in ones among them. Parse reads it back
// as the same policy.
func (p *Policy) TOML() []byte {
	var b bytes.Buffer
	b.WriteString("# The policy in force. The first rule that matches a path decides;\n")
	b.WriteString("# what it leaves unset comes from the defaults.\n")
	fmt.Fprintf(&b, "%-10s = false # the built-in rules are written out below\n", keyBuiltin)
	writeList(&b, keyActorEnv, p.actorEnv)

	d := p.defaults
	wait, ttl, claimTTL, fade := Duration(d.Wait), Duration(d.TTL), Duration(d.ClaimTTL), Duration(d.Fade)
	grow := Duration(d.Grow)
	fmt.Fprintf(&b, "\n[%s]\n", keyDefaults)
	r := Rule{
		Mode: d.Mode, Wait: &wait, Durability: d.Durability, Append: d.Append, OnKill: d.OnKill, Grow: &grow,
		TTL: &ttl, OnStale: d.OnStale, Key: d.Key, History: &d.History,
		LiveIf:     orNone(d.LiveIf),
		LostUpdate: d.LostUpdate, Insist: d.Insist, ClaimTTL: &claimTTL, Fade: &fade, Observers: d.Observers, Strangers: d.Strangers,
	}
	if v := d.Validate; v != nil {
		size, timeout := Bytes(v.MaxSize), Duration(v.Timeout)
		r.Validate, r.MaxSize, r.Command, r.CommandTimeout = v.List(), &size, v.Command, &timeout
		r.CommandUser = v.CommandUser
	}
	writeSettings(&b, r)

	writeBounds(&b, keyHistory, p.history)
	writeBounds(&b, keyRejected, p.rejected)

	for _, a := range p.alias {
		fmt.Fprintf(&b, "\n[[%s]] # %s\n", keyAlias, printable(a.origin))
		fmt.Fprintf(&b, "%-10s = %s\n", keyName, quote(a.Name))
		writeList(&b, keyRoots, a.Roots)
	}

	for i := range p.claims {
		writeClaim(&b, &p.claims[i])
	}

	for _, r := range p.rules {
		fmt.Fprintf(&b, "\n[[%s]] # %s\n", keyRule, printable(r.origin))
		writeList(&b, keyGlob, r.Glob)
		writeSettings(&b, r)
	}
	return b.Bytes()
}

// writeClaim writes out a claim, with what it has from its format.
func writeClaim(b *bytes.Buffer, c *ClaimFile) {
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(b, "%-10s = %s\n", key, quote(value))
		}
	}
	fmt.Fprintf(b, "\n[[%s]] # %s\n", keyClaim, printable(c.origin))
	writeList(b, keyGlob, c.Glob)
	line(keyFormat, string(c.Format))
	line(keyCovers, string(c.Covers))
	line(keyRoot, c.Root)
	line(keyTree, c.Tree)
	terms := map[string]string{
		keyTTL: Duration(c.TTL).String(), keyForeignTTL: Duration(c.ForeignTTL).String(),
		keyOnStale: string(c.OnStale), keyMalformed: string(c.Malformed),
	}
	lacks, _ := claimLacks(c.Format)
	for _, key := range []string{keyTTL, keyForeignTTL, keyOnStale, keyMalformed} {
		if !slices.Contains(lacks, key) {
			line(key, terms[key])
		}
	}
}

// writeSettings writes the settings that a rule has of its own.
func writeSettings(b *bytes.Buffer, r Rule) {
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(b, "%-10s = %s\n", key, quote(value))
		}
	}
	line(keyMode, string(r.Mode))
	if r.LiveIf != nil {
		writeList(b, keyLiveIf, r.LiveIf)
	}
	if r.Wait != nil {
		line(keyWait, r.Wait.String())
	}
	line(keyDurability, string(r.Durability))
	line(keyAppend, string(r.Append))
	line(keyOnKill, string(r.OnKill))
	if r.Grow != nil {
		line(keyGrow, growText(*r.Grow))
	}
	if r.TTL != nil {
		line(keyTTL, r.TTL.String())
	}
	line(keyOnStale, string(r.OnStale))
	line(keyKey, string(r.Key))
	line(keyLostUpdate, string(r.LostUpdate))
	line(keyInsist, string(r.Insist))
	if r.ClaimTTL != nil {
		line(keyClaimTTL, r.ClaimTTL.String())
	}
	if r.Fade != nil {
		line(keyFade, r.Fade.String())
	}
	if r.Observers != nil {
		writeList(b, keyObservers, r.Observers)
	}
	line(keyStrangers, string(r.Strangers))
	if r.History != nil {
		fmt.Fprintf(b, "%-10s = %d\n", keyHistory, *r.History)
	}
	if r.Validate != nil {
		writeList(b, keyValidate, r.Validate)
	}
	if r.MaxSize != nil {
		line(keyMaxSize, r.MaxSize.String())
	}
	if r.Command != nil {
		writeList(b, keyCommand, r.Command)
	}
	if r.CommandTimeout != nil {
		line(keyCommandTimeout, r.CommandTimeout.String())
	}
	line(keyCommandUser, r.CommandUser)
}

func writeBounds(b *bytes.Buffer, store string, limits Bounds) {
	fmt.Fprintf(b, "\n[%s]\n", store)
	fmt.Fprintf(b, "%-10s = %s\n", keyMaxBytes, quote(Bytes(limits.MaxBytes).String()))
	fmt.Fprintf(b, "%-10s = %s\n", keyMaxAge, quote(ageText(limits.MaxAge)))
}

// orNone is a list that is written out although it is empty: the default is not.
func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func writeList(b *bytes.Buffer, key string, list []string) {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	text := strings.Join(quoted, ", ")
	if len(text) > 60 {
		text = "\n    " + strings.Join(quoted, ",\n    ") + ",\n"
	}
	fmt.Fprintf(b, "%-10s = [%s]\n", key, text)
}

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// printable is what may stand in a comment.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, s)
}
