// Command contender is one of many processes that lock the same few files in all
// ways there are, one lock at a time, and records what it saw:
//
//	contender DIR NUMBER ACTS SEED KEY...
//
// It says "ready", waits for a line on standard input, and prints its history at
// the end: one wire.Act a line.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "contender:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 5 {
		return errors.New("want DIR NUMBER ACTS SEED KEY")
	}
	number, err1 := strconv.Atoi(args[1])
	acts, err2 := strconv.Atoi(args[2])
	seed, err3 := strconv.ParseUint(args[3], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	c := &contender{dir: args[0], number: number, rnd: rand.New(rand.NewPCG(seed, uint64(number)))}
	if err := c.converse(); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	history := make([]wire.Act, acts)
	for i := range history {
		if err := c.act(&history[i], args[4:]); err != nil {
			return fmt.Errorf("act %d, %+v: %w", i, history[i], err)
		}
	}
	out := bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	for i := range history {
		if err := enc.Encode(&history[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}

type contender struct {
	dir     string
	number  int
	rnd     *rand.Rand
	control *os.File
	replies *json.Decoder
}

func (c *contender) converse() (err error) {
	fd, err := unix.Open(filepath.Join(c.dir, ".locks/control"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.control = os.NewFile(uintptr(fd), "control")
	c.replies = json.NewDecoder(c.control)
	return nil
}

// lockable is a lock taken in one of the ways.
type lockable interface {
	// take returns whether the lock was granted; an error is what should not happen.
	take(a *wire.Act) (bool, error)
	free(a *wire.Act) error
}

// act draws an attempt, makes it, and gives the lock back after a moment.
func (c *contender) act(a *wire.Act, keys []string) error {
	pick := func(of ...string) string { return of[c.rnd.IntN(len(of))] }
	*a = wire.Act{
		Process: c.number, Key: pick(keys...), Way: pick("control", "control", "control", "open", "flock"),
		Wait: []int64{0, int64(3 * time.Millisecond), int64(20 * time.Millisecond), int64(10 * time.Second)}[c.rnd.IntN(4)],
	}
	var l lockable
	switch a.Way {
	case "open":
		a.Mode, l = "exclusive", &opened{c: c}
	case "flock":
		a.Mode, l = pick("shared", "exclusive"), &flocked{c: c}
	default:
		a.Mode, l = pick("shared", "update", "exclusive"), &asked{c: c}
	}
	if a.Way != "control" && a.Wait > 0 {
		a.Wait = -1
	}
	a.Call = now()
	granted, err := l.take(a)
	a.Return, a.Granted = now(), granted
	if err != nil || !granted {
		return err
	}
	c.hold()
	a.Free = now()
	err = l.free(a)
	a.Freed = now()
	return err
}

// hold keeps the lock for up to half a millisecond: mostly for no time at all.
func (c *contender) hold() {
	if c.rnd.IntN(3) == 0 {
		time.Sleep(time.Duration(c.rnd.IntN(500)) * time.Microsecond)
	}
}

// asked is a lock taken through the control file.
type asked struct {
	c  *contender
	id string
}

type reply struct {
	OK    bool   `json:"ok"`
	Error string `json:"error"`
	Lock  string `json:"lock"`
	Token uint64 `json:"token"`
}

func (l *asked) take(a *wire.Act) (bool, error) {
	r, err := l.c.ask(map[string]any{
		"op": "acquire", "paths": []string{a.Key}, "mode": a.Mode, "wait": time.Duration(a.Wait).String(),
	})
	a.Token, a.Error, l.id = r.Token, r.Error, r.Lock
	if err == nil && !r.OK && r.Error != "lock_blocked" {
		err = errors.New(r.Error)
	}
	return r.OK, err
}

func (l *asked) free(*wire.Act) error {
	r, err := l.c.ask(map[string]any{"op": "release", "lock": l.id})
	if err == nil && !r.OK {
		err = errors.New(r.Error)
	}
	return err
}

func (c *contender) ask(request map[string]any) (r reply, err error) {
	line, err := json.Marshal(request)
	if err != nil {
		return r, err
	}
	if _, err := c.control.Write(append(line, '\n')); err != nil {
		return r, err
	}
	return r, c.replies.Decode(&r)
}

// opened is the session of an open for writing.
type opened struct {
	c  *contender
	fd int
}

func (l *opened) take(a *wire.Act) (bool, error) {
	flags := unix.O_WRONLY | unix.O_CLOEXEC
	if a.Wait == 0 {
		flags |= unix.O_NONBLOCK
	}
	err := ignoringSignals(func() (err error) {
		l.fd, err = unix.Open(filepath.Join(l.c.dir, a.Key), flags, 0)
		return err
	})
	return granted(a, err)
}

// free writes first: the session of who wrote nothing ends only with the RELEASE
// that follows the close.
func (l *opened) free(a *wire.Act) error {
	_, err := unix.Write(l.fd, fmt.Appendf(nil, "%4d\n", a.Process))
	return errors.Join(err, unix.Close(l.fd))
}

// granted tells a refusal from an error.
func granted(a *wire.Act, err error) (bool, error) {
	if err == unix.EAGAIN && a.Wait == 0 {
		a.Error = "EAGAIN"
		return false, nil
	}
	return err == nil, err
}

// flocked is a flock(2) on a descriptor that is open for reading.
type flocked struct {
	c  *contender
	fd int
}

func (l *flocked) take(a *wire.Act) (bool, error) {
	fd, err := unix.Open(filepath.Join(l.c.dir, a.Key), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	how := map[string]int{"shared": unix.LOCK_SH, "exclusive": unix.LOCK_EX}[a.Mode]
	if a.Wait == 0 {
		how |= unix.LOCK_NB
	}
	l.fd = fd
	got, err := granted(a, ignoringSignals(func() error { return unix.Flock(fd, how) }))
	if !got {
		unix.Close(fd)
	}
	return got, err
}

func (l *flocked) free(*wire.Act) error {
	defer unix.Close(l.fd)
	return unix.Flock(l.fd, unix.LOCK_UN)
}

// ignoringSignals repeats a call that the Go runtime's own signals interrupt.
func ignoringSignals(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("contender: CLOCK_MONOTONIC: " + err.Error())
	}
	return ts.Nano()
}
