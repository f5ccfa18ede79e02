package lostupdate

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// Something is lost if somebody else has replaced what the nearest reader of the chain knows.
func TestLoss(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "f")
		s.wantLoss(false, 10, "f") // nobody has read it
		s.read(11, "f")
		s.write(11, "f")
		s.wantLoss(false, 10, "f") // its child's change
		s.write(20, "f")
		s.wantLoss(true, 10, "f")
		s.wantLoss(true, 11, "f")
		s.wantLoss(false, 30, "f")
		s.wantLoss(true, 30, "f", owner(11)) // made from what 11 has read
		s.read(30, "f")
		s.wantLoss(true, 30, "f", owner(11))
		s.wantLoss(false, 30, "f", owner(40), owner(11)) // the first writer knows nothing, 30 is nearer than the second
		s.read(10, "f")
		s.wantLoss(false, 10, "f")
		s.want()
	})
}

// What a process knows from its relatives fades as the policy says, under all names.
func TestFades(t *testing.T) {
	onStage(t, func(s *stage) {
		s.set.Fade = time.Minute
		s.write(20, "f")
		s.read(11, "f")
		s.write(20, "g")
		s.link("g", "h")
		s.read(11, "h")
		s.write(20, "f")
		s.inPlace(20, "h", "g")
		s.wantLoss(true, 10, "f")
		s.wantLoss(true, 10, "g")
		s.later(2 * time.Minute)
		s.wantLoss(false, 10, "f")
		s.wantLoss(false, 10, "g")
		s.wantLoss(true, 11, "f")
		s.wantLoss(true, 11, "g")
	})
}

// Where makers count a process knows what it has made and never read.
func TestMakersCount(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "g")
		s.link("g", "h")
		s.inPlace(10, "h", "g")
		s.inPlace(20, "h", "g")
		s.write(10, "f")
		s.write(20, "f")
		for _, path := range []string{"f", "g"} {
			ch := s.change(10, path)
			if s.Loss(ch, s.maker(10)) != nil {
				t.Errorf("who has not read %s loses something", path)
			}
			if ch.Counts = knowledge.Makers; s.Loss(ch, s.maker(10)) == nil {
				t.Errorf("who has made %s loses nothing", path)
			}
		}
	})
}

// What a look to lock the file has told is forgotten, unless the process has it open.
func TestLookToLock(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "f")
		sight := s.read(10, "f")
		s.write(20, "f")
		s.flocks = []*knowledge.Sight{sight}
		if s.LossOfWriter(s.change(10, "f"), s.maker(10)) == nil {
			t.Error("a session loses nothing")
		}
		s.wantLoss(false, 10, "f")
		if len(s.flocks) != 0 {
			t.Error("nobody has asked for the look")
		}
		s.wantLoss(false, 10, "f")
		if s.LossOfWriter(s.change(10, "f"), s.maker(10)) != nil {
			t.Error("a session loses what a look to lock has told of")
		}
	})
}

func TestAnswer(t *testing.T) {
	const again = "obeyed: it was refused before, and tried again"
	for name, c := range map[string]struct {
		lost      policy.LostUpdate
		insist    policy.Insist
		then      bool // the second time
		first     []string
		second    []string
		wantFirst bool
	}{
		"refuse": {lost: policy.RefuseLost, insist: policy.ObeyInsisting, then: true, first: []string{"conflict", "explained"}, second: []string{again}},
		"never":  {lost: policy.RefuseLost, insist: policy.NeverObey, first: []string{"conflict", "explained"}, second: []string{"conflict", "explained"}},
		"strict": {lost: policy.StrictLost, insist: policy.ObeyInsisting, first: []string{"conflict", "explained"}, second: []string{"conflict", "explained"}},
		"warn":   {lost: policy.WarnLost, insist: policy.ObeyInsisting, then: true, wantFirst: true, first: []string{"obeyed: the policy only warns"}},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.set.LostUpdate, s.set.Insist = c.lost, c.insist
				if got := s.overtaken().Answer(); got != c.wantFirst {
					t.Errorf("it happens: %v", got)
				}
				s.want(c.first...)
				s.later(2 * time.Second)
				l := s.loss(10, "f")
				if c.second == nil {
					if l != nil {
						t.Error("a change that was obeyed is objected to again")
					}
					return
				}
				if got := l.Answer(); got != c.then {
					t.Errorf("it happens the second time: %v", got)
				}
				s.want(c.second...)
			})
		})
	}
}

