package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/report"
	"latchfs/journal/validate"
	"latchfs/lockmgr/policy"
)

// Validators: the policy asks something of what files hold that are named a or b, wherever they
// are, and of some sheets. Whatever gives such a name other content fails with EBADMSG, and the
// name holds what it has held; what is refused is kept aside, or stays where it is, and the
// refusal is explained. What complies is not refused.

// simJudges is what the policy asks: for the name a the last digit, and for b the one before it,
// each the number of one of simValidators. 0 asks nothing.
type simJudges int

// simValidators are validators, as a rule of the policy has them, each with what it accepts.
var simValidators = []struct {
	rule    string
	accepts func(text string) bool
}{
	{},
	{`validate = "json"`, func(text string) bool { return json.Valid([]byte(text)) }},
	{`validate = "jsonl"`, simLines},
	{`validate = "non-empty"`, func(text string) bool { return strings.TrimSpace(text) != "" }},
	{`max-size = "70B"`, simFits},
	{`command = ["/bin/check"]`, simCommand},
	{"validate = \"jsonl\"\nmax-size = \"70B\"", func(text string) bool { return simLines(text) && simFits(text) }},
	{"validate = [\"json\", \"non-empty\"]\ncommand = [\"/bin/check\"]", func(text string) bool { return json.Valid([]byte(text)) && simCommand(text) }},
}

func simLines(text string) bool {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && !json.Valid([]byte(line)) {
			return false
		}
	}
	return true
}

func simFits(text string) bool { return len(text) <= 70 }

// simCommand is the answer of the command.
func simCommand(text string) bool { return !strings.ContainsAny(text, "<{") }

// on is the number of the validator for a path; 0: none.
func (j simJudges) on(file string) int {
	switch path.Base(file) {
	case "a":
		return int(j) % 10
	case "b":
		return int(j) / 10 % 10
	case "o.json":
		return min(int(j), 1)
	case "l.jsonl":
		return min(2*int(j), 2)
	}
	return 0
}

// refuses reports whether a path may not hold a version.
func (j simJudges) refuses(file, version string) bool {
	if version == "" || isDirValue(version) || j.on(file) == 0 {
		return false
	}
	return !simValidators[j.on(file)].accepts(wholeText(version))
}

// mayRefuse reports whether there is a path that may not hold a version.
func (j simJudges) mayRefuse(version string) bool {
	return j.refuses("a", version) || j.refuses("b", version)
}

// policy is the rules of the policy.
func (j simJudges) policy() (text string) {
	for _, name := range []string{"a", "b", "o.json", "l.jsonl"} {
		if on := j.on(name); on != 0 {
			text += fmt.Sprintf("\n[[rule]]\nglob = %q\n%s\n", name, simValidators[on].rule)
		}
	}
	return text
}

// mark is the end of the name of a version that complies with all validators, or is bad and
// complies with few. It tells versionText how the version is written.
func (j simJudges) mark(bad bool) string {
	switch {
	case j == 0:
		return ""
	case bad:
		return strings.Repeat("z", 20)
	}
	return goodMark
}

// judges are the validators of the script.
func (m *simModel) judges() simJudges { return simJudges(m.w.opts.script.hazards.judges) }

// The daemon's command.

// ask asks the validators. A command takes its time where the simulation sees who waits for it.
func (d *simDaemon) ask(ctx context.Context, f *os.File, name string, o validate.Options) error {
	commands := len(o.Command) > 0
	o.Command = nil
	if err := validate.Check(ctx, f, name, o); err != nil || !commands {
		return err
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.NewSectionReader(f, 0, 1<<20)); err != nil {
		return err
	}
	for range 3 {
		d.w.mu.Lock()
		works := d.answers && !d.dead.Load()
		d.w.mu.Unlock()
		if !works || ctx.Err() != nil || !d.fs.holdsNoMutex() {
			break
		}
		d.w.model.count("a command takes its time")
		d.park("the command is about to look at " + name)
	}
	switch {
	case ctx.Err() != nil:
		d.w.model.count("a command is broken off")
		return fmt.Errorf("validate: %w", ctx.Err())
	case d.dead.Load():
		return unix.EIO
	case !simCommand(b.String()):
		return &validate.Refusal{Validator: validate.Command, Reason: "/bin/check ended with exit status 1"}
	}
	return nil
}

// judges lets the daemon ask the simulation's validators.
func (d *simDaemon) judges() {
	d.fs.judging.judge.Ask = d.ask
	d.fs.judging.judge.RunAs(judge.Ourselves())
}

// What programs may expect.

