package policy

import (
	"fmt"
	"strings"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/naming"
	"latchfs/lockmgr/policy/internal/position"
	"latchfs/lockmgr/policy/internal/reading"
)

// The keys of [[claim]] that no other table has.
const (
	keyClaim      = "claim"
	keyFormat     = "format"
	keyCovers     = "covers"
	keyRoot       = "root"
	keyTree       = "tree"
	keyForeignTTL = "foreign-ttl"
	keyMalformed  = "malformed"
)

var (
	claimKeys = []string{keyGlob, keyFormat, keyCovers, keyRoot, keyTree, keyTTL, keyForeignTTL, keyOnStale, keyMalformed}
)

// claimLacks says which keys mean nothing for a format, and why.
func claimLacks(format ClaimFormat) (keys []string, reason string) {
	switch format {
	case BeadsClaim: // SEED B2, B3
		return []string{keyTTL, keyForeignTTL, keyMalformed}, "only the end of the process that it names makes it stale"
	case LockV1Claim: // SEED T13
		return []string{keyForeignTTL}, "its heartbeat counts on whichever host it was written"
	case OwnerDirClaim:
		return []string{keyForeignTTL}, "its record names no host"
	case FlockClaim:
		return []string{keyTTL, keyForeignTTL, keyOnStale, keyMalformed}, "its file has no content, and the lock ends with its holder"
	case ClawdbotClaim:
	}
	return nil, ""
}

// claimFiles reads the [[claim]] tables.
func (p *parser) claimFiles(at position.Node, v any) []ClaimFile {
	var claims []ClaimFile
	for i, v := range p.Tables(at, keyClaim, v, "a claim") {
		at := at.Item(i)
		c := p.claimFile(at, v)
		c.origin = p.Where(at)
		claims = append(claims, c)
	}
	return claims
}

func (p *parser) claimFile(at position.Node, v any) ClaimFile {
	table := p.Table(at, v, claimKeys)
	if table == nil {
		return ClaimFile{}
	}
	for _, key := range []string{keyGlob, keyFormat, keyCovers} {
		if table[key] == nil {
			p.Fail(at, "the claim has no %s", key)
		}
	}
	var c ClaimFile
	if v, ok := table[keyFormat]; ok { // first, for the defaults are the format's
		c = factoryClaim(reading.Word(p.Reader, at.Key(keyFormat), keyFormat, v,
			BeadsClaim, ClawdbotClaim, LockV1Claim, OwnerDirClaim, FlockClaim))
	}
	for key, v := range table {
		p.claimKey(&c, at.Key(key), key, v)
	}
	p.checkClaim(&c, at, table)
	return c
}

func (p *parser) claimKey(c *ClaimFile, at position.Node, key string, v any) {
	switch key {
	case keyFormat: // is read
	case keyGlob:
		c.Glob = p.Strings(at, key, v, 1, glob.Check)
	case keyCovers:
		c.Covers = reading.Word(p.Reader, at, key, v, CoversFile, CoversDirectory, CoversName)
	case keyRoot:
		c.Root = p.directory(at, key, v)
	case keyTree:
		c.Tree = p.directory(at, key, v)
	case keyTTL:
		c.TTL = p.Span(at, key, v)
	case keyForeignTTL:
		c.ForeignTTL = p.Span(at, key, v)
	case keyOnStale:
		c.OnStale = reading.Word(p.Reader, at, key, v, RemoveStaleClaim, KeepStaleClaim)
	case keyMalformed:
		c.Malformed = reading.Word(p.Reader, at, key, v, MalformedLocked, MalformedFree)
	default:
		p.Unknown(at, key, claimKeys)
	}
}

// directory reads the path of a directory below the data root.
func (p *parser) directory(at position.Node, key string, v any) string {
	dir, ok := v.(string)
	switch {
	case !ok:
		p.Fail(at, "%s must be the path of a directory below the mount", key)
	case !naming.IsDirectory(dir):
		p.Fail(at, `bad %s %q: must be the path of a directory below the mount, as in "locks"`, key, dir)
	}
	return dir
}

// checkClaim says what does not go together in a claim.
func (p *parser) checkClaim(c *ClaimFile, at position.Node, table map[string]any) {
	has := func(key string) bool { return table[key] != nil }
	lacks, reason := claimLacks(c.Format)
	for _, key := range lacks {
		if has(key) {
			p.Fail(at.Key(key), "a claim of the format %q has no %s: %s", c.Format, key, reason)
		}
	}
	switch {
	case c.Format == FlockClaim && c.Covers != CoversFile && c.Covers != "":
		p.Fail(at.Key(keyCovers), "a claim of the format %q covers a %q", FlockClaim, CoversFile)
	case has(keyRoot) && c.Covers != CoversFile && c.Covers != "":
		p.Fail(at.Key(keyRoot), "only a claim that covers a %q has a %s", CoversFile, keyRoot)
	case has(keyTree) && !has(keyRoot):
		p.Fail(at.Key(keyTree), "%s is the directory that a %s mirrors, and there is none", keyTree, keyRoot)
	}
	if c.Covers != CoversFile && c.Covers != CoversName {
		return
	}
	for i, glob := range c.Glob {
		if reason := c.checkGlob(glob); reason != "" {
			p.Fail(at.Key(keyGlob).Item(i), "bad glob %q: %s", glob, reason)
		}
	}
}

// checkGlob says why a glob cannot tell what its claim files stand for, or "".
func (c *ClaimFile) checkGlob(pattern string) string {
	base := glob.Base(pattern)
	dot := strings.LastIndexByte(base, '.')
	extension := base[dot+1:]
	switch {
	case dot < 0 || extension == "" || !glob.IsLiteral(extension):
		return fmt.Sprintf("what a claim file covers is its name without the extension, so that the glob ends in one, as in %q", "*.lock")
	case dot == 0:
		return "nothing is left of the name without its extension"
	case naming.IsDirectory(c.Root) && !c.belowRoot(strings.TrimPrefix(pattern, "/")):
		return fmt.Sprintf("claim files that mirror a tree lie below its %s, as in %q", keyRoot, c.Root+"/**/*."+extension)
	}
	return ""
}

// belowRoot reports whether all that a glob matches lies below the root.
func (c *ClaimFile) belowRoot(pattern string) bool {
	return strings.HasPrefix(pattern, glob.Escape(c.Root)+"/")
}
