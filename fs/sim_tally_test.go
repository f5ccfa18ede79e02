package fs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What programs may expect of slow logs: see sim_slow_test.go.

var slowPiece = regexp.MustCompile(`^\w+\.\d[;\n]`)

// piecesOf are the pieces of a text; not whole if something is torn.
func piecesOf(text string) (all []string, rest string) {
	for text != "" {
		one := slowPiece.FindString(text)
		if one == "" {
			return all, text
		}
		all, text = append(all, one), text[len(one):]
	}
	return all, ""
}

// checkRead says what is wrong with what a reader has found who opened the file at a moment. mu
// is held.
func (sl *simSlows) checkRead(text string, began int64, path string) string {
	found, rest := piecesOf(text)
	if rest != "" {
		return fmt.Sprintf("%q is torn", rest)
	}
	if broken := sl.checkOrder(found); broken != "" {
		return broken
	}
	for _, l := range sl.all {
		for _, rec := range l.records {
			if rec.ended == 0 || rec.ended > began {
				continue
			}
			for _, x := range rec.pieces {
				if !slices.Contains(found, x) {
					return fmt.Sprintf("%q is not in %s, and the record was acknowledged", x, path)
				}
			}
		}
	}
	return ""
}

// checkOrder says which piece is twice in a file, or not where it should be. mu is held.
func (sl *simSlows) checkOrder(found []string) string {
	at := map[string]int{}
	for i, x := range found {
		if _, twice := at[x]; twice {
			return fmt.Sprintf("%q is there twice", x)
		}
		at[x] = i
	}
	for _, l := range sl.all {
		last, one := -1, ""
		for _, rec := range l.records {
			quick := rec.ended != 0 && rec.last.Sub(rec.began) < lineWait && !rec.synced && !rec.loose
			for j, x := range rec.pieces {
				i, is := at[x]
				if !is {
					continue
				}
				delete(at, x)
				if i < last {
					return fmt.Sprintf("%q is before %q", x, one)
				}
				if j > 0 && quick && !sl.tidied && (one != rec.pieces[j-1] || i != last+1) {
					return fmt.Sprintf("%q is not behind %q, and was written at once", x, rec.pieces[j-1])
				}
				last, one = i, x
			}
		}
	}
	for x := range at {
		return fmt.Sprintf("nobody has written %q", x)
	}
	return ""
}

// checkSlows looks at what is in the slow logs at the end.
func (m *simModel) checkSlows() {
	m.slows.mu.Lock()
	defer m.slows.mu.Unlock()
	if len(m.slows.all) == 0 {
		return
	}
	var all []string
	for _, path := range simSlowNames {
		text := m.slows.found[path]
		if len(m.w.powerCuts) > 0 && strings.Contains(m.w.opts.script.String(), simLiveLog) {
			// What is live lies in the file as on the plain directory: where the size has come
			// to the disk, and the bytes have not, there are zeros.
			text = strings.ReplaceAll(text, "\x00", "")
		}
		found, rest := piecesOf(text)
		if rest != "" {
			m.w.failf("at the end %s has %q, which is torn", path, rest)
		}
		if broken := m.slows.checkOrder(found); broken != "" {
			m.w.failf("at the end of %s: %s", path, broken)
		}
		all = append(all, found...)
	}
	for i, x := range all {
		if slices.Contains(all[:i], x) && !m.slows.tidied {
			m.w.failf("%q is in both slow logs", x)
		}
	}
	for _, l := range m.slows.all {
		if broken := m.checkSlow(l, all); broken != "" {
			m.w.failf("a slow log of %s at the end: %s", l.p, broken)
		}
	}
}

// checkSlow says what is wrong with what is left of one descriptor's pieces.
func (m *simModel) checkSlow(l *simSlow, found []string) string {
	has := func(x string) bool { return slices.Contains(found, x) }
	missing := ""
	for _, rec := range l.records {
		there := 0
		for i, x := range rec.pieces {
			switch {
			case has(x) && missing != "" && !l.doubt:
				return fmt.Sprintf("%q is there, and %q is not", x, missing)
			case has(x):
				there++
			case i < rec.acked && missing == "":
				missing = x
			}
		}
		if l.k.isDead() || l.doubt || len(m.faults) > 0 {
			continue
		}
		switch {
		case missing == "" && (rec.ended != 0 || !l.killed):
		case rec.ended != 0 || !l.killed:
			return fmt.Sprintf("%q was acknowledged and is not there", missing)
		case there == len(rec.pieces): // it was finished as its program died
		case rec.loose:
		case there > 0 && !rec.synced && !rec.paused && !m.slows.tidied:
			return fmt.Sprintf("%d pieces are left of %s, whose program was killed before it finished that", there, rec.name)
		case there == 0 && rec.acked > 0:
			m.done["an unfinished record is taken out"]++
			if _, kept := m.w.find(strings.Join(rec.pieces[:rec.acked], "")); !kept && !m.slows.tidied && !rec.paused {
				return fmt.Sprintf("what there was of %s is not kept", rec.name)
			}
		}
	}
	return ""
}
