package policy

import (
	"fmt"
	"path"
	"strings"
	"time"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/position"
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
	list, ok := v.([]any)
	if !ok {
		p.fail(at, "a claim starts with [[claim]], in double brackets")
		return nil
	}
	var claims []ClaimFile
	for i, v := range list {
		at := at.Item(i)
		c := p.claimFile(at, v)
		c.origin = fmt.Sprintf("%s:%d", p.file, p.at.Line(at))
		claims = append(claims, c)
	}
	return claims
}

func (p *parser) claimFile(at position.Node, v any) ClaimFile {
	table, ok := v.(map[string]any)
	if !ok {
		p.fail(at, "must be a table of %s", strings.Join(claimKeys, ", "))
		return ClaimFile{}
	}
	for _, key := range []string{keyGlob, keyFormat, keyCovers} {
		if table[key] == nil {
			p.fail(at, "the claim has no %s", key)
		}
	}
	var c ClaimFile
	if v, ok := table[keyFormat]; ok { // first, for the defaults are the format's
		c = factoryClaim(word(p, at.Key(keyFormat), keyFormat, v,
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
		c.Glob = p.strings(at, key, v, 1, glob.Check)
	case keyCovers:
		c.Covers = word(p, at, key, v, CoversFile, CoversDirectory, CoversName)
	case keyRoot:
		c.Root = p.directory(at, key, v)
	case keyTree:
		c.Tree = p.directory(at, key, v)
	case keyTTL:
		c.TTL = p.span(at, key, v)
	case keyForeignTTL:
		c.ForeignTTL = p.span(at, key, v)
	case keyOnStale:
		c.OnStale = word(p, at, key, v, RemoveStaleClaim, KeepStaleClaim)
	case keyMalformed:
		c.Malformed = word(p, at, key, v, MalformedLocked, MalformedFree)
	default:
		p.unknown(at, key, claimKeys)
	}
}

// span reads a duration, 0 where it cannot be read.
func (p *parser) span(at position.Node, key string, v any) time.Duration {
	if d := p.duration(at, key, v); d != nil {
		return time.Duration(*d)
	}
	return 0
}

// directory reads the path of a directory below the data root.
func (p *parser) directory(at position.Node, key string, v any) string {
	dir, ok := v.(string)
	switch {
	case !ok:
		p.fail(at, "%s must be the path of a directory below the mount", key)
	case !cleanDirectory(dir):
		p.fail(at, `bad %s %q: must be the path of a directory below the mount, as in "locks"`, key, dir)
	}
	return dir
}

// cleanDirectory reports whether dir is a path as the kernel gives them, below the
// data root and not that itself.
func cleanDirectory(dir string) bool {
	return dir != "" && dir != "." && dir != ".." && !strings.HasPrefix(dir, "/") && !strings.HasPrefix(dir, "../") &&
		!strings.ContainsRune(dir, 0) && path.Clean(dir) == dir
}

// checkClaim says what does not go together in a claim.
func (p *parser) checkClaim(c *ClaimFile, at position.Node, table map[string]any) {
	has := func(key string) bool { return table[key] != nil }
	lacks, reason := claimLacks(c.Format)
	for _, key := range lacks {
		if has(key) {
			p.fail(at.Key(key), "a claim of the format %q has no %s: %s", c.Format, key, reason)
		}
	}
	switch {
	case c.Format == FlockClaim && c.Covers != CoversFile && c.Covers != "":
		p.fail(at.Key(keyCovers), "a claim of the format %q covers a %q", FlockClaim, CoversFile)
	case has(keyRoot) && c.Covers != CoversFile && c.Covers != "":
		p.fail(at.Key(keyRoot), "only a claim that covers a %q has a %s", CoversFile, keyRoot)
	case has(keyTree) && !has(keyRoot):
		p.fail(at.Key(keyTree), "%s is the directory that a %s mirrors, and there is none", keyTree, keyRoot)
	}
	if c.Covers != CoversFile && c.Covers != CoversName {
		return
	}
	for i, glob := range c.Glob {
		if reason := c.checkGlob(glob); reason != "" {
			p.fail(globNode(p, at, i), "bad glob %q: %s", glob, reason)
		}
	}
}

// globNode is the place of a glob: one that is no list has that of its key.
func globNode(p *parser, at position.Node, i int) position.Node {
	at = at.Key(keyGlob)
	if item := at.Item(i); p.at[item] != 0 {
		return item
	}
	return at
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
	case cleanDirectory(c.Root) && !c.belowRoot(strings.TrimPrefix(pattern, "/")):
		return fmt.Sprintf("claim files that mirror a tree lie below its %s, as in %q", keyRoot, c.Root+"/**/*."+extension)
	}
	return ""
}

// belowRoot reports whether all that a glob matches lies below the root.
func (c *ClaimFile) belowRoot(pattern string) bool {
	return strings.HasPrefix(pattern, glob.Escape(c.Root)+"/")
}