// A refusal counts for those who insist too soon.
func TestInsistsTooSoon(t *testing.T) {
	onStage(t, func(s *stage) {
		s.overtaken().Answer()
		s.later(500 * time.Millisecond)
		if s.loss(10, "f").Answer() {
			t.Error("it happens at once")
		}
		s.want("conflict", "explained", "conflict", "explained")
		s.later(time.Second)
		if !s.loss(10, "f").Answer() {
			t.Error("it never happens")
		}
		s.wantLoss(false, 10, "f")
	})
}

// Somebody was refused who renamed what another process had written. Whoever renames that again
// insists; the process that has written it was not told.
func TestInsistsForAnother(t *testing.T) {
	for again, want := range map[int32]bool{30: true, 31: true, 10: false} {
		onStage(t, func(s *stage) {
			s.overtaken()
			if s.loss(30, "f", owner(10)).Answer() {
				t.Fatal("the change is not refused")
			}
			s.later(2 * time.Second)
			if got := s.loss(again, "f", owner(10)).Answer(); got != want {
				t.Errorf("process %d is obeyed: %v", again, got)
			}
		})
	}
}

// Where nothing takes the file's place a decider that knew of none undoes nothing.
func TestAnswerGone(t *testing.T) {
	onStage(t, func(s *stage) {
		if s.overtaken().AnswerGone() {
			t.Error("what was read may be taken away")
		}
		s.want("conflict", "explained")

		s.write(20, "g")
		s.read(10, "g")
		s.put(10, File{Path: "g"}, &Made{})
		s.later(time.Second)
		s.write(20, "g")
		l := s.loss(10, "g")
		if l == nil || !l.Basis.Absent {
			t.Fatalf("lost is %+v", l)
		}
		if !l.AnswerGone() {
			t.Error("who knew that there was nothing may not take it away")
		}
		s.want()
		if l.Answer() {
			t.Error("who knew that there was nothing may replace it")
		}
	})
}

// A refusal of what takes the place of a file removed a moment ago gives that its name back.
func TestAnswerRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		lost    policy.LostUpdate
		back    bool
		asked   bool
		happens bool
		said    string
	}{
		"back":   {policy.RefuseLost, true, true, false, "conflict explained"},
		"gone":   {policy.RefuseLost, false, true, true, "obeyed: what it replaces was removed before, and cannot be put back"},
		"warned": {policy.WarnLost, false, false, true, "obeyed: the policy only warns"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.set.LostUpdate = c.lost
				asked := false
				happens := s.overtaken().AnswerRemoved(func() bool { asked = true; return c.back })
				if happens != c.happens || asked != c.asked {
					t.Errorf("it happens: %v, the file was to be put back: %v", happens, asked)
				}
				if said := strings.Join(s.said, " "); said != c.said {
					t.Errorf("the engine was told %q", said)
				}
			})
		})
	}
	onStage(t, func(s *stage) {
		s.overtaken().Answer()
		s.later(2 * time.Second)
		if !s.loss(10, "f").AnswerRemoved(func() bool { t.Error("it is put back"); return true }) {
			t.Error("a process that insists is refused")
		}
	})
}

// A process that has read a file makes it anew which another worker of its script has removed:
// that is no step of the change. If the process or a child of it has, or if its script alone
// has read the file, it is one.
func TestAnswerRemovedByAWorker(t *testing.T) {
	const script, worker, child, other = 10, 11, 12, 13
	for _, c := range []struct {
		reads, removes, makes int32
		exclusive, happens    bool
	}{
		{worker, other, worker, true, true}, {worker, other, child, true, true}, {worker, other, worker, false, false},
		{worker, worker, worker, true, false}, {worker, child, worker, true, false}, {worker, child, child, true, false}, {script, other, worker, true, false},
	} {
		onStage(t, func(s *stage) {
			for pid, relatives := range map[int32][]lockmgr.Owner{worker: {owner(script)}, child: {owner(worker), owner(script)}, other: {owner(script)}} {
				s.families[pid] = proc.Family{Relatives: relatives}
			}
			s.write(20, "f")
			s.read(c.reads, "f")
			s.later(time.Second)
			s.write(20, "f")
			s.put(c.removes, File{Path: "f"}, &Made{Path: "f"})
			l := s.loss(c.makes, "f")
			if l == nil {
				t.Fatalf("%+v: nothing is lost", c)
			}
			l.Exclusive = c.exclusive
			if happens := l.AnswerRemoved(func() bool { return true }); happens != c.happens || happens && len(s.said) > 0 {
				t.Errorf("%+v: it happens: %v, and the engine is told %q", c, happens, s.said)
			}
		})
	}
}

