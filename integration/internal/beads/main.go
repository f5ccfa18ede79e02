// Command beads is a tool and a daemon in the manner of beads: the tool claims the
// database directory .beads by a file in it, and the daemon looks for that file before it
// works. The database is .beads/issues.jsonl, which is read, changed and replaced.
//
//	beads claim HOLDER          claim the database, and hold it until standard input ends
//	beads add TEXT              claim it, add an issue, let it go
//	beads daemon                for each line of standard input: sync, which adds the line
//	beads write TEXT            add an issue, and look for no claim
//
// At the point that PAUSE names it says "at POINT" and waits for a line, or the end, of
// its standard input. HOST is the name of the host that it writes.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	database  = ".beads/issues.jsonl"
	claimFile = ".beads/.exclusive-lock"
)

// claim is the record in the claim file.
type claim struct {
	Holder    string    `json:"holder"`
	PID       int       `json:"pid"`
	Hostname  string    `json:"hostname"`
	StartedAt time.Time `json:"started_at"`
	Version   string    `json:"version,omitempty"`
}

var input = bufio.NewReader(os.Stdin)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "beads:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "claim":
		if err := take(args[1]); err != nil {
			return err
		}
		fmt.Println("claimed")
		_, err := io.Copy(io.Discard, input)
		return errors.Join(err, os.Remove(claimFile))
	case len(args) == 2 && args[0] == "add":
		if err := take("add"); err != nil {
			return err
		}
		fmt.Println("claimed")
		return errors.Join(add(args[1]), os.Remove(claimFile))
	case len(args) == 1 && args[0] == "daemon":
		return daemon()
	case len(args) == 2 && args[0] == "write":
		return add(args[1])
	}
	return errors.New("usage: beads claim HOLDER | add TEXT | daemon | write TEXT")
}

func pause(point string) {
	if os.Getenv("PAUSE") == point {
		fmt.Println("at", point)
		_, _ = input.ReadString('\n') // or its end
	}
}

func hostname() string {
	if name := os.Getenv("HOST"); name != "" {
		return name
	}
	name, _ := os.Hostname()
	return name
}

// take claims the database: it looks whether somebody has, and then writes the file.
func take(holder string) error {
	if skip, err := look(); err != nil || skip != "" {
		return errors.Join(err, errors.New(skip))
	}
	pause("checked")
	record, err := json.Marshal(claim{holder, os.Getpid(), hostname(), time.Now().UTC(), "1.0"})
	if err != nil {
		return err
	}
	return os.WriteFile(claimFile, record, 0o644)
}

// look says why the database is not to be worked on, or "". A stale claim it removes.
func look() (skip string, err error) {
	data, err := os.ReadFile(claimFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var c claim
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Sprintf("Skipping database (lock check failed: malformed lock file: %v)", err), nil
	}
	if c.Holder == "" || c.Hostname == "" || c.PID <= 0 || c.StartedAt.IsZero() {
		return "Skipping database (lock check failed: malformed lock file: incomplete)", nil
	}
	if !strings.EqualFold(c.Hostname, hostname()) || !errors.Is(syscall.Kill(c.PID, 0), syscall.ESRCH) {
		return fmt.Sprintf("Skipping database (locked by %s)", c.Holder), nil
	}
	pause("stale")
	if err := os.Remove(claimFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "Removed stale lock (%s), proceeding with sync\n", c.Holder)
	return "", nil
}

// daemon syncs once for each line. What it has begun it completes.
func daemon() error {
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			return nil
		}
		line = strings.TrimSpace(line)
		skip, err := look()
		switch {
		case err != nil:
			fmt.Println("failed", err)
			continue
		case skip != "":
			fmt.Println(skip)
			continue
		}
		pause("checked")
		if err := add(line); err != nil {
			fmt.Println("failed", err)
			continue
		}
		fmt.Println("synced")
	}
}

// add reads the issues, adds one and replaces the file.
func add(text string) error {
	old, err := os.ReadFile(database)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	pause("read")
	issue, err := json.Marshal(map[string]string{"title": text})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(".beads", "issues-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // which is gone if all went well
	_, err = f.Write(append(append(old, issue...), '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), database); err != nil {
		return err
	}
	fmt.Println("added", text)
	return nil
}
