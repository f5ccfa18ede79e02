package knowledge_test

import (
	"testing"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// Of two keys of one file the one counts by which the nearer process knows it, and not
// the one of which somebody farther up has learned last.
func TestNearer(t *testing.T) {
	worker, other, script := lockmgr.Owner{PID: 3}, lockmgr.Owner{PID: 4}, lockmgr.Owner{PID: 2}
	chain := []lockmgr.Owner{worker, script}
	one, two := knowledge.Stamp{Ino: 7, Mtime: 1}, knowledge.Stamp{Ino: 7, Mtime: 2}
	table := knowledge.New(time.Minute)
	now := time.Now()
	by := func(o lockmgr.Owner) knowledge.Who {
		return knowledge.Who{Self: o, Relatives: []lockmgr.Owner{script}}
	}
	for _, key := range []knowledge.Key{"name", "inode"} {
		table.Saw(now, key, one, by(other))
	}
	table.Saw(now, "inode", one, by(worker)) // by a third name
	now = now.Add(time.Second)
	for _, key := range []knowledge.Key{"name", "inode"} {
		table.Changed(now, key, two, by(other), knowledge.Author{})
	}
	check := func(key knowledge.Key) knowledge.Basis {
		return table.Check(now, key, two, chain, time.Minute, knowledge.Readers)
	}
	name, inode := check("name"), check("inode")
	if name.Stale || name.By != script {
		t.Fatalf("under its name the file is known so: %+v", name)
	}
	for _, b := range []knowledge.Basis{name.Nearer(inode, chain), inode.Nearer(name, chain)} {
		if !b.Stale || b.By != worker {
			t.Errorf("what counts is %+v", b)
		}
	}
	for _, b := range []knowledge.Basis{name.Nearer(knowledge.Basis{}, chain), knowledge.Basis{}.Nearer(name, chain)} {
		if b.By != script {
			t.Errorf("of one that is known and one that is not counts %+v", b)
		}
	}
}

func TestIsNobody(t *testing.T) {
	mine := lockmgr.Owner{PID: 1, Start: 1}
	if (knowledge.Who{Self: mine}).IsNobody() {
		t.Error("a process is nobody")
	}
	if !(knowledge.Who{}).IsNobody() || !(knowledge.Who{Above: []lockmgr.Owner{mine}}).IsNobody() {
		t.Error("what no process is named for is somebody")
	}
}