// step is the state after an operation outside any transaction that has happened as its result
// says, and whether it could have: what a name has got since its validators accept.
func (s simState) step(o simOp) (bool, simState) {
	if o.errno == unix.EBADMSG {
		return s.isRefused(o), s
	}
	ok, n := s.stepUnjudged(o)
	return ok && (o.txn != "" && o.kind != "commit" || n.refusedSince(s, o) == ""), n
}

// refusedSince is a name that holds something since an operation that its validators refuse; ""
// if there is none. After the death of a daemon the next one does not know all names of a file.
func (s simState) refusedSince(before simState, o simOp) string {
	if o.judges == 0 {
		return ""
	}
	for name, v := range s {
		if strings.ContainsRune("#~!=?", rune(name[0])) || o.forgets && strings.HasPrefix(v, "=") {
			continue
		}
		if is := s.holds(name); is != before.holds(name) && o.judges.refuses(name, is) {
			return name
		}
	}
	return ""
}

// isRefused reports whether an operation would have given a name what its validators refuse. A
// file that was appended to without a name is nobody's to say, and one that has got a name whose
// validators look at the whole of it is not appended to.
func (s simState) isRefused(o simOp) bool {
	if at := s["#"+o.handle]; o.kind == "append" && (strings.HasPrefix(at, "-") || slices.ContainsFunc(s.namesOf(at), func(name string) bool { return !o.judges.byLines(name) })) {
		return true
	}
	o.errno, o.forgets = 0, false
	unread := o
	unread.known, unread.bases = "", nil
	for _, o := range []simOp{o, unread} {
		if ok, n := s.stepUnjudged(o); ok && n.refusedSince(s, o) != "" {
			return true
		}
	}
	return false
}

// namesOf are the names of the file that has a name, or what several names have in common.
func (s simState) namesOf(at string) (all []string) {
	common := at
	if at != "" && at[0] != '=' {
		all, common = []string{at}, s[at]
	}
	for name, v := range s {
		if strings.HasPrefix(common, "=") && v == common && !strings.ContainsRune("#~!?", rune(name[0])) {
			all = append(all, name)
		}
	}
	return all
}

// wasRefused looks whether a program is told why what it has written was refused, and whether
// that is kept.
func (m *simModel) wasRefused(p *simProc, o simOp) {
	m.mu.Lock()
	well := len(m.faults) == 0
	m.mu.Unlock()
	if p.isKilled() || p.kernel.isDead() {
		return
	}
	v := report.Viewer{UID: p.uid, PID: p.pid}
	for q := p; q != nil; q = q.parent {
		v.Lineage = append(v.Lineage, report.Process{PID: q.pid, Start: q.birth.Tick})
	}
	told := p.kernel.d.fs.reports.refused.For(v, nil, func(string) bool { return true })
	if !slices.ContainsFunc(told, func(r report.Refusal) bool { return r.Errno == "EBADMSG" }) {
		m.w.failf("%s is not told why its %s was refused for what it holds", p, o.kind)
	}
	var texts []string
	switch o.kind {
	case "write":
		texts = []string{strings.Join(versionText(o.version), "")}
	case "append":
		for r := range strings.SplitSeq(o.version, "}{") {
			texts = append(texts, recordText(r))
		}
	default:
		return
	}
	if well && !slices.ContainsFunc(texts, func(text string) bool { _, kept := m.w.find(text); return kept }) {
		m.w.failf("%s was refused %s of %s, and that is not kept", p, o.kind, o.path)
	}
}

// refusedRecords notes that a program was told that a record of its own, or an earlier one, was
// refused for what it holds.
func (m *simModel) refusedRecords(p *simProc, f *simFile, ended int64) {
	var all []string
	for i := range f.records {
		f.records[i].failed = true
		all = append(all, f.records[i].version)
	}
	o := simOp{kind: "append", path: f.path, handle: f.handle, version: strings.Join(all, "}{"), errno: unix.EBADMSG}
	m.note(p, o, f.records[0].began, ended)
}

