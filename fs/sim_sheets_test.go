package fs

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy"
)

// Sheets: files in which each program has a line of its own, or adds lines. Two changes of a
// sheet can always be joined, so that with lost-update = "merge" both are there when both
// programs were told so.

// sheetNames are the files that are sheets at the beginning.
var sheetNames = []string{"m", "d/m", "o.json", "l.jsonl"}

// simSheet is what a sheet holds.
type simSheet struct {
	kind    string   // text, json or list
	cells   []string // "ann=old1" in the order of the lines; of a list the values of the lines
	records string   // that were appended: "{x}{y}"
}

// String is the version: no program writes another sheet that reads so.
func (s simSheet) String() string { return s.kind + "[" + strings.Join(s.cells, ",") + "]" + s.records }

var sheetShape = regexp.MustCompile(`^(text|json|list)\[(.*)\]((?:\{\w+\})*)$`)

// sheetOf is the sheet that is a version.
func sheetOf(version string) (s simSheet, ok bool) {
	m := sheetShape.FindStringSubmatch(version)
	if m == nil {
		return s, false
	}
	return simSheet{m[1], strings.Split(m[2], ","), m[3]}, true
}

// text is what the file holds, in the parts in which it is written.
func (s simSheet) text() []string {
	var b strings.Builder
	for i, c := range s.cells {
		who, what, _ := strings.Cut(c, "=")
		switch s.kind {
		case "text":
			b.WriteString(who + ": " + what + "\n")
		case "json":
			b.WriteString([]string{"{\n", ",\n"}[min(i, 1)] + `  "` + who + `": "` + what + `"`)
		default:
			b.WriteString(`"` + c + "\"\n")
		}
	}
	if s.kind == "json" {
		b.WriteString("\n}\n")
	}
	b.WriteString(recordsText(s.records))
	all := b.String()
	return []string{all[:len(all)/3], all[len(all)/3 : len(all)/2], all[len(all)/2:]}
}

var (
	textSheet = regexp.MustCompile(`^((?:\w+: \w+\n)+)` + recordShape + `$`)
	jsonSheet = regexp.MustCompile(`^\{\n((?:  "\w+": "\w+",?\n)+)\}\n$`)
	listSheet = regexp.MustCompile(`^((?:"\w+"\n)+)$`)
)

// sheetIn is the sheet that a file holds.
func sheetIn(text string) (s simSheet, ok bool) {
	var m []string
	if m = textSheet.FindStringSubmatch(text); m != nil {
		s.kind, s.records = "text", recordsIn(m[2])
	} else if m = jsonSheet.FindStringSubmatch(text); m != nil {
		s.kind = "json"
	} else if m = listSheet.FindStringSubmatch(text); m != nil {
		s.kind = "list"
	} else {
		return s, false
	}
	plain := strings.NewReplacer(`"`, "", " ", "", ":", "=").Replace(strings.TrimSuffix(m[1], "\n"))
	for line := range strings.SplitSeq(plain, "\n") {
		s.cells = append(s.cells, strings.TrimSuffix(line, ","))
	}
	return s, strings.Join(s.text(), "") == text
}

// noted is the sheet with a line that a program has changed, or added.
func (s simSheet) noted(who, version string) simSheet {
	s.cells = slices.Clone(s.cells)
	if s.kind == "list" {
		s.cells = append(s.cells, version)
		return s
	}
	for i, c := range s.cells {
		if strings.HasPrefix(c, who+"=") {
			s.cells[i] = who + "=" + version
		}
	}
	return s
}

