package lostupdate

import (
	"strings"
	"testing"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// What is said about the change by 10 that overtaken makes, after something else has been
// made of it.
func TestReason(t *testing.T) {
	const saved = "prog20[20] saved version 2 at 00:00:01"
	for name, c := range map[string]struct {
		of   func(s *stage, l *Loss)
		want string
	}{
		"itself":   {func(*stage, *Loss) {}, "f has changed since this program read it. It read version 1 at 00:00:00; " + saved + "."},
		"made":     {func(_ *stage, l *Loss) { l.Basis.Made = true }, "f has changed since this program wrote it. It wrote version 1 at 00:00:00; " + saved + "."},
		"used":     {func(_ *stage, l *Loss) { l.Basis.Used = true }, "f has changed since this program opened or appended to it. It opened or appended to version 1 at 00:00:00; " + saved + "."},
		"another":  {func(_ *stage, l *Loss) { l.Owner = owner(30) }, "f has changed since prog10[10] read it. prog10[10] read version 1 at 00:00:00; " + saved + "."},
		"dead":     {func(s *stage, l *Loss) { l.Owner = owner(30); s.dead[10] = true }, "f has changed since process 10 read it. process 10 read version 1 at 00:00:00; " + saved + "."},
		"stranger": {func(_ *stage, l *Loss) { l.Basis.By = Stranger }, "f has changed since a program in another pid namespace read it. a program in another pid namespace read version 1 at 00:00:00; " + saved + "."},
		"ancestor": {func(_ *stage, l *Loss) { l.Owner = owner(11) },
			"f has changed since it was read by prog10[10], which started this program, or by another program that prog10[10] started. One of them read version 1 at 00:00:00; " + saved + "."},
		"writer": {func(_ *stage, l *Loss) {
			l.Owner, l.Source = owner(30), &Source{Path: "t", Writers: []lockmgr.Owner{owner(10)}, Author: knowledge.Author{PID: 10, Program: "jq"}}
		}, "f has changed since jq[10], which wrote t, read it. jq[10] read version 1 at 00:00:00; " + saved + "."},
		"writer's parent": {func(_ *stage, l *Loss) {
			l.Owner, l.Source = owner(30), &Source{Path: "t", Writers: []lockmgr.Owner{owner(11), owner(10)}, Author: knowledge.Author{PID: 11, Program: "jq"}}
		}, "f has changed since prog10[10], which started the program that wrote t, read it. prog10[10] read version 1 at 00:00:00; " + saved + "."},
		"no writer": {func(_ *stage, l *Loss) {
			l.Owner, l.Source = owner(30), &Source{Path: "t", Writers: []lockmgr.Owner{owner(40)}, Author: knowledge.Author{PID: 40, Program: "jq"}}
		}, "f has changed since prog10[10] read it. prog10[10] read version 1 at 00:00:00; " + saved + "."},
		"known lineage": {func(_ *stage, l *Loss) { l.Owner, l.Lineage = owner(30), []lockmgr.Ancestor{{Owner: owner(10)}} },
			"f has changed since it was read by prog10[10], which started this program, or by another program that prog10[10] started. One of them read version 1 at 00:00:00; " + saved + "."},
		"no process": {func(s *stage, l *Loss) { l.Owner, s.lineages[0] = lockmgr.Owner{}, s.lineages[11] },
			"f has changed since prog10[10] read it. prog10[10] read version 1 at 00:00:00; " + saved + "."},
		"source": {func(_ *stage, l *Loss) { l.Source = &Source{Path: "f", Over: "g"} },
			"f, which was to be renamed to g, has changed since this program read it. It read version 1 at 00:00:00; " + saved + "."},
		"numbers": {func(s *stage, l *Loss) { s.history = map[knowledge.Stamp]uint64{l.Basis.Newer.Stamp: 40} },
			"f has changed since this program read it. It read an earlier version at 00:00:00; prog20[20] saved version 40 at 00:00:01."},
		"no numbers": {func(s *stage, l *Loss) { s.history = map[knowledge.Stamp]uint64{} },
			"f has changed since this program read it. It read an earlier version at 00:00:00; prog20[20] saved the present version at 00:00:01."},
		"many": {func(_ *stage, l *Loss) { l.Basis.Since = append(l.Basis.Since, l.Basis.Since...) },
			"f has changed since this program read it. It read version 1 at 00:00:00; " + saved + ", the last of 2 changes."},
		"many, not the last": {func(_ *stage, l *Loss) { l.Basis.Since, l.Basis.Current = append(l.Basis.Since, l.Basis.Since...), 3 },
			"f has changed since this program read it. It read version 1 at 00:00:00; " + saved + "."},
		"removed": {func(_ *stage, l *Loss) { l.Basis.Newer.Stamp = knowledge.Stamp{} },
			"f has changed since this program read it. It read version 1 at 00:00:00; prog20[20] removed it at 00:00:01."},
		"removed outside": {func(_ *stage, l *Loss) {
			l.Basis.Newer.Stamp, l.Basis.Newer.Author = knowledge.Stamp{}, knowledge.Author{Time: time.Now()}
		}, "f has changed since this program read it. It read version 1 at 00:00:00; it was removed outside the mount, as seen at 00:00:02."},
		"outside": {func(_ *stage, l *Loss) { l.Basis.Newer.Author = knowledge.Author{Time: time.Now()} },
			"f has changed since this program read it. It read version 1 at 00:00:00; it was changed outside the mount, as seen at 00:00:02."},
		"outside, at no known time": {func(_ *stage, l *Loss) { l.Basis.Newer.Author = knowledge.Author{} },
			"f has changed since this program read it. It read version 1 at 00:00:00; it was changed outside the mount."},
		"removed outside, at no known time": {func(_ *stage, l *Loss) {
			l.Basis.Newer.Stamp, l.Basis.Newer.Author = knowledge.Stamp{}, knowledge.Author{}
		}, "f has changed since this program read it. It read version 1 at 00:00:00; it was removed outside the mount."},
		"back": {func(_ *stage, l *Loss) { l.Back = true },
			"f has changed since this program read it. It read version 1 at 00:00:00; prog20[20] saved what is now version 2 at 00:00:01 (it was removed since, and has been put back)."},
		"apart": {func(_ *stage, l *Loss) { l.Apart = "they are large" },
			"f has changed since this program read it. It read version 1 at 00:00:00; " + saved + ". The two changes cannot be merged: they are large."},
		"removed by itself": {func(_ *stage, l *Loss) { l.Basis.Absent, l.Basis.Own = true, true },
			"f has changed since this program removed or renamed it. It did so at 00:00:00; " + saved + "."},
		"removed unread": {func(_ *stage, l *Loss) { l.Basis.Absent, l.Basis.Made = true, true },
			"f has changed since this program removed or renamed it. It did so at 00:00:00; " + saved + "."},
		"was not there": {func(_ *stage, l *Loss) { l.Basis.Absent = true },
			"f has changed since this program saw that it was not there. It did so at 00:00:00; " + saved + "."},
		"was not there for an ancestor": {func(_ *stage, l *Loss) { l.Basis.Absent, l.Owner = true, owner(11) },
			"f has changed since it was seen not to be there by prog10[10], which started this program, or by another program that prog10[10] started. One of them did so at 00:00:00; " + saved + "."},
		"unprintable": {func(_ *stage, l *Loss) { l.Path = "f\n" },
			`f\n has changed since this program read it. It read version 1 at 00:00:00; ` + saved + "."},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				l := s.overtaken()
				c.of(s, l)
				if got := l.Whole(); got != c.want {
					t.Errorf("%s\nwant\n%s", got, c.want)
				}
				if got := l.Public(); got != c.want {
					t.Errorf("in public\n%s\nwant\n%s", got, c.want)
				}
			})
		})
	}
}

