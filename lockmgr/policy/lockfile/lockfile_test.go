package lockfile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"latchfs/lockmgr/policy/internal/position"
	"latchfs/lockmgr/policy/internal/reading"
)

// read reads the conventions of a document.
func read(text string) ([]Convention, error) {
	doc, r, err := reading.Open("policy.toml", []byte(text))
	if err != nil {
		return nil, err
	}
	list := Read(r, position.Root.Key(Table), doc[Table])
	return list, r.Err()
}

func mustRead(t testing.TB, text string) []Convention {
	t.Helper()
	list, err := read(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return list
}

// The transcripts under testdata say which conventions are accepted, which are refused and
// how, and what a path stands for. Their commands are
//
//	parse   the [[claim]] tables in the input; prints what is wrong with them, or "ok"
//	claim   one path a line; prints what each is by the last conventions
//	write   the last conventions, written out
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, file string) {
		set := NewSet(nil)
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			var b bytes.Buffer
			switch d.Cmd {
			case "parse":
				list, err := read(d.Input)
				if err != nil {
					return err.Error()
				}
				set = NewSet(list)
				return "ok"
			case "claim":
				for path := range strings.SplitSeq(d.Input, "\n") {
					fmt.Fprintf(&b, "%s: %s\n", path, describe(set, path))
				}
			case "write":
				for _, c := range set.All() {
					Write(&b, c)
				}
			default:
				return "unknown command " + d.Cmd
			}
			return b.String()
		})
	})
}

// describe says what a path is by the conventions.
func describe(s *Set, path string) string {
	if dir, c := s.Record(path); c != nil {
		return "a record of " + dir
	}
	c := s.Of(path)
	if c == nil {
		return "no claim"
	}
	about := fmt.Sprintf(" (%s, ttl %v, foreign %v, on-stale %q, malformed %q; %s)",
		c.Format, c.TTL, c.ForeignTTL, c.OnStale, c.Malformed, c.Origin())
	target, err := c.Target(path)
	if err != nil {
		return "stands for nothing: " + err.Error() + about
	}
	return "stands for " + target.String() + about
}

// some is one convention of each format, with other values than those of the format.
func some() []Convention {
	return []Convention{
		{Glob: []string{"a", `b"\\`, "**/c"}, Format: Beads, Covers: CoversDirectory, OnStale: KeepStale, Malformed: MalformedLocked, origin: "a\nb"},
		{Glob: []string{"*.c"}, Format: Clawdbot, Covers: CoversName, TTL: time.Second, ForeignTTL: time.Hour, OnStale: KeepStale, Malformed: MalformedLocked},
		{Glob: []string{"*.v"}, Format: LockV1, Covers: CoversName, TTL: 0, OnStale: RemoveStale, Malformed: MalformedFree},
		{Glob: []string{`l\[x/**/*.lck`}, Format: OwnerDir, Covers: CoversFile, Root: "l[x", Tree: "a/b", TTL: time.Minute, OnStale: KeepStale, Malformed: MalformedFree},
		{Glob: []string{"*.lock"}, Format: Flock, Covers: CoversFile},
	}
}

var ignoreOrigin = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".origin" }, cmp.Ignore())

func TestWriteReadsBack(t *testing.T) {
	var b bytes.Buffer
	list := some()
	for i := range list {
		Write(&b, &list[i])
	}
	again := mustRead(t, b.String())
	if diff := cmp.Diff(list, again, ignoreOrigin); diff != "" {
		t.Errorf("%s in\n%s", diff, b.String())
	}
	if got := again[0].Origin(); got != "policy.toml:2" {
		t.Errorf("the first is declared in %s", got)
	}
}

// A set is not changed by what becomes of the list that it was made of, and hands out the
// conventions that it matches with.
func TestSetKeepsItsOwn(t *testing.T) {
	list := some()
	s := NewSet(list)
	list[4] = Convention{}
	all := s.All()
	if c := s.Of("d/x.lock"); c == nil || c.Format != Flock || len(all) != len(list) || c != all[4] {
		t.Errorf("%+v", c)
	}
	if s.IsEmpty() || !NewSet(nil).IsEmpty() || NewSet(nil).Of("x.lock") != nil {
		t.Error("only a set without conventions is empty")
	}
	if dir, c := s.Record("l[x/d/a.lck/owner"); dir != "l[x/d/a.lck" || c != all[3] {
		t.Errorf("%q, %+v", dir, c)
	}
	if dir, c := s.Record("x.lock/owner"); dir != "" || c != nil {
		t.Errorf("%q, %+v", dir, c)
	}
}

// A path that lies below no root stands for nothing, whatever matched it.
func TestTargetOutsideOfTheRoot(t *testing.T) {
	c := Convention{Covers: CoversFile, Root: "locks"}
	if target, err := c.Target("locksmith/a.lock"); err == nil {
		t.Errorf("it stands for %v", target)
	}
}

// Below a directory a convention says of the paths there what it says elsewhere of a whole
// tree, and nothing of other paths.
func TestBelow(t *testing.T) {
	const dir = "re[po/{x}"
	list := append(some(), Convention{Glob: []string{"/m/**/*.x"}, Format: Beads, Covers: CoversFile, Root: "m"})
	alone := NewSet(list)
	for i, c := range alone.All() {
		list[i] = c.Below(dir)
	}
	below := NewSet(list)
	for _, path := range []string{"a", "d/a", "d/c", "d.c", "x/d.c", "x/Y.v", "l[x/s/f.lck", "l[x/.lck", "m/s/f.x", "x/y.lock", "z"} {
		c, b := alone.Of(path), below.Of(dir+"/"+path)
		if (c == nil) != (b == nil) {
			t.Errorf("%s: %v, below a directory %v", path, c, b)
		}
		if below.Of(path) != nil || below.Of("x/"+dir+"/"+path) != nil {
			t.Errorf("%s: a claim file elsewhere", path)
		}
		if c == nil || b == nil {
			continue
		}
		want, err := c.Target(path)
		got, errBelow := b.Target(dir + "/" + path)
		if want.Covers != CoversName {
			want.Path = strings.TrimSuffix(dir+"/"+want.Path, "/")
		}
		if (err == nil) != (errBelow == nil) || err == nil && got != want {
			t.Errorf("%s stands for %v, %v, below a directory for %v, %v", path, want, err, got, errBelow)
		}
	}
}

func TestKeysAreComplete(t *testing.T) {
	doc := map[string]any{}
	for _, key := range Keys() {
		doc[key] = true
	}
	r := &reading.Reader{}
	Read(r, position.Root.Key(Table), []any{doc})
	if err := r.Err(); err == nil || strings.Contains(err.Error(), "unknown") {
		t.Errorf("%v", err)
	}
}