// joinSheets is what becomes of a change that was made from a base, where the file holds theirs;
// false if that must be refused.
func joinSheets(base, theirs, mine string) (version string, ok bool) {
	b, one := sheetOf(base)
	t, two := sheetOf(theirs)
	m, three := sheetOf(mine)
	if !one || !two || !three || b.kind != t.kind || b.kind != m.kind || m.records != b.records && t.records != b.records {
		return "", false
	}
	if m.records != b.records {
		t.records = m.records
	}
	n := len(b.cells)
	if b.kind == "list" {
		if len(m.cells) < n || !slices.Equal(b.cells, m.cells[:n]) {
			return "", false
		}
		t.cells = slices.Concat(t.cells, m.cells[n:])
		return t.String(), true
	}
	if len(t.cells) != n || len(m.cells) != n {
		return "", false
	}
	for i := range n {
		switch {
		case m.cells[i] == b.cells[i], m.cells[i] == t.cells[i]:
		case t.cells[i] != b.cells[i]:
			return "", false
		default:
			t.cells[i] = m.cells[i]
		}
	}
	return t.String(), true
}

// prepareSheets makes the sheets that the script uses.
func (m *simModel) prepareSheets(t testing.TB, dir string) {
	for _, name := range sheetNames {
		if !m.w.opts.script.uses(name) {
			continue
		}
		var s simSheet
		switch path.Ext(name) {
		case ".json":
			s.kind = "json"
		case ".jsonl":
			s.kind, s.cells = "list", []string{"old1", "old2"}
		default:
			s.kind = "text"
		}
		for _, who := range []string{"ann", "bob", "cyn", "dan"} {
			if s.kind != "list" {
				s.cells = append(s.cells, who+"=old")
			}
		}
		if err := os.WriteFile(dir+"/"+name, []byte(strings.Join(s.text(), "")), 0o644); err != nil {
			t.Fatal(err)
		}
		m.start[strings.Replace("0/"+name, "0/d/", "1/", 1)] = s.String()
		m.seen[name] = true
	}
}

// uses reports whether a program of the script names a path.
func (s simScript) uses(path string) bool { return len(s.commandsOn(path)) > 0 }

// commandsOn are the commands of the script that name a path.
func (s simScript) commandsOn(path string) (all []string) {
	for _, p := range s.programs {
		for _, line := range p.lines {
			if f := strings.Fields(line); slices.Contains(f[1:], path) {
				all = append(all, f[0])
			}
		}
	}
	return all
}

// bases are the versions of a path that a program has read, if what it writes may be merged.
func (p *simProc) bases(path, known string) []string {
	if _, ok := sheetOf(known); (ok || known == "") && p.w.opts.script.hazards.updates == policy.Merge {
		return p.seen[path].all
	}
	return nil
}

// note reads a sheet, and writes or saves it with a line that is the program's; how is the
// command.
func (p *simProc) note(path, how string) {
	base, ok := p.cat(path)
	s, is := sheetOf(base)
	if !ok || !is {
		return
	}
	times := 1
	if how == "again" {
		times = 2
	}
	for range times {
		k, began := p.w.kernel, time.Now()
		mine := s.noted(p.comm, p.w.model.newVersion(p))
		do := p.echoAs
		if how == "notesave" {
			do = p.saveAs
		}
		e := do(path, s.String(), mine.String())
		if e == unix.EBUSY && k == p.kernel {
			p.w.model.mustJoin(p, path, began)
		}
		if e != 0 {
			return
		}
		p.w.model.count("note")
		s = mine
		was := p.seen[path]
		was.all = append([]string{mine.String()}, was.all...)
		p.seen[path] = was
	}
}

// mustJoin is told of a program that was refused to note something in a sheet. Where that is
// all that anybody does to the sheet it must not be, but after a wait.
func (m *simModel) mustJoin(p *simProc, path string, began time.Time) {
	h := m.w.opts.script.hazards
	if h.updates != policy.Merge || h.harmDaemon() || p.isKilled() || time.Since(began) >= simWait || m.takesAway() {
		return
	}
	for _, c := range m.w.opts.script.commandsOn(path) {
		if !slices.Contains([]string{"note", "notesave", "again", "cat", "stat"}, c) {
			return
		}
	}
	m.w.failf("%s was refused to note something in %s, although that can be joined with all that others do", p, path)
}
