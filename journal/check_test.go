package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"latchfs/journal/audit"
)

// mustCheck runs Check, which must change nothing.
func mustCheck(t testing.TB, o *opener) *Checked {
	t.Helper()
	before := o.files()
	c, err := Check(o.dir)
	check(t, err)
	if diff := cmp.Diff(before, o.files()); diff != "" {
		t.Fatalf("Check has changed something: %s", diff)
	}
	return c
}

// kinds are the kinds of the findings with their severities.
func kinds(c *Checked) []string {
	var all []string
	for _, f := range c.Findings {
		all = append(all, string(f.Severity)+" "+f.Kind)
	}
	return all
}

func mustFind(t testing.TB, o *opener, want ...string) *Checked {
	t.Helper()
	c := mustCheck(t, o)
	if diff := cmp.Diff(want, kinds(c)); diff != "" {
		t.Errorf("findings: %s", diff)
	}
	return c
}

// What Check says of a segment is what Open does with it.
func agrees(t testing.TB, o *opener, c *Checked) {
	t.Helper()
	j, err := Open(o.dir, o.opts)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) || !c.Corrupt {
			t.Fatalf("Open says %v, Check has found %q", err, kinds(c))
		}
		return
	}
	defer j.Close()
	if c.Corrupt || c.Clean != j.Clean() {
		t.Fatalf("Open reads it, clean %v; Check has found %q", j.Clean(), kinds(c))
	}
	if diff := cmp.Diff(j.Pending(), c.Pending); diff != "" {
		t.Fatalf("pending: %s", diff)
	}
}

func TestCheckAgreesWithOpenOnPrefixes(t *testing.T) {
	name, data := realSegment(t)
	for n := 0; n <= len(data); n += 1 + n%7 { // at all places in a frame, sooner or later
		o := withSegment(t, name, data[:n])
		agrees(t, o, mustCheck(t, o))
	}
}

func TestCheckAgreesWithOpenOnDamage(t *testing.T) {
	name, data := realSegment(t)
	for at := 0; at < len(data); at += 1 + at%13 {
		bad := slices.Clone(data)
		bad[at] ^= 0xff
		o := withSegment(t, name, bad)
		c := mustCheck(t, o)
		agrees(t, o, c)
		if c.Foreign {
			t.Fatalf("damage at byte %d is taken for another version", at)
		}
	}
}

func TestCheckOfAJournalInOrder(t *testing.T) {
	o := newOpener(t)
	mustFind(t, o)
	j := o.open()
	must[uint64](t)(j.Begin(fullIntent))
	check(t, os.WriteFile(o.path(audit.Name), []byte("{}\n"), 0o600))
	mustFind(t, o, "recoverable unclean-stop")
	check(t, j.Close())
	mustFind(t, o)
}

func TestCheckOfWhatACrashLeaves(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	segment := o.files()[j.seg.name]
	check(t, j.Close())
	check(t, os.WriteFile(o.path(segmentName(9)), []byte(segment+"\x05\x00\x00"), 0o600))
	check(t, os.WriteFile(o.path(newSegment), []byte("half"), 0o600))
	check(t, os.WriteFile(o.path(audit.Name), []byte("{}\n{\"ev"), 0o600))
	c := mustFind(t, o, "info torn-tail", "recoverable old-segment", "recoverable unfinished-segment",
		"info torn-tail", "recoverable unclean-stop")
	if at := c.Findings[3].Offset; at != int64(len(segment)) {
		t.Errorf("the tail is reported at %d, not %d", at, len(segment))
	}
	check(t, o.open().Close())
	mustFind(t, o, "info torn-tail", "recoverable unclean-stop") // the trail's; and nobody has looked for orphans yet
}

func TestCheckOfLostRecords(t *testing.T) {
	name, data := realSegment(t)
	first := frames(t, data)[0]
	for _, n := range []int64{0, headerSize, first.end()} { // of an intent that it was to carry over
		c := mustCheck(t, withSegment(t, name, data[:n]))
		if !c.Lost || !slices.Contains(kinds(c), "problem "+FindLost) {
			t.Errorf("%d bytes left: %q", n, kinds(c))
		}
	}
}

