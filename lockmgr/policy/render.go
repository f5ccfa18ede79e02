package policy

import (
	"bytes"
	"fmt"

	"latchfs/lockmgr/policy/internal/reading"
	"latchfs/lockmgr/policy/lockfile"
)

// TOML writes out the policy in force: every default, and every rule in the
// order in which they decide, the built-in ones among them. Parse reads it back
// as the same policy.
func (p *Policy) TOML() []byte {
	var b bytes.Buffer
	b.WriteString("# The policy in force. The first rule that matches a path decides;\n")
	b.WriteString("# what it leaves unset comes from the defaults.\n")
	fmt.Fprintf(&b, "%-10s = false # the built-in rules are written out below\n", keyBuiltin)
	reading.WriteList(&b, keyActorEnv, p.actorEnv)

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
		reading.WriteTable(&b, keyAlias, a.origin)
		reading.WriteText(&b, keyName, a.Name)
		reading.WriteList(&b, keyRoots, a.Roots)
	}

	for i := range p.claims {
		lockfile.Write(&b, &p.claims[i])
	}

	for _, r := range p.rules {
		reading.WriteTable(&b, keyRule, r.origin)
		reading.WriteList(&b, keyGlob, r.Glob)
		writeSettings(&b, r)
	}
	return b.Bytes()
}

// writeSettings writes the settings that a rule has of its own.
func writeSettings(b *bytes.Buffer, r Rule) {
	line := func(key, value string) { reading.WriteText(b, key, value) }
	line(keyMode, string(r.Mode))
	if r.LiveIf != nil {
		reading.WriteList(b, keyLiveIf, r.LiveIf)
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
		reading.WriteList(b, keyObservers, r.Observers)
	}
	line(keyStrangers, string(r.Strangers))
	if r.History != nil {
		fmt.Fprintf(b, "%-10s = %d\n", keyHistory, *r.History)
	}
	if r.Validate != nil {
		reading.WriteList(b, keyValidate, r.Validate)
	}
	if r.MaxSize != nil {
		line(keyMaxSize, r.MaxSize.String())
	}
	if r.Command != nil {
		reading.WriteList(b, keyCommand, r.Command)
	}
	if r.CommandTimeout != nil {
		line(keyCommandTimeout, r.CommandTimeout.String())
	}
	line(keyCommandUser, r.CommandUser)
}

func writeBounds(b *bytes.Buffer, store string, limits Bounds) {
	fmt.Fprintf(b, "\n[%s]\n", store)
	reading.WriteText(b, keyMaxBytes, Bytes(limits.MaxBytes).String())
	reading.WriteText(b, keyMaxAge, reading.AgeText(limits.MaxAge))
}

// orNone is a list that is written out although it is empty: the default is not.
func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