// A commit that is refused is explained with its bytes, and counts as a refusal.
func TestAnswerUnread(t *testing.T) {
	onStage(t, func(s *stage) {
		if s.overtaken().AnswerUnread() {
			t.Error("it happens")
		}
		s.want("conflict")
		s.later(2 * time.Second)
		if !s.loss(10, "f").AnswerUnread() {
			t.Error("who insists is refused")
		}
		s.want("obeyed: its writer never read it")
		s.wantLoss(false, 10, "f")
	})
}

func TestApplies(t *testing.T) {
	onStage(t, func(s *stage) {
		live, off := s.set, s.set
		live.Mode, off.LostUpdate = policy.Live, policy.IgnoreLost
		if !s.Applies(&s.set) || s.Applies(&live) || s.Applies(&off) {
			t.Error("it applies to what is live, or off, or to nothing")
		}
		if New(Config{}).Applies(&s.set) {
			t.Error("it applies where nothing is known")
		}
	})
}

func TestLearners(t *testing.T) {
	onStage(t, func(s *stage) {
		s.families[12] = s.families[11]
		s.families[11] = proc.Family{Relatives: []lockmgr.Owner{owner(10)}, Above: []lockmgr.Owner{owner(9)}}
		s.families[13] = proc.Family{Relatives: []lockmgr.Owner{owner(12)}, Shell: owner(1)}
		s.families[14] = proc.Family{Shell: owner(1)}
		s.families[15] = proc.Family{Interactive: true}
		for _, c := range []struct {
			pid   int32
			shell bool
			ok    bool
		}{{11, false, true}, {13, false, true}, {14, true, true}, {15, false, false}, {-1, false, false}} {
			who, ok := s.Learners(owner(c.pid), &s.set)
			if ok != c.ok || (who.Shell != lockmgr.Owner{}) != c.shell || ok && who.Self != owner(c.pid) || !slices.Equal(who.Relatives, s.families[c.pid].Relatives) || ok && len(who.Above) != len(s.families[c.pid].Above) {
				t.Errorf("the learners of %d are %+v, %v", c.pid, who, ok)
			}
		}
		none := lockmgr.Owner{Start: 7}
		for strangers, want := range map[policy.Strangers]bool{policy.IgnoreStrangers: false, policy.OneStranger: true, policy.RefuseStrangers: false} {
			s.set.Strangers = strangers
			if who, ok := s.Learners(none, &s.set); ok != want || ok && who.Self != Stranger {
				t.Errorf("%s: a stranger is %+v, %v", strangers, who, ok)
			}
			if RefusesStranger(true, &s.set) != (strangers == policy.RefuseStrangers) || RefusesStranger(false, &s.set) {
				t.Errorf("%s: strangers are refused, or others are, or none", strangers)
			}
		}
	})
}

func TestChain(t *testing.T) {
	who := knowledge.Who{Self: owner(1), Relatives: []lockmgr.Owner{owner(2), owner(3)}, Above: []lockmgr.Owner{owner(4)}, Shell: owner(5)}
	for _, c := range []struct{ writers, want []lockmgr.Owner }{
		{nil, []lockmgr.Owner{owner(1), owner(2), owner(3), owner(5)}},
		{[]lockmgr.Owner{owner(8), owner(9), owner(2)}, []lockmgr.Owner{owner(8), owner(1), owner(9), owner(2), owner(3), owner(5)}},
		{[]lockmgr.Owner{owner(1), {}}, []lockmgr.Owner{owner(1), owner(2), owner(3), owner(5)}},
	} {
		if got := Chain(who, c.writers); !slices.Equal(got, c.want) {
			t.Errorf("%v: the chain is %v, want %v", c.writers, got, c.want)
		}
	}
}

// A removal is asked about under the policy "strict", and of a process that was refused a
// moment ago.
func TestAsksRemover(t *testing.T) {
	onStage(t, func(s *stage) {
		asks := func(o lockmgr.Owner, want bool) {
			t.Helper()
			if got := s.AsksRemover("f", o, &s.set); got != want {
				t.Errorf("a removal by %d is asked about: %v", o.PID, got)
			}
		}
		l := s.overtaken()
		asks(owner(10), false)
		l.Answer()
		asks(owner(10), true)
		asks(owner(20), false)
		s.later(time.Minute)
		asks(owner(10), false)
		stranger := lockmgr.Owner{Start: 3}
		asks(stranger, false)
		s.set.Strangers = policy.RefuseStrangers
		asks(stranger, true)
		asks(owner(10), false)
		s.set.LostUpdate = policy.StrictLost
		asks(owner(10), true)
	})
}

