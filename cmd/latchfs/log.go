package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// logSink is the log of one daemon and where it goes.
type logSink struct {
	logger *logrus.Logger
	path   string   // "" for standard error
	file   *os.File // open at path

	detached bool // standard output and error go where the log goes
}

// openLog configures logging: to a file, or to stderr.
func openLog(level logrus.Level, path string, stderr io.Writer) (*logSink, error) {
	l := &logSink{logger: logrus.New(), path: path}
	l.logger.SetLevel(level)
	text := &logrus.TextFormatter{FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"}
	l.logger.SetFormatter(text)
	if path == "" && isJournal(stderr) {
		text.DisableTimestamp = true // the journal keeps the time itself
		l.logger.SetFormatter(journalFormatter{text})
	}
	if path == "" {
		l.logger.SetOutput(stderr)
		return l, nil
	}
	return l, l.Reopen()
}

// isJournal reports whether what is written goes to the journal: see systemd.exec(5),
// JOURNAL_STREAM. The variable alone is inherited further than that.
func isJournal(w io.Writer) bool {
	var st unix.Stat_t
	f, ok := w.(*os.File)
	return ok && unix.Fstat(int(f.Fd()), &st) == nil && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// journalFormatter puts the priority before each line, as in sd-daemon(3), for journalctl -p.
type journalFormatter struct{ logrus.Formatter }

// Format implements logrus.Formatter.
func (f journalFormatter) Format(e *logrus.Entry) ([]byte, error) {
	line, err := f.Formatter.Format(e)
	return append([]byte(priorities[e.Level]), line...), err
}

var priorities = map[logrus.Level]string{
	logrus.PanicLevel: "<2>", logrus.FatalLevel: "<2>", logrus.ErrorLevel: "<3>", logrus.WarnLevel: "<4>",
	logrus.InfoLevel: "<6>", logrus.DebugLevel: "<7>", logrus.TraceLevel: "<7>",
}

// Entry is what the rooms log to.
func (l *logSink) Entry() *logrus.Entry { return logrus.NewEntry(l.logger) }

// Reopen opens the log file anew, after it was rotated away. Without a file it
// does nothing. Standard output and error follow if they went to the old one: what they
// get would not be found there, and the old file would take space as long as the daemon runs.
func (l *logSink) Reopen() error {
	if l.path == "" {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	l.logger.SetOutput(f)
	if l.file != nil {
		l.file.Close()
	}
	l.file = f
	if l.detached {
		return redirect(f, 1, 2)
	}
	return nil
}

// Detach lets go of the terminal: from here on standard input, output and
// error are /dev/null, or the log file, which also gets the last words of a
// crash.
func (l *logSink) Detach() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	out := null
	if l.file != nil {
		out = l.file
	}
	l.detached = true
	return errors.Join(redirect(null, 0), redirect(out, 1, 2))
}

// redirect makes the descriptors lead to the file.
func redirect(f *os.File, fds ...int) error {
	for _, fd := range fds {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	return nil
}
