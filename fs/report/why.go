package report

import (
	"strconv"
	"strings"
	"time"

	"latchfs/fs/printable"
)

// Refusal is one operation that was answered with an error because of a lock,
// a deadlock or a commit that could not be made.
type Refusal struct {
	Time time.Time
	// Path and Name are what was refused, as in Record.
	Path string
	Name string
	// Operation is what was asked: "open", "rename", "close", ...
	Operation string
	// Errno is the name of what the program was answered: "EBUSY", ...
	Errno string
	// Wait is how long the request had waited; 0 when it did not wait.
	Wait time.Duration
	// Reason is the cause in one sentence; may be empty where Errno and Holder
	// say it all.
	Reason string
	// Content is the line on account of which a validator refused, and Output what
	// it said besides: for those alone who may see them.
	Content string
	Output  []string
	// Place is where in the content the cause is, in words, for the same readers.
	Place string
	// Holder is who was in the way; nil when nobody was.
	Holder *Record
	// Suggestion is what to do; when it is empty, Advice finds something.
	Suggestion string
	// PID is the process that was refused.
	PID int32
	// Kept is the id under which refused bytes were kept, "" if there were none.
	Kept string
}

// Message says in a sentence or two what was refused and who was in the way: first
// the file, the holder and since when, then the words that SEED C7 and W7 promise.
// Logs and commands can use it too.
func (r Refusal) Message() string { return r.message(time.Local) }

func (r Refusal) message(loc *time.Location) string {
	headline := r.headline()
	if r.Holder == nil {
		return headline
	}
	if r.Errno == "EBUSY" || r.Errno == "EAGAIN" {
		headline = r.inTheWay(loc) + "\n" + headline
	}
	held := "Held by "
	if r.Holder.Session != "" {
		held += "session '" + printable.Line(r.Holder.Session) + "'"
	} else {
		held += r.Holder.Who()
	}
	if r.Holder.Operation != "" {
		held += " for operation '" + printable.Line(r.Holder.Operation) + "'"
	}
	if r.Wait > 0 && r.Errno == "EBUSY" {
		held = "Could not acquire lock within " + waited(r.Wait) + ". " + held
	}
	return headline + "\n" + held
}

// InTheWay says what is locked, by whom and since when.
func (r Refusal) InTheWay() string { return r.inTheWay(time.Local) }

// inTheWay says what is locked, by whom and since when, and how long the refused
// request waited.
func (r Refusal) inTheWay(loc *time.Location) string {
	s := r.shown() + " is locked by " + r.Holder.whoAs()
	if since := r.Holder.Since; !since.IsZero() {
		at := r.Time
		if at.IsZero() {
			at = time.Now() // it happens now
		}
		s += " since " + moment(since, at.In(loc))
	}
	if r.Wait > 0 && r.Errno == "EBUSY" {
		s += "; this request gave up after " + waited(r.Wait)
	}
	return s
}

func (r Refusal) headline() string {
	switch {
	case r.Errno == "EDEADLK":
		return "Waiting would have been a deadlock: the holder waits, itself or through others, for this process"
	case r.saysItself():
		return printable.Line(r.Reason)
	case r.Errno == "EINTR":
		return "A signal ended the wait for the lock after " + waited(r.Wait)
	case r.Errno == "ESTALE":
		return r.shown() + " was not changed: its writer lost the lock before the change was complete"
	case r.Errno == "ECANCELED":
		return r.shown() + " was left as it was: the change belonged to a transaction, of which nothing was published"
	case r.Errno == "EBADMSG":
		return "The content was not accepted, and nothing has changed"
	case r.Errno == "EBUSY" && r.Wait > 0:
		return "Failed to acquire lock (timeout after " + waited(r.Wait) + ")"
	case r.Holder == nil && r.Wait == 0 && r.Errno != "EBUSY" && r.Errno != "EAGAIN":
		return r.shown() + " was left as it was" // a full disk, a limit, an error of the disk
	default:
		return "Cannot acquire lock on " + r.shown() + " (another process may be active)"
	}
}

// saysItself reports whether the reason is whole sentences, which need no others before
// them: of a change that another program's change has overtaken, and of a killed
// writer's file, where nobody waited and nobody was in the way.
func (r Refusal) saysItself() bool {
	return (r.Errno == "EBUSY" || r.Errno == "EINTR") && r.Holder == nil && r.Reason != "" && r.Wait == 0
}

// waited writes how long a request waited: "30s", "1m30s", "250ms".
func waited(d time.Duration) string {
	if d >= time.Second {
		return d.Round(time.Second / 10).String()
	}
	return d.Round(time.Millisecond).String()
}