// drawJudges lets the policy ask something of the files of a script, and lets some of its programs
// write what that refuses. What cannot be appended line by line is written anew.
func (s *simScript) drawJudges(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 33))
	merges := s.hazards.updates == policy.Merge
	if r.IntN(6) != 0 || merges && s.appends() { // versions that are lines may be joined with records
		return
	}
	n := len(simValidators)
	j := simJudges(1 + r.IntN(n-1) + 10*r.IntN(n))
	s.hazards.judges = int(j)
	for i := range s.programs {
		for k, line := range s.programs[i].lines {
			command, file, _ := strings.Cut(line, " ")
			if command == "log" && !j.byLines(file) {
				command, line = "bump", "bump "+file
			}
			if slices.Contains(simWriters, command) && r.IntN(4) == 0 {
				line = "bad " + line
			}
			s.programs[i].lines[k] = line
		}
	}
	for range 1 + r.IntN(4) {
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		line := []string{"bad echo a", "bad echo b", "bad save a", "save a", "mv b a", "mv a b", "exchange a b", "truncate a", "echo b", "log b", "bad log b", "ln b a", "bad txn a b"}[r.IntN(13)]
		switch {
		case strings.Contains(line, "log b") && !j.byLines("b"):
			line = strings.Replace(line, "log", "bump", 1)
		case strings.Contains(line, "log b") && (merges || s.stagesNames()): // it may come to be in a transaction
			line = "cat b"
		case strings.HasPrefix(line, "ln ") && s.locksSeveral():
			line = "rm a"
		}
		at := r.IntN(len(p.lines) + 1)
		if strings.HasPrefix(line, "bad txn") && p.isInBlock(at) { // transactions do not nest
			at = 0
		}
		p.lines = slices.Insert(p.lines, at, line)
	}
}

// simWriters are the commands that may write what is refused.
var simWriters = []string{"echo", "count", "edit", "save", "cut", "bump", "log", "sync", "lock", "pass", "share", "map", "keepmap", "via", "insist", "claim", "watch"}

// byLines reports whether what is appended to a path can be judged by itself.
func (j simJudges) byLines(file string) bool { return slices.Contains([]int{0, 2, 4, 6}, j.on(file)) }

// Whatever gives a name what its validators refuse fails, and the name holds what it has held.
func TestRefusedContent(t *testing.T) {
	for line, call := range map[string]string{
		"bad echo a":               "closes a",
		"bad bump d/a":             "closes d/a",
		"bad save a":               "renames a.tmp1 to a",
		"bad echo c; mv c a":       "renames c to a",
		"bad echo c; exchange c a": "renames c to a, and that the other way,",
		"bad echo c; exchange a c": "renames a to c, and that the other way,",
		"bad echo c; ln c b":       "gives c the further name b",
		"bad log b":                `writes "{ann1zzzzzzzzzzzzzzzzzzzz}\n" to b`,
		"truncate a":               "truncates a to nothing",
	} {
		w := inTurnsOf(t, simOptions{seed: 1, script: parseScript("ann: "+line+" | bob: cat a; cat d/a; cat b", simHazards{judges: 21}), turns: []string{"ann to the end", "bob to the end"}})
		story := w.transcript()
		if !strings.Contains(story, "ann[1] "+call+": EBADMSG") || !strings.Contains(story, `bob[2] reads a: "[\"old1q.old1q.old1q\"]\n", ok`) {
			t.Errorf("%s is not refused, or a does not hold what it held", line)
		}
	}
}

// A program is killed while a command looks at what it renames. It is not renamed, nor is what a
// daemon was asked about that dies meanwhile.
func TestJudgedMeanwhile(t *testing.T) {
	for _, harm := range []string{"kill ann", "crash"} {
		script := parseScript("ann: save a | bob: cat a", simHazards{judges: 5})
		w := inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{"ann until call rename", "ann to the end", harm, "the command to the end", "ann to the end", "bob to the end"}})
		if w.model.done["a command takes its time"] == 0 || !strings.Contains(w.transcript(), `bob[2] reads a: "[\"old1q.`) {
			t.Errorf("%s: %v", harm, w.model.done)
		}
	}
}

// A program has a file open to append lines to it, which gets a name, or a further one, whose
// content is judged as a whole. The lines are refused, and kept: the name holds what it has held.
func TestAppenderToAJudgedName(t *testing.T) {
	for _, line := range []string{"mv b a", "ln b a"} {
		script := parseScript("cyn: rm a; echo b | ann: log b | bob: "+line, simHazards{judges: 21})
		w := inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{"cyn to the end", "ann until call write b", "bob to the end", "ann to the end"}})
		if story := w.transcript(); !strings.Contains(story, `ann[2] writes "[\"ann2q\"]\n" to b: EBADMSG`) {
			t.Errorf("after %s what is appended is not refused", line)
		}
	}
}

// A truncation has been sent on a second walk, on which it comes to another file, for its directory
// was renamed. The program is told what the validators say.
func TestTruncationOfAnotherFile(t *testing.T) {
	script := parseScript("ann: truncate d/a | bob: mv d e; mkdir d; echo d/a", simHazards{judges: 1})
	w := inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{"ann until SETATTR", "ann until LOOKUP d", "bob to the end", "the kernel to the end", "ann to the end"}})
	if !strings.Contains(w.transcript(), "ann[1] truncates d/a to nothing: EBADMSG") {
		t.Error("the truncation is not refused")
	}
}
