package lostupdate

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"latchfs/journal/merge"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// A target is a file with which something is to be merged.
type target struct {
	keepsInode, inTransaction bool
	stamp                     knowledge.Stamp
	base, begins              string // "": that is not there
	asked                     []string
}

func (t *target) KeepsInode() bool       { return t.keepsInode }
func (t *target) InTransaction() bool    { return t.inTransaction }
func (t *target) Stamp() knowledge.Stamp { return t.stamp }
func (t *target) Base(path string, b *knowledge.Basis) ([]byte, bool) {
	t.asked = append(t.asked, path)
	return []byte(t.base), t.base != ""
}

func (t *target) Beginning(size int64) ([]byte, bool) {
	return []byte(t.begins), t.begins != "" && int64(len(t.begins)) == size
}

// merging is a stage where changes are merged, with an overtaken change.
func merging(t *testing.T, test func(s *stage, l *Loss)) {
	t.Helper()
	onStage(t, func(s *stage) {
		s.set.LostUpdate = policy.Merge
		test(s, s.overtaken())
	})
}

func TestWhatIsMerged(t *testing.T) {
	for name, c := range map[string]struct {
		target target
		of     func(s *stage, l *Loss)
		merges bool
		apart  string
	}{
		"merged":             {target: target{base: "old"}, merges: true},
		"refused":            {target: target{base: "old"}, of: func(s *stage, _ *Loss) { s.set.LostUpdate = policy.RefuseLost }},
		"insists":            {target: target{base: "old"}, of: func(_ *stage, l *Loss) { l.Basis.Insists = true }},
		"told already":       {target: target{base: "old"}, of: func(_ *stage, l *Loss) { l.Apart = "it is odd" }, apart: "it is odd"},
		"keeps its inode":    {target: target{base: "old", keepsInode: true, inTransaction: true}, apart: KeepsInode},
		"in a transaction":   {target: target{base: "old", inTransaction: true}, apart: "nothing is merged inside a transaction"},
		"just small enough":  {target: target{base: "old", stamp: knowledge.Stamp{Size: merge.MaxSize}}, merges: true},
		"too large":          {target: target{base: "old", stamp: knowledge.Stamp{Size: merge.MaxSize + 1}}, apart: "the file is too large to be merged"},
		"gone":               {apart: "what that held is no longer there, so that the changes cannot be told apart"},
		"gone, and replaced": {target: target{begins: "0123456789"}, apart: "what that held is no longer there, so that the changes cannot be told apart"},
	} {
		t.Run(name, func(t *testing.T) {
			merging(t, func(s *stage, l *Loss) {
				if c.of != nil {
					c.of(s, l)
				}
				g := l.Merge(&c.target)
				if (g != nil) != c.merges || l.Apart != c.apart {
					t.Errorf("it merges: %v, kept apart for %q", g != nil, l.Apart)
				}
				if g != nil && (string(g.Base()) != "old" || g.Loss != l || g.IsJoined() || c.target.asked[0] != "f") {
					t.Errorf("the merge is %+v of %q", g, c.target.asked)
				}
			})
		})
	}
}

// A file to which nothing has happened but that records were appended begins with what
// is known.
func TestOnlyGrew(t *testing.T) {
	grown := func(s *stage) *Loss {
		s.set.LostUpdate = policy.Merge
		s.write(20, "f")
		s.read(10, "f")
		s.add(20, "f")
		s.add(30, "f")
		// What is appended loses nobody's change; what is written after it may.
		ch := s.change(10, "f")
		b := s.Known.Check(time.Now(), "f", ch.Stamp, ch.Chain, s.set.Fade, knowledge.Readers)
		return &Loss{Change: ch, Maker: s.maker(10)(), Basis: b, j: s.Judge}
	}
	for name, c := range map[string]struct {
		of     func(l *Loss, to *target)
		merges bool
	}{
		"grew":               {func(*Loss, *target) {}, true},
		"grew, and is kept":  {func(_ *Loss, to *target) { to.base, to.begins = "0123456789", "abcdefghij" }, true},
		"another version":    {func(_ *Loss, to *target) { to.stamp.Mtime++ }, false},
		"another operation":  {func(l *Loss, _ *target) { l.Basis.Since[0].Author.Operation = "open" }, false},
		"another inode":      {func(l *Loss, _ *target) { l.Basis.Since[0].Stamp.Ino++ }, false},
		"another device":     {func(l *Loss, _ *target) { l.Basis.Since[0].Stamp.Dev++ }, false},
		"shorter":            {func(l *Loss, _ *target) { l.Basis.Since[0].Stamp.Size = 9 }, false},
		"a version is lost":  {func(l *Loss, _ *target) { l.Basis.Version-- }, false},
		"all are lost":       {func(l *Loss, _ *target) { l.Basis.Since = nil }, false},
		"too long ago":       {func(l *Loss, _ *target) { l.Basis.Stamp = knowledge.Stamp{} }, false},
		"cannot be read now": {func(_ *Loss, to *target) { to.begins = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				l := grown(s)
				if !l.Basis.Stale {
					t.Fatalf("the basis is %+v", l.Basis)
				}
				to := &target{stamp: l.Stamp, begins: "0123456789"}
				c.of(l, to)
				if g := l.Merge(to); (g != nil) != c.merges {
					t.Errorf("it merges: %v", g != nil)
				} else if g != nil && string(g.Base()) != "0123456789" {
					t.Errorf("the base is %q", g.Base())
				}
			})
		})
	}
}