// Advice says what to do after the refusal: the Suggestion, or what follows from
// the errno and the holder.
func (r Refusal) Advice() string {
	if r.Suggestion != "" {
		return r.Suggestion
	}
	switch {
	case r.Errno == "EDEADLK":
		return "Run it again. Programs that take several files should take them in the same order."
	case r.Errno == "EINTR" && r.saysItself():
		return ""
	case r.Errno == "EINTR":
		return "Run it again."
	case r.Errno == "EBADMSG":
		return "Correct the content and write it again."
	case r.Errno == "ECANCELED":
		return "Remedy the reason, and run the transaction again."
	case r.Holder == nil && r.Kept != "" && (r.Errno == "ESTALE" || r.Errno == "EBUSY"):
		return "Read the file again, and repeat the change. `latchfs rejected diff " + printable.Line(r.Kept) + "` shows what was written beside the file as it is now."
	case r.Holder == nil:
		return ""
	case r.Holder.Stale:
		return "The holder shows no sign of life: `rm " + r.Holder.file() + "` in .locks takes the lock away from it."
	case r.Errno == "EAGAIN":
		return "Run it again, or let it wait: without O_NONBLOCK, or with a longer --wait of latchfs." + findHolder(r.Holder)
	default:
		return "Run it again when the holder is done." + findHolder(r.Holder)
	}
}

// findHolder tells how to look at the stuck process (SEED C7).
func findHolder(h *Record) string {
	if h.ClaimFile != "" {
		return " The lock is the file " + printable.Line(h.ClaimFile) + ", which whoever has written it removes."
	}
	if h.Owner.PID == 0 {
		return " The holder is in another pid namespace: look for " + printable.Line(h.actor()) + " there."
	}
	pid := strconv.Itoa(int(h.Owner.PID))
	return " `ps -fp " + pid + "` shows it; its locks end with it."
}

// shown names what was refused.
func (r Refusal) shown() string { return (&Record{Path: r.Path, Name: r.Name}).shown() }

// RecordSuffix ends the names of the records of held locks, in held/ and in names/.
const RecordSuffix = ".lock"

// file is the name of the lock's record, quoted for a shell.
func (r *Record) file() string {
	if r.Name != "" {
		return printable.Word("names/" + r.Name + RecordSuffix)
	}
	return printable.Word("held/" + r.Path + RecordSuffix)
}

// Why renders a list of refusals in its order, the file why. It tells no time that moves with the clock, so
// that its size stays what Stat said.
func Why(list []Refusal, v Viewer, loc *time.Location) []byte {
	if len(list) == 0 {
		return []byte("Nothing was refused to this process or to the processes that started it.\n")
	}
	var b []byte
	for i, r := range list {
		if i > 0 {
			b = append(b, '\n')
		}
		b = r.append(b, v, loc)
	}
	return b
}

// append renders one refusal as a paragraph.
func (r Refusal) append(b []byte, v Viewer, loc *time.Location) []byte {
	b = r.Time.In(loc).AppendFormat(b, time.DateTime)
	b = append(b, "  "...)
	b = append(b, printable.Line(r.Operation)...)
	b = append(b, ' ')
	b = append(b, r.shown()...)
	b = append(b, ": "...)
	b = append(b, printable.Line(r.Errno)...)
	if r.PID != 0 {
		b = append(b, " (process "...)
		b = strconv.AppendInt(b, int64(r.PID), 10)
		b = append(b, ')')
	}
	b = append(b, '\n')
	for line := range strings.SplitSeq(r.message(loc), "\n") {
		b = appendField(b, "", line)
	}
	if !r.saysItself() {
		b = appendField(b, "reason:   ", printable.Line(r.Reason))
	}
	b = appendField(b, "where:    ", printable.Line(r.Place))
	b = appendField(b, "content:  ", printable.Line(r.Content))
	for _, line := range r.Output {
		b = appendField(b, "output:   ", printable.Line(line))
	}
	if h := r.Holder; h != nil {
		b = appendField(b, "holder:   ", h.describe(r.Time, loc))
		if v.sees(h.UID) {
			b = appendField(b, "command:  ", joinLine(h.Cmdline))
			b = appendField(b, "cwd:      ", printable.Line(h.Cwd))
		}
	}
	if r.Kept != "" {
		b = appendField(b, "kept:     ", "what was written is kept under the id "+printable.Line(r.Kept))
	}
	return appendField(b, "to do:    ", r.Advice())
}

func appendField(b []byte, label, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, "  "...)
	b = append(b, label...)
	b = append(b, value...)
	return append(b, '\n')
}

// describe says in a line who the holder is and how long it had held the lock
// at a moment.
func (r *Record) describe(at time.Time, loc *time.Location) string {
	s := r.whoAs()
	if r.Host != "" {
		s += " on " + printable.Line(r.Host)
	}
	s += ", " + printable.Line(r.Mode) + ", since " + r.Since.In(loc).Format(time.DateTime) +
		" (" + age(at.Sub(r.Since)) + " when this was refused)"
	if r.Stale {
		s += ", stale"
	}
	return s
}
