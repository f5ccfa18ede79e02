package lockkey

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"latchfs/lockmgr"
)

func TestKinds(t *testing.T) {
	for k, want := range map[lockmgr.Key][3]bool{ // path, inode, name
		"":                  {true, false, false},
		"a/b":               {true, false, false},
		"name/n":            {true, false, false},
		Inode(0xfe01, 12):   {false, true, false},
		Name("deploy"):      {false, false, true},
		"//something/other": {false, false, false},
	} {
		_, isName := NameOf(k)
		if got := [3]bool{IsPath(k), IsInode(k), isName}; got != want {
			t.Errorf("%q: path, inode, name are %v, want %v", k, got, want)
		}
	}
	if name, _ := NameOf(Name("deploy")); name != "deploy" {
		t.Errorf("the name is %q", name)
	}
	if k := Inode(0xfe01, 12); k != "//inode/fe01:12" {
		t.Errorf("the key of an inode is %q", k)
	}
}

// People are told a path, where there is one, and never an inode beside it.
func TestShown(t *testing.T) {
	inode := Inode(1, 2)
	for _, c := range []struct {
		keys             []lockmgr.Key
		shown, at        string // at: for who asked for "b"
		under            []bool // each key
		shared, sharedOf string
	}{
		{[]lockmgr.Key{"a"}, "a", "a", []bool{true}, "a", "a"},
		{[]lockmgr.Key{inode, "a", "b"}, "a", "b", []bool{false, true, true}, string(inode), "a"},
		{[]lockmgr.Key{inode}, string(inode), string(inode), []bool{true}, string(inode), "a"},
		{[]lockmgr.Key{Name("n"), Name("m")}, "//name/n", "//name/n", []bool{true, true}, "a", "a"},
		{nil, "", "", nil, "a", "a"},
	} {
		h := &lockmgr.Holder{Keys: c.keys}
		if got := Shown(h); got != c.shown {
			t.Errorf("%v is shown as %q, want %q", c.keys, got, c.shown)
		}
		if got := ShownAt(h, "b"); got != c.at {
			t.Errorf("%v is shown at b as %q, want %q", c.keys, got, c.at)
		}
		var under []bool
		for _, k := range c.keys {
			under = append(under, IsShown(h, k))
		}
		if diff := cmp.Diff(c.under, under); diff != "" {
			t.Errorf("%v, shown under:\n%s", c.keys, diff)
		}
		if got := Shared(h, c.sharedOf); got != c.shared {
			t.Errorf("%v shares %q, want %q", c.keys, got, c.shared)
		}
	}
}

func TestTarget(t *testing.T) {
	all := Target{Paths: []string{"a", "b"}, Trees: []string{"d"}, Names: []string{"n"}}
	if path, name := all.First(); path != "a" || name != "" || all.Len() != 4 {
		t.Errorf("%d things, called %q and %q", all.Len(), path, name)
	}
	each := all.Each()
	want := []Target{{Paths: []string{"a"}}, {Paths: []string{"b"}}, {Trees: []string{"d"}}, {Names: []string{"n"}}}
	if diff := cmp.Diff(want, each); diff != "" {
		t.Error(diff)
	}
	rest := all
	for i, one := range each {
		path, name := one.First()
		if !rest.Meets(&one) || path+name == "" {
			t.Errorf("%+v does not meet %+v", rest, one)
		}
		rest = rest.Without(&one)
		if rest.Meets(&one) || rest.Len() != 3-i {
			t.Errorf("%+v is what is left without %+v", rest, one)
		}
	}
	if path, name := rest.First(); path != "" || name != "" {
		t.Errorf("nothing is called %q and %q", path, name)
	}
	// A directory and the file that was there before are two things.
	if (&Target{Paths: []string{"d"}}).Meets(&Target{Trees: []string{"d"}, Names: []string{"d"}}) {
		t.Error("a path meets a tree or a name")
	}
	if all.Len() != 4 || len(all.Paths) != 2 {
		t.Errorf("it has changed: %+v", all)
	}
}

func TestSet(t *testing.T) {
	given := []string{"b", "a", "b"}
	if diff := cmp.Diff([]string{"a", "b"}, Set(given)); diff != "" {
		t.Error(diff)
	}
	if given[0] != "b" {
		t.Error("the list itself was sorted")
	}
}
