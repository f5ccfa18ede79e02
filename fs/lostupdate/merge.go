package lostupdate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"latchfs/journal/merge"
	"latchfs/journal/validate"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Appended is the operation of those who have appended to a file.
const Appended = "append"

// Under the policy "merge" a writer who has read an earlier version is let through
// where that version's content is still there: what it has written is joined with
// the current version when that is replaced.

// Target is the file with which a change is to be merged.
type Target interface {
	// KeepsInode reports whether the file is written in place when it is changed.
	KeepsInode() bool
	// InTransaction reports whether the change belongs to a transaction.
	InTransaction() bool
	// Stamp is the file's as it is now.
	Stamp() knowledge.Stamp
	// Base is what the version of the path held that a basis speaks of, if that is still there.
	Base(path string, b *knowledge.Basis) ([]byte, bool)
	// Beginning is the first bytes of the file.
	Beginning(size int64) ([]byte, bool)
}

// Merge is a change that is to be joined with what has come since.
type Merge struct {
	Loss *Loss
	base []byte
	mine []byte // what was written, once it has been joined with something
	sums map[string]any
}

// KeepsInode is why a file with several names, or one that something is mounted on, is not
// merged.
const KeepsInode = "a file that keeps its inode is never merged"

// Why others are not.
const (
	inTransaction = "nothing is merged inside a transaction"
	tooLarge      = "the file is too large to be merged"
	baseGone      = "what that held is no longer there, so that the changes cannot be told apart"
	sameAgain     = "the same content was written again, over what somebody else has made of it"
)

// Merge prepares to merge what would be lost; nil if that cannot be, and Apart says why.
func (l *Loss) Merge(t Target) *Merge {
	if l.Set.LostUpdate != policy.Merge || l.Insists() {
		return nil
	}
	switch {
	case t.KeepsInode():
		l.Apart = KeepsInode
	case t.InTransaction():
		l.Apart = inTransaction
	case t.Stamp().Size > merge.MaxSize:
		l.Apart = tooLarge
	}
	if l.Apart != "" {
		return nil
	}
	base, ok := t.Base(l.Path, &l.Basis)
	if !ok && l.onlyGrew(t.Stamp()) {
		base, ok = t.Beginning(l.Basis.Stamp.Size)
	}
	if !ok {
		l.Apart = baseGone
		return nil
	}
	return &Merge{Loss: l, base: base}
}

// onlyGrew reports whether nothing has happened to the known version but that records
// were appended: the file as it is now begins with it.
func (l *Loss) onlyGrew(is knowledge.Stamp) bool {
	was, since := l.Basis.Stamp, l.Basis.Since
	if was == (knowledge.Stamp{}) || len(since) == 0 || since[len(since)-1].Stamp != is {
		return false
	}
	number := l.Basis.Version
	for _, c := range since {
		number++
		if c.Number != number || c.Author.Operation != Appended || c.Stamp.Dev != was.Dev || c.Stamp.Ino != was.Ino || c.Stamp.Size < was.Size {
			return false
		}
	}
	return true
}

// Base is what the version holds that the writer knows.
func (g *Merge) Base() []byte { return g.base }

// Drop forgets that: the change was made.
func (g *Merge) Drop() { g.base = nil }

// IsJoined reports whether the change has been joined with a version.
func (g *Merge) IsJoined() bool { return g.sums != nil }

// Mine is what was written, if the joined content is another; nil if not.
func (g *Merge) Mine() []byte { return g.mine }

// TakeMine is Mine for a caller who takes back what was joined.
func (g *Merge) TakeMine() []byte {
	mine := g.mine
	g.mine = nil
	return mine
}

// Join merges mine into theirs. The error is a *NotMerged.
func (g *Merge) Join(theirs, mine []byte) ([]byte, error) {
	l := g.Loss
	if l.Basis.Own && bytes.Equal(mine, g.base) && !bytes.Equal(mine, theirs) {
		// To write the same once more is no change, and yet its writer wants it there.
		return nil, g.Refuse(sameAgain)
	}
	merged, err := merge.Merge(merge.KindOf(l.Path), g.base, theirs, mine)
	if err != nil {
		n := &NotMerged{Loss: l}
		errors.As(err, &n.conflict)
		return nil, n
	}
	known := sum(g.base)
	known["version"] = l.number(l.Basis.Stamp, l.Basis.Version)
	current := sum(theirs)
	if n := len(l.Basis.Since); n > 0 {
		current["version"] = l.number(l.Basis.Since[n-1].Stamp, l.Basis.Since[n-1].Number)
	}
	g.sums = map[string]any{"base": known, "theirs": current, "mine": sum(mine), "merged": sum(merged)}
	if !bytes.Equal(merged, mine) {
		g.mine = mine
	}
	return merged, nil
}

func sum(b []byte) map[string]any {
	h := sha256.Sum256(b)
	return map[string]any{"bytes": len(b), "sha256": hex.EncodeToString(h[:])}
}

// Note adds to an event what was joined.
func (g *Merge) Note(detail map[string]any) {
	detail["uid"] = g.Loss.By.UID
	detail["kind"] = merge.KindOf(g.Loss.Path).String()
	for name, v := range g.sums {
		detail[name] = v
	}
}

// Refuse is the error of a change that is not merged for a reason which has no place in
// the content.
func (g *Merge) Refuse(reason string) *NotMerged {
	return &NotMerged{g.Loss, &merge.Conflict{Reason: reason}}
}

// NotMerged refuses a change that cannot be joined with the current version.
type NotMerged struct {
	Loss     *Loss
	conflict *merge.Conflict
}

// Error tells nothing of the content.
func (e *NotMerged) Error() string {
	e.Loss.Apart = e.conflict.Reason
	if e.conflict.Line > 0 {
		e.Loss.Apart = fmt.Sprintf("line %d: %s", e.conflict.Line, e.conflict.Reason)
	}
	return e.Loss.Whole()
}

// Note adds to an event, or to what is kept, where the conflict is, and the number of the
// version that the refused change was made from.
func (e *NotMerged) Note(detail map[string]any) {
	b := &e.Loss.Basis
	d := map[string]any{"reason": e.conflict.Reason, "base": e.Loss.number(b.Stamp, b.Version)}
	if e.conflict.Line > 0 {
		d["line"] = e.conflict.Line
	}
	detail["merge"] = d
}

// Verdict shows the place to those who may see the content.
func (e *NotMerged) Verdict() *validate.Refusal {
	return &validate.Refusal{Line: e.conflict.Line, Reason: e.conflict.Reason, Place: e.conflict.Place()}
}
