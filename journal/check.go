package journal

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"latchfs/journal/audit"
)

// The kinds of findings about the journal.
const (
	FindCorrupt      = "corrupt-journal"    // Open refuses it
	FindForeign      = "foreign-journal"    // whole, but not of this program's version
	FindLost         = "lost-records"       // something is missing, so that Open refuses
	FindTornTail     = "torn-tail"          // cut off by a crash
	FindUnclean      = "unclean-stop"       // the daemon did not stop by itself
	FindOldSegment   = "old-segment"        // replaced, and not removed yet
	FindNewSegment   = "unfinished-segment" // not in its place yet
	FindDamagedEvent = "damaged-events"     // lines that are no JSON objects
	FindKeptAside    = "kept-aside"         // moved here by an earlier repair
)

// corruptPrefix begins the names under which a repair keeps what it replaced.
const corruptPrefix = "corrupt-"

// Checked is what Check has found out about a journal.
type Checked struct {
	Findings []Finding // their paths are relative to the state directory
	// Pending are the intents that the next Open finds begun and not done. If
	// records are lost it is what can be told from the others: some of these may
	// be done, and there may have been more.
	Pending []Intent
	Corrupt bool // Open refuses, also where there is no journal although there was one
	Lost    bool // records are missing or cannot be read, so that names may lack their intent
	Foreign bool // of another version: not ours to repair
	Clean   bool // the next Open reports a clean stop

	segment foundSegment
	next    uint64 // above every intent's ID that could be read
	tokens  uint64 // the highest fencing token that could be read
}

// Known reports whether name is one that this package gives to a file in the
// state directory.
func Known(name string) bool {
	_, ok := segmentNumber(name)
	return ok || name == newSegment || strings.HasPrefix(name, corruptPrefix)
}

// Check examines the journal in the state directory dir, which nobody may have
// open, and changes nothing. An error means that it could not look.
func Check(dir *os.File) (*Checked, error) {
	found, err := findSegment(dir)
	if err != nil {
		return nil, err
	}
	c := &Checked{segment: found, next: 1}
	if err := c.checkTrail(dir); err != nil {
		return nil, err
	}
	if err := c.checkNames(dir); err != nil {
		return nil, err
	}
	if found.name == "" {
		c.noSegment(dir)
		return c, nil
	}
	data, err := readFile(dir, found.name)
	if err != nil {
		return nil, err
	}
	c.checkSegment(data)
	slices.SortFunc(c.Pending, func(a, b Intent) int { return cmp.Compare(a.ID, b.ID) })
	return c, nil
}

// find adds a finding; at is -1 for the file as a whole.
func (c *Checked) find(s Severity, kind, name string, at int64, what, means string) {
	c.Findings = append(c.Findings, Finding{Severity: s, Kind: kind, Path: name, Offset: at, What: what, Means: means})
}

// checkTrail examines the audit trail beside the journal: its lines name fencing tokens,
// too.
func (c *Checked) checkTrail(dir *os.File) error {
	parts, err := audit.Examine(dir)
	if err != nil {
		return err
	}
	for _, x := range parts {
		c.tokens = max(c.tokens, x.Token)
		if x.Torn > 0 {
			c.find(Info, FindTornTail, x.Name, x.TornAt, fmt.Sprintf("%d bytes of an unfinished line", x.Torn),
				"a crash came while it was written, or before it was on disk; the event is lost")
		}
		if x.Damaged > 0 {
			c.find(Problem, FindDamagedEvent, x.Name, x.First, fmt.Sprintf("%d lines are no JSON objects, this being the first", x.Damaged),
				"the audit trail has lost these events; programs that read it may stop here")
		}
	}
	return nil
}

// checkNames looks at the names beside the current segment.
func (c *Checked) checkNames(dir *os.File) error {
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case slices.Contains(c.segment.all, name) && name != c.segment.name:
			c.find(Recoverable, FindOldSegment, name, -1, "a segment of the journal that has a successor",
				"a crash came before its removal; the newest one is the whole truth, and the next mount removes this")
		case name == newSegment:
			c.find(Recoverable, FindNewSegment, name, -1, "a segment of the journal that was being made",
				"a crash came before it got its name; it is worthless, and the next mount writes its own")
		case audit.Unfinished(name):
			c.find(Recoverable, FindNewSegment, name, -1, "left by a rotation or a repair of the audit trail",
				"a crash came before its end; the next mount keeps what is in no other part of the trail, and removes this")
		case strings.HasPrefix(name, corruptPrefix):
			c.find(Info, FindKeptAside, name, -1, "kept by an earlier repair",
				"nothing reads it; remove it when you have seen what you want to see")
		}
	}
	return nil
}