func TestJoin(t *testing.T) {
	merging(t, func(s *stage, l *Loss) {
		l.Path = "f.json"
		s.history = map[knowledge.Stamp]uint64{l.Basis.Stamp: 3, l.Basis.Newer.Stamp: 4}
		g := l.Merge(&target{base: `{"a":1,"b":1}`})
		got, err := g.Join([]byte(`{"a":2,"b":1}`), []byte(`{"a":1,"b":2}`))
		if err != nil || string(got) != `{"a":2,"b":2}` {
			t.Fatalf("joined to %q, %v", got, err)
		}
		if !g.IsJoined() || string(g.Mine()) != `{"a":1,"b":2}` {
			t.Errorf("joined: %v; mine is %q", g.IsJoined(), g.Mine())
		}
		d := map[string]any{}
		g.Note(d)
		text, _ := json.Marshal(d)
		if d["kind"] != "JSON" || d["uid"] != uint32(1010) || d["base"].(map[string]any)["version"] != uint64(3) || d["base"].(map[string]any)["bytes"] != 13 ||
			d["theirs"].(map[string]any)["version"] != uint64(4) || d["mine"] == nil || d["merged"] == nil {
			t.Errorf("the event says %s", text)
		}
		if string(g.TakeMine()) != `{"a":1,"b":2}` || g.Mine() != nil || !g.IsJoined() {
			t.Error("what was written is still there once it is taken")
		}
		if g.Drop(); g.Base() != nil {
			t.Error("the base is still there")
		}
	})
}

// What changes nothing is not written again; that the same was written again is refused,
// where the writer has made the version that it knows itself.
func TestJoinOfTheSame(t *testing.T) {
	const apart = "the same content was written again, over what somebody else has made of it"
	merging(t, func(_ *stage, l *Loss) {
		g := l.Merge(&target{base: "one\n"})
		got, err := g.Join([]byte("one\n"), []byte("two\n"))
		if err != nil || string(got) != "two\n" || g.Mine() != nil || !g.IsJoined() {
			t.Errorf("joined to %q, %v; mine is %q", got, err, g.Mine())
		}
		if got, err = g.Join([]byte("two\n"), []byte("one\n")); err != nil || string(got) != "two\n" {
			t.Errorf("what was read and not changed is joined to %q, %v", got, err)
		}
		l.Basis.Own = true
		var n *NotMerged
		if _, err = g.Join([]byte("two\n"), []byte("one\n")); !errors.As(err, &n) || err.Error() != l.Reason()+" The two changes cannot be merged: "+apart+"." {
			t.Errorf("the same again: %v", err)
		}
		if got, err = g.Join([]byte("one\nmore\n"), []byte("One\n")); err != nil || string(got) != "One\nmore\n" {
			t.Errorf("other content is joined to %q, %v", got, err)
		}
		if got, err = g.Join([]byte("one\n"), []byte("one\n")); err != nil || string(got) != "one\n" {
			t.Errorf("what is there already is joined to %q, %v", got, err)
		}
	})
}

func TestNotMerged(t *testing.T) {
	merging(t, func(s *stage, l *Loss) {
		s.history = map[knowledge.Stamp]uint64{l.Basis.Stamp: 3}
		g := l.Merge(&target{base: "one\nsame\n"})
		_, err := g.Join([]byte("two\nsame\n"), []byte("three\nsame\n"))
		var n *NotMerged
		if !errors.As(err, &n) || n.Loss != l || g.IsJoined() {
			t.Fatalf("a conflict is %v", err)
		}
		if got := err.Error(); got != l.Whole() || l.Apart == "" || l.Apart[:8] != "line 1: " {
			t.Errorf("it says %q, apart for %q", got, l.Apart)
		}
		d := map[string]any{}
		n.Note(d)
		if m := d["merge"].(map[string]any); m["base"] != uint64(3) || m["line"] != 1 || m["reason"] == "" {
			t.Errorf("the event says %v", m)
		}
		if v := n.Verdict(); v.Line != 1 || v.Reason == "" || v.Place != "" {
			t.Errorf("the verdict is %+v", v)
		}

		l.Path = "f.json"
		_, err = (&Merge{Loss: l, base: []byte(`{"a":1}`)}).Join([]byte(`{"a":2}`), []byte(`{"a":3}`))
		if !errors.As(err, &n) || n.Verdict().Place != "the value at a" {
			t.Errorf("a conflict is %v", err)
		}

		n = g.Refuse("it is odd")
		if _ = n.Error(); l.Apart != "it is odd" {
			t.Errorf("apart for %q", l.Apart)
		}
		d = map[string]any{}
		n.Note(d)
		if _, ok := d["merge"].(map[string]any)["line"]; ok {
			t.Error("a reason without a place has a line")
		}
	})
}