// A label is shown to its own user, and to those who see everything; in public to nobody.
func TestLabels(t *testing.T) {
	onStage(t, func(s *stage) {
		l := s.overtaken()
		a := &l.Basis.Newer.Author
		a.Actor = "agent seven"
		for _, c := range []struct {
			uid  uint32
			pid  int32
			want string
		}{
			{1020, 20, "prog20[20] (agent seven)"}, {0, 20, "prog20[20] (agent seven)"}, {1010, 20, "prog20[20] (uid 1020)"},
			{1020, 0, "agent seven"}, {1010, 0, "prog20 (uid 1020)"},
		} {
			l.By.UID, a.PID = c.uid, c.pid
			if got := l.authorName(a, true); got != c.want {
				t.Errorf("uid %d is told of %q, want %q", c.uid, got, c.want)
			}
			if got, want := l.authorName(a, false), "prog20[20] (uid 1020)"; c.pid == 20 && got != want {
				t.Errorf("the public is told of %q, want %q", got, want)
			}
		}
	})
}

func TestAdvice(t *testing.T) {
	const (
		insist = " To overwrite version 2 on purpose, write it again without reading it, one second to ten minutes from now."
		reload = "f was left as it is. To start from version 2, reload it in the program, or run the command again if that reads it."
	)
	for name, c := range map[string]struct {
		of   func(s *stage, l *Loss)
		want string
	}{
		"writes": {func(*stage, *Loss) {}, reload + insist},
		"never":  {func(s *stage, _ *Loss) { s.set.Insist = policy.NeverObey }, reload},
		"strict": {func(s *stage, _ *Loss) { s.set.LostUpdate = policy.StrictLost }, reload},
		"kept": {func(s *stage, l *Loss) { s.history = map[knowledge.Stamp]uint64{l.Basis.Newer.Stamp: 2} },
			reload + insist[:len(insist)-1] + "; `latchfs history '/my m/f'` will still have it."},
		"names":   {func(_ *stage, l *Loss) { l.Names = true }, "f was left as it is. Read version 2, and run the command again if it is still right." + insist},
		"removed": {func(s *stage, l *Loss) { l.Basis.Newer.Stamp = knowledge.Stamp{}; s.set.Insist = policy.NeverObey }, "Nothing has changed. Look whether the file is still wanted, and run the command again."},
		"removed, and may insist": {func(_ *stage, l *Loss) { l.Basis.Newer.Stamp = knowledge.Stamp{} },
			"Nothing has changed. Look whether the file is still wanted, and run the command again." + strings.Replace(insist, "version 2", "the present version", 1)},
		"renames": {func(_ *stage, l *Loss) { l.Source = &Source{Path: "t"} },
			"Nothing was renamed. Run the command that wrote t again, so that it starts from version 2, and rename t only then." +
				" To overwrite version 2 on purpose, rename t again as it is, one second to ten minutes from now."},
		"source": {func(_ *stage, l *Loss) { l.Source = &Source{Path: "t", Over: "g"} },
			"Nothing was renamed. Write the new content to a temporary file whose name no other program uses, and rename that."},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				l := s.overtaken()
				c.of(s, l)
				if got := l.Advice(); got != c.want {
					t.Errorf("%s\nwant\n%s", got, c.want)
				}
				if got := l.AdviceOn(""); got != c.want {
					t.Errorf("of what is not kept\n%s\nwant\n%s", got, c.want)
				}
				if got, want := l.AdviceOn("k1"), c.want+" `latchfs rejected diff k1` shows what was written beside the file as it is now."; got != want {
					t.Errorf("of what is kept\n%s\nwant\n%s", got, want)
				}
			})
		})
	}
	onStage(t, func(s *stage) {
		l := s.overtaken()
		l.Source = &Source{Path: "t"}
		if got, want := l.AdviceWithoutSource(), "Nothing was renamed, and t is no longer there. Run the command that wrote it again, so that it starts from version 2."; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if (*Loss)(nil).AdviceOn("k1") != "" {
			t.Error("there is advice on nothing")
		}
	})
}