// noSegment tells a state directory that is new from one that has lost its journal.
func (c *Checked) noSegment(dir *os.File) {
	c.Clean = true
	if missesSegment(dir) == nil {
		return
	}
	c.Clean, c.Corrupt, c.Lost = false, true, true
	c.find(Problem, FindLost, segmentPrefix+"*", -1, "there is no journal beside what it belongs to",
		"no crash explains this, so no mount goes on from here: what was under way at the last stop is not known, and fencing tokens would be issued again that were used")
}

// checkSegment examines the current segment.
func (c *Checked) checkSegment(data []byte) {
	name := c.segment.name
	var st state
	intact, err := scan(name, data, func(f frame) error { return st.apply(f.payload) })
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		c.corrupt(corrupt, data)
		return
	}
	c.next, c.tokens = max(st.next, 1), max(c.tokens, st.tokens)
	for _, in := range st.open {
		c.Pending = append(c.Pending, in)
	}
	if torn := int64(len(data)) - intact; torn > 0 && st.started {
		c.find(Info, FindTornTail, name, intact, fmt.Sprintf("%d bytes of an unfinished record", torn),
			"a crash came while it was written; nothing relies on it, and the next mount cuts it off")
	}
	if lost := st.lost(); lost != nil {
		c.Corrupt, c.Lost = true, true
		c.find(Problem, FindLost, name, intact, lost.Error(),
			"it was on disk before the file got its name, so no crash explains this, and no mount goes on from here; what was under way is not known")
	}
	c.Clean = st.clean && !st.running
	if !c.Clean && st.started {
		c.find(Recoverable, FindUnclean, name, -1, "the daemon did not stop by itself",
			"it was killed, or the machine stopped; the next mount looks for what it left")
	}
}

// corrupt reports damage, and collects what can still be read.
func (c *Checked) corrupt(damage *CorruptError, data []byte) {
	c.Corrupt, c.Lost = true, true
	if damage.foreign {
		c.Foreign = true
		c.find(Problem, FindForeign, damage.File, damage.Offset, damage.Reason,
			"its checksums are right, so a newer latchfs has written it, most likely: mount with that one; nothing here is repaired")
		return
	}
	open := map[uint64]Intent{}
	n := 0
	readable(data, func(r record) {
		n++
		c.next, c.tokens = max(c.next, r.Next, r.ID+1), max(c.tokens, r.Tokens)
		switch {
		case r.Op == "begin" && r.Intent != nil:
			open[r.ID] = r.Intent.intent(r.ID)
			c.tokens = max(c.tokens, r.Intent.Token)
		case r.Op == "done":
			delete(open, r.ID)
		}
	})
	for _, in := range open {
		c.Pending = append(c.Pending, in)
	}
	c.find(Problem, FindCorrupt, damage.File, damage.Offset, damage.Reason,
		fmt.Sprintf("no crash explains this, so no mount goes on from here; %d records can still be read, and with them %d changes that may be unfinished",
			n, len(open)))
}

// readable calls fn for every record of a damaged segment that is intact.
func readable(data []byte, fn func(record)) {
	for at := int64(0); at < int64(len(data)); {
		f, err := parseFrame(data, at)
		if err != nil {
			at++
			continue
		}
		var r record
		if strict(f.payload, &r) == nil {
			fn(r)
		}
		at = f.end()
	}
}

// unreadTokens is more than one segment can reserve: what cannot be read any
// more has reserved less.
const unreadTokens = 1 << 40

// tokensAbove returns a fencing token that none can have reached of which only
// known can still be read. The clock is further on than counting ever gets.
func tokensAbove(known uint64) uint64 {
	return max(uint64(time.Now().UnixMicro()), known+min(unreadTokens, math.MaxUint64-known))
}