// A copy of the version that is known takes back what the script has changed since.
func TestPutBack(t *testing.T) {
	onStage(t, func(s *stage) {
		s.history = map[knowledge.Stamp]uint64{}
		s.write(20, "f")
		first := s.files["f"].Stamp
		s.read(10, "f")
		s.write(11, "f")
		s.families[20] = s.families[11] // both are children of 10 now
		s.families[12], s.families[13] = s.families[11], s.families[11]
		if l := s.loss(10, "f"); l != nil {
			t.Fatalf("lost is %+v", l)
		}
		s.read(12, "f") // knows the version that 11 has made, and makes a copy
		s.write(11, "f")
		l := s.loss(13, "f", owner(12), owner(10))
		if l == nil {
			t.Fatal("nothing is lost")
		}
		if _, ok := l.MayPutBack(10); ok {
			t.Error("what the history does not have can be put back")
		}
		s.history[l.Basis.Stamp] = 7
		if number, ok := l.MayPutBack(10); !ok || number != 7 {
			t.Errorf("it may put back version %d, %v", number, ok)
		}
		if _, ok := l.MayPutBack(11); ok {
			t.Error("a file of another size can be that version")
		}
		l.Basis.Stamp.Size = MaxPutBack + 1
		s.history[l.Basis.Stamp] = 7
		if _, ok := l.MayPutBack(MaxPutBack + 1); ok {
			t.Error("a large file is compared")
		}
		l.Basis.Stamp.Size = 10
		if same := s.loss(12, "f", owner(12), owner(10)); same == nil {
			t.Error("nothing is lost")
		} else if _, ok := same.MayPutBack(10); ok {
			t.Error("who renames what it has itself written takes back what a worker beside it has made")
		}
		if !l.ComesBack(l.Basis.Stamp, s.who(12)) {
			t.Error("the family's own version does not come back")
		}
		if l.ComesBack(knowledge.Stamp{Ino: 99}, s.who(12)) {
			t.Error("what never was a version comes back")
		}
		s.write(30, "f")
		if others := s.loss(13, "f", owner(12), owner(10)); others == nil {
			t.Error("nothing is lost")
		} else if _, ok := others.MayPutBack(10); ok {
			t.Error("others' changes are taken back")
		}
		if l.ComesBack(first, s.who(12)) {
			t.Error("a version comes back over what somebody else has made")
		}
	})
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"", "", true}, {"a", "a", true}, {"a", "b", false}, {"a", "", false}, {"", "a", false},
		{strings.Repeat("x", 64<<10), strings.Repeat("x", 64<<10), true},
		{strings.Repeat("x", 64<<10), strings.Repeat("x", 64<<10) + "y", false},
		{strings.Repeat("x", 64<<10) + "y", strings.Repeat("x", 64<<10) + "z", false},
	} {
		if got := IsPutBack(strings.NewReader(c.a), strings.NewReader(c.b)); got != c.same {
			t.Errorf("%d bytes are the same as %d: %v", len(c.a), len(c.b), got)
		}
	}
	broken := iotest.ErrReader(errors.New("broken"))
	if IsPutBack(strings.NewReader(""), broken) || IsPutBack(broken, strings.NewReader("")) {
		t.Error("what cannot be read is the same as nothing")
	}
}

// The audit trail has the numbers of the history, and what is known of the rest.
func TestDetail(t *testing.T) {
	onStage(t, func(s *stage) {
		l := s.overtaken()
		d := l.Detail()
		if d["base"] != uint64(1) || d["current"] != uint64(2) || d["read_by"] != int32(10) || d["uid"] != uint32(1010) || d["program"] != "prog10" || d["operation"] != "open" {
			t.Errorf("the event says %v", d)
		}
		if d["read_at"] != "2000-01-01T00:00:00Z" || d["reason"] != l.Reason() || d["changed_by"].(map[string]any)["pid"] != int32(20) {
			t.Errorf("the event says %v", d)
		}
		for _, key := range []string{"source", "not_merged"} {
			if _, ok := d[key]; ok {
				t.Errorf("the event has %s", key)
			}
		}
		s.history = map[knowledge.Stamp]uint64{l.Basis.Newer.Stamp: 8}
		l.Source, l.Apart = &Source{Path: "t"}, "no"
		d = l.Detail()
		if d["base"] != uint64(0) || d["current"] != uint64(8) || d["source"] != "t" || d["not_merged"] != "no" {
			t.Errorf("with a history the event says %v", slices.Sorted(maps.Keys(d)))
		}
	})
}