// A journal that is gone does not begin anew beside what it belongs to: what was under way
// would be forgotten.
func TestNoSegmentBesideTheRest(t *testing.T) {
	for name, content := range map[string]string{audit.Name: "{}\n", "history": "", "knowledge.log": "", "corrupt-" + segmentName(1): ""} {
		o := newOpener(t)
		check(t, os.WriteFile(o.path(name), []byte(content), 0o600))
		c := mustFind(t, o, slices.Concat([]string{}, map[bool][]string{true: {"info " + FindKeptAside}}[name[0] == 'c'], []string{"problem " + FindLost})...)
		if !c.Lost || c.Clean {
			t.Errorf("no segment beside %s: %+v", name, c)
		}
		before := o.files()
		if _, err := Open(o.dir, o.opts); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("no segment beside %s: %v", name, err)
		}
		if diff := cmp.Diff(before, o.files()); diff != "" {
			t.Errorf("refused, but changed: %s", diff)
		}
	}
	o := newOpener(t) // a first start that was cut short
	for _, name := range []string{"daemon.lock", ".gitignore", newSegment, audit.Name} {
		check(t, os.WriteFile(o.path(name), nil, 0o600))
	}
	agrees(t, o, mustFind(t, o, "recoverable "+FindNewSegment))
}

// A newer program's journal is not damage.
func TestCheckOfAnotherVersion(t *testing.T) {
	header := appendHeader(nil)
	header[8] = 9
	header = append(header[:12], appendHeader(nil)[12:]...)
	b := appendFrame(appendHeader(nil), 0, []byte(`{"op":"start"}`))
	for name, data := range map[string][]byte{
		"record": appendFrame(slices.Clone(b), 0, []byte(`{"op":"teleport"}`)),
		"field":  appendFrame(slices.Clone(b), 0, []byte(`{"op":"close","speed":9}`)),
		"header": newerHeader(),
	} {
		t.Run(name, func(t *testing.T) {
			o := withSegment(t, segmentName(1), data)
			c := mustFind(t, o, "problem "+FindForeign)
			if _, err := c.Renew(o.dir); err == nil || !c.Foreign {
				t.Error("it would be replaced")
			}
			mustFind(t, o, "problem "+FindForeign)
		})
	}
	if c := mustCheck(t, withSegment(t, segmentName(1), header)); c.Foreign {
		t.Error("a damaged header is taken for another version")
	}
}

// Of a corrupt journal everything that is intact is read, before and behind the
// damage.
func TestCheckReadsAroundDamage(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	var ids []uint64
	for range 5 {
		ids = append(ids, must[uint64](t)(j.Begin(fullIntent)))
	}
	check(t, j.Done(ids[0]))
	must[uint64](t)(j.ReserveTokens(7000))
	data := []byte(o.files()[j.seg.name])
	damaged := frames(t, data)[3] // one is the start record: the third intent
	data[damaged.offset+frameSize] ^= 1
	o = withSegment(t, segmentName(5), data)
	c := mustFind(t, o, "problem "+FindCorrupt)
	if at := c.Findings[0].Offset; at != damaged.offset {
		t.Errorf("reported at byte %d, not %d", at, damaged.offset)
	}
	var got []uint64
	for _, in := range c.Pending {
		got = append(got, in.ID)
	}
	if want := []uint64{ids[1], ids[3], ids[4]}; !slices.Equal(got, want) {
		t.Errorf("intents %v, want %v", got, want)
	}
	if c.tokens != fullIntent.Token || c.next != ids[4]+1 {
		t.Errorf("tokens up to %d, next intent %d", c.tokens, c.next)
	}
}

