package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/moby/sys/mountinfo"
	"github.com/spf13/cobra"

	"latchfs/fs/control"
	"latchfs/fs/mounts"
	"latchfs/fs/printable"
)

// conversation is an open control file (see package control). One request at a
// time is under way, so the next line is its reply.
type conversation struct {
	file    *os.File
	replies *bufio.Reader
	gone    bool // the daemon is: it has ended, or died
}

// converse opens the control file of a mount.
func converse(sys system, m *mountinfo.Info, locksDir string) (*conversation, error) {
	m, err := sys.rooted(m)
	if err != nil {
		return nil, err
	}
	return converseIn(sys, &view{root: m.Mountpoint, locks: filepath.Join(m.Mountpoint, locksDir)})
}

func converseIn(sys system, v *view) (*conversation, error) {
	file, err := sys.open(filepath.Join(v.locks, "control"))
	if errors.Is(err, syscall.ESHUTDOWN) {
		return nil, fmt.Errorf("latchfs on %s is shutting down; try again in a moment", v.root)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w; if mount was given another --locks-dir, say it here, too", err)
	}
	if err != nil {
		return nil, err
	}
	return &conversation{file: file, replies: bufio.NewReader(file)}, nil
}

// end ends the conversation, and the locks that belong to it alone.
func (c *conversation) end() { c.file.Close() }

// ask sends a request and waits for the reply.
func (c *conversation) ask(req *control.Request) (*answer, error) {
	a, err := c.exchange(req)
	if mounts.IsDead(err) {
		c.gone = true
	}
	return a, err
}

func (c *conversation) exchange(req *control.Request) (*answer, error) {
	line, err := encode(req)
	if err != nil {
		return nil, err
	}
	if _, err := c.file.Write(line); err != nil {
		return nil, err
	}
	reply, err := c.replies.ReadBytes('\n')
	switch {
	case err == io.EOF:
		return nil, fmt.Errorf("%s: the conversation ended without a reply", c.file.Name())
	case err != nil:
		return nil, err
	}
	a, err := readAnswer(req, reply)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.file.Name(), err)
	}
	return a, nil
}

// encode writes a request as a line that the other side will understand.
func encode(req *control.Request) ([]byte, error) {
	if req.IsOfVersions() {
		return encodeLine(inBase64(*req))
	}
	for _, names := range [][]string{req.Paths, req.Trees} {
		for _, name := range names {
			if !utf8.ValidString(name) { // JSON would have another name
				return nil, usagef("%q: a name that is not UTF-8 cannot be locked by name", name)
			}
		}
	}
	return encodeLine(req)
}

// inBase64 is the request with the paths that JSON cannot tell in base64.
func inBase64(req control.Request) *control.Request {
	var plain []string
	for _, p := range req.Paths {
		if utf8.ValidString(p) && !strings.ContainsRune(p, utf8.RuneError) { // which stands for what JSON cannot tell
			plain = append(plain, p)
		} else {
			req.PathsBase64 = append(req.PathsBase64, []byte(p))
		}
	}
	req.Paths = plain
	return &req
}

func encodeLine(req *control.Request) ([]byte, error) {
	line, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if req.Op != control.Release && req.Op != control.List && req.Op != control.Label && req.Lock == "" && len(req.Paths)+len(req.PathsBase64)+len(req.Trees)+len(req.Names) == 0 {
		return nil, usagef("name a FILE, --tree DIR or --name NAME")
	}
	if _, err := control.Parse(line); err != nil {
		return nil, &usageError{err}
	}
	if len(line) >= control.MaxLine {
		return nil, usagef("these are too many names for one request")
	}
	return append(line, '\n'), nil
}

// answer is a reply, and the line that it was.
type answer struct {
	control.Reply
	line []byte
}

// readAnswer is strict about what somebody relies on: who reads that a lock was
// acquired must be able to name it.
func readAnswer(req *control.Request, line []byte) (*answer, error) {
	a := &answer{line: line}
	err := json.Unmarshal(line, &a.Reply)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the reply cannot be read: %w", err)
	case !a.OK && (a.Refusal == nil || a.Error == ""):
		return nil, errors.New("the reply cannot be read: neither done nor refused")
	case a.OK && a.Refusal != nil && a.Error != "":
		return nil, errors.New("the reply cannot be read: both done and refused")
	case a.OK && req.Op == control.Acquire && (a.Lock == "" || a.Token == 0):
		return nil, errors.New("the reply cannot be read: acquired, but not which lock")
	}
	return a, nil
}

// print shows the answer to a request that was done: the reply as it is, or
// text. A warning goes where warnings go.
func (a *answer) print(cmd *cobra.Command, asJSON bool, text string) error {
	if a.Warning != "" {
		warn(cmd, "%s", a.Warning)
	}
	out := []byte(text)
	if asJSON {
		out = a.line
	}
	_, err := cmd.OutOrStdout().Write(out)
	return err
}

// printJSON prints a value as one line of JSON in which nothing is unprintable.
func printJSON(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(line), '\n'))
	return err
}

// warn says what is odd, and no failure.
func warn(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", calledAs(cmd), printable.Text(fmt.Sprintf(format, args...)))
}

// refused reports a refusal, and returns the error that stands for it. Where
// somebody is in the way its message is printed as it is, for it has the words
// of SEED C7 and W7.
func refused(cmd *cobra.Command, r *control.Refusal, asJSON bool) error {
	if asJSON {
		if err := printJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	}
	text := said(r)
	switch r.Error {
	case control.Blocked, control.Stale, control.Deadlock:
		fmt.Fprintln(cmd.ErrOrStderr(), printable.Text(text))
		return exitError(exitNotAcquired)
	case control.Invalid:
		return &usageError{errors.New(text)}
	default:
		return errors.New(text)
	}
}

// said is what a refusal has to say to people.
func said(r *control.Refusal) string {
	var lines []string
	for _, s := range []string{r.Message, r.Suggestion} {
		if s = strings.TrimSuffix(s, "\n"); s != "" {
			lines = append(lines, s)
		}
	}
	if r.Message == "" {
		lines = append([]string{r.Error}, lines...)
	}
	return strings.Join(lines, "\n")
}

// records decodes what check and list answer.
func (a *answer) records() ([]lockRecord, error) {
	records := make([]lockRecord, len(a.Locks))
	for i, raw := range a.Locks {
		if err := json.Unmarshal(raw, &records[i]); err != nil {
			return nil, fmt.Errorf("the reply cannot be read: %w", err)
		}
		if r := &records[i]; r.Locked == nil || *r.Locked && r.Holder == nil {
			return nil, errors.New("the reply cannot be read: it does not say whether something is locked, or by whom")
		}
	}
	return records, nil
}
