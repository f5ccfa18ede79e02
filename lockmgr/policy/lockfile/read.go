package lockfile

import (
	"fmt"
	"strings"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/naming"
	"latchfs/lockmgr/policy/internal/position"
	"latchfs/lockmgr/policy/internal/reading"
)

// Table is the key of the [[tables]] of a policy that declare conventions.
const Table = "claim"

// The keys of a convention.
const (
	keyGlob       = "glob"
	keyFormat     = "format"
	keyCovers     = "covers"
	keyRoot       = "root"
	keyTree       = "tree"
	keyTTL        = "ttl"
	keyForeignTTL = "foreign-ttl"
	keyOnStale    = "on-stale"
	keyMalformed  = "malformed"
)

// Keys returns the keys of a convention, in the order in which errors list them.
func Keys() []string {
	return []string{keyGlob, keyFormat, keyCovers, keyRoot, keyTree, keyTTL, keyForeignTTL, keyOnStale, keyMalformed}
}

// lacksOf says which keys mean nothing for a format, and why.
func lacksOf(format Format) (keys []string, reason string) {
	switch format {
	case Beads: // SEED B2, B3
		return []string{keyTTL, keyForeignTTL, keyMalformed}, "only the end of the process that it names makes it stale"
	case LockV1: // SEED T13
		return []string{keyForeignTTL}, "its heartbeat counts on whichever host it was written"
	case OwnerDir:
		return []string{keyForeignTTL}, "its record names no host"
	case Flock:
		return []string{keyTTL, keyForeignTTL, keyOnStale, keyMalformed}, "its file has no content, and the lock ends with its holder"
	case Clawdbot:
	}
	return nil, ""
}

// Read reads the [[tables]] of Table. What is wrong with them the reader has.
func Read(r *reading.Reader, at position.Node, v any) []Convention {
	var list []Convention
	for i, v := range r.Tables(at, Table, v, "a claim") {
		at := at.Item(i)
		c := readOne(r, at, v)
		c.origin = r.Where(at)
		list = append(list, c)
	}
	return list
}

func readOne(r *reading.Reader, at position.Node, v any) Convention {
	table := r.Table(at, v, Keys())
	if table == nil {
		return Convention{}
	}
	for _, key := range []string{keyGlob, keyFormat, keyCovers} {
		if table[key] == nil {
			r.Fail(at, "the claim has no %s", key)
		}
	}
	var c Convention
	if v, ok := table[keyFormat]; ok { // first, for the defaults are the format's
		c = New(reading.Word(r, at.Key(keyFormat), keyFormat, v, Beads, Clawdbot, LockV1, OwnerDir, Flock))
	}
	for key, v := range table {
		c.readKey(r, at.Key(key), key, v)
	}
	c.check(r, at, table)
	return c
}

func (c *Convention) readKey(r *reading.Reader, at position.Node, key string, v any) {
	switch key {
	case keyFormat: // is read
	case keyGlob:
		c.Glob = r.Strings(at, key, v, 1, glob.Check)
	case keyCovers:
		c.Covers = reading.Word(r, at, key, v, CoversFile, CoversDirectory, CoversName)
	case keyRoot:
		c.Root = directory(r, at, key, v)
	case keyTree:
		c.Tree = directory(r, at, key, v)
	case keyTTL:
		c.TTL = r.Span(at, key, v)
	case keyForeignTTL:
		c.ForeignTTL = r.Span(at, key, v)
	case keyOnStale:
		c.OnStale = reading.Word(r, at, key, v, RemoveStale, KeepStale)
	case keyMalformed:
		c.Malformed = reading.Word(r, at, key, v, MalformedLocked, MalformedFree)
	default:
		r.Unknown(at, key, Keys())
	}
}

// directory reads the path of a directory below the data root.
func directory(r *reading.Reader, at position.Node, key string, v any) string {
	dir, ok := v.(string)
	switch {
	case !ok:
		r.Fail(at, "%s must be the path of a directory below the mount", key)
	case !naming.IsDirectory(dir):
		r.Fail(at, `bad %s %q: must be the path of a directory below the mount, as in "locks"`, key, dir)
	}
	return dir
}

// check says what does not go together in a convention.
func (c *Convention) check(r *reading.Reader, at position.Node, table map[string]any) {
	has := func(key string) bool { return table[key] != nil }
	lacks, reason := lacksOf(c.Format)
	for _, key := range lacks {
		if has(key) {
			r.Fail(at.Key(key), "a claim of the format %q has no %s: %s", c.Format, key, reason)
		}
	}
	switch {
	case c.Format == Flock && c.Covers != CoversFile && c.Covers != "":
		r.Fail(at.Key(keyCovers), "a claim of the format %q covers a %q", Flock, CoversFile)
	case has(keyRoot) && c.Covers != CoversFile && c.Covers != "":
		r.Fail(at.Key(keyRoot), "only a claim that covers a %q has a %s", CoversFile, keyRoot)
	case has(keyTree) && !has(keyRoot):
		r.Fail(at.Key(keyTree), "%s is the directory that a %s mirrors, and there is none", keyTree, keyRoot)
	}
	if c.Covers != CoversFile && c.Covers != CoversName {
		return
	}
	for i, glob := range c.Glob {
		if reason := c.checkGlob(glob); reason != "" {
			r.Fail(at.Key(keyGlob).Item(i), "bad glob %q: %s", glob, reason)
		}
	}
}

// checkGlob says why a glob cannot tell what its claim files stand for, or "".
func (c *Convention) checkGlob(pattern string) string {
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
func (c *Convention) belowRoot(pattern string) bool {
	return strings.HasPrefix(pattern, glob.Escape(c.Root)+"/")
}