func TestRenew(t *testing.T) {
	name, data := realSegment(t)
	bad := slices.Clone(data)
	bad[len(bad)/2] ^= 1
	o := withSegment(t, name, bad)
	c := mustCheck(t, o)
	for round := range 3 { // as often as it takes
		aside := must[string](t)(c.Renew(o.dir))
		files := o.files()
		if aside != "corrupt-"+name || files[aside] != string(bad) || len(files) != 2 {
			t.Fatalf("round %d: kept as %q, %d files", round, aside, len(files))
		}
		if _, err := os.Stat(o.path(name)); err == nil {
			t.Fatal("the old one still has its name")
		}
		// A crash before the new one had its name.
		check(t, os.Link(o.path(aside), o.path(name)))
		check(t, os.Remove(o.path(segmentName(c.segment.number+1))))
	}
	must[string](t)(c.Renew(o.dir))
	mustFind(t, o, "info "+FindKeptAside, "recoverable "+FindUnclean)
	j := o.open()
	if j.Clean() || len(j.Pending()) > 0 || j.LastToken() <= fullIntent.Token {
		t.Errorf("clean %v, %d pending, last token %d", j.Clean(), len(j.Pending()), j.LastToken())
	}
	if j.st.next < c.next {
		t.Errorf("the next intent is %d, %d was used", j.st.next, c.next-1)
	}
	check(t, j.Close())

	// Another one with the same name is kept beside it.
	check(t, os.WriteFile(o.path(name), []byte("another"), 0o600))
	check(t, os.Remove(o.path(j.seg.name)))
	c = mustCheck(t, o)
	if aside := must[string](t)(c.Renew(o.dir)); aside != "corrupt-"+name+".1" || o.files()["corrupt-"+name] != string(bad) {
		t.Errorf("kept as %q", aside)
	}
}

// Without a journal tokens rise above those in the audit trail, whatever the clock
// says.
func TestRenewWithoutASegment(t *testing.T) {
	o := newOpener(t)
	check(t, os.WriteFile(o.path(audit.Name), []byte(`{"event":"commit","token":9000000000000000000}`+"\n"), 0o600))
	c := mustCheck(t, o)
	if aside := must[string](t)(c.Renew(o.dir)); aside != "" {
		t.Errorf("kept %q", aside)
	}
	if last := o.open().LastToken(); last <= 9000000000000000000 {
		t.Errorf("last token %d", last)
	}
}

func TestTokensAboveDoNotWrapAround(t *testing.T) {
	for _, known := range []uint64{0, 1, 1 << 63, 1<<64 - 1} {
		if got := tokensAbove(known); got < known || known < 1<<63 && got < known+unreadTokens {
			t.Errorf("above %d: %d", known, got)
		}
	}
}

// What is wrong with the audit trail beside it is told, too.
func TestCheckOfTheTrail(t *testing.T) {
	o := newOpener(t)
	const good = "{\"event\":\"a\"}\n"
	check(t, os.WriteFile(o.path(audit.Name+".1"), []byte(good+"[1]\nnull\n{\"un"), 0o600))
	check(t, os.WriteFile(o.path(audit.Name), []byte(good+"{\"unfinished"), 0o600))
	check(t, os.WriteFile(o.path("events.new"), nil, 0o600))
	check(t, os.WriteFile(o.path(segmentName(1)), []byte(newJournal(t)), 0o600))
	c := mustFind(t, o, "info torn-tail", "info torn-tail", "problem damaged-events", "recoverable unfinished-segment")
	for i, want := range []int{len(good), len(good + "[1]\nnull\n"), len(good)} {
		if at := c.Findings[i].Offset; at != int64(want) {
			t.Errorf("%s is reported at byte %d, not %d", c.Findings[i].Kind, at, want)
		}
	}
}

// newJournal is the segment of a journal that was closed.
func newJournal(t testing.TB) string {
	t.Helper()
	o := newOpener(t)
	j := o.open()
	check(t, j.Close())
	return o.files()[j.seg.name]
}

// newerHeader is the header of a format that is yet to come.
func newerHeader() []byte {
	b := append([]byte(magic), version+1, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}
