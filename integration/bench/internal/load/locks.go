package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Order is what a client of the control file is told, one line of JSON.
type Order struct {
	Do   string // a key of lockOrders
	N    int    // how many requests
	From int    // the number of the first file
	Step int    // from one file's number to the next
	Wait string // of a request: "0s" or "forever"
	Path string // below the mount
}

// Answer is what became of an order. Times are nanoseconds of CLOCK_MONOTONIC.
type Answer struct {
	Start, End int64
	N          int // replies, bytes or names, as the order has it
	Err        string
}

// Span is how long the order took.
func (a Answer) Span() time.Duration { return time.Duration(a.End - a.Start) }

var lockOrders = map[string]func(*lockClient, Order) (int, error){
	"one by one": (*lockClient).oneByOne,
	"send":       (*lockClient).send,
	"hold":       (*lockClient).hold,
	"receive":    (*lockClient).receive,
	"close":      (*lockClient).close,
	"read":       (*lockClient).read,
	"walk":       (*lockClient).walk,
}

// lockClient has one conversation, and looks at .locks when it is told to.
type lockClient struct {
	root string
	fd   int
	in   *bufio.Reader // the replies
}

func lockClientMain(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "bench: the client command is internal")
		return 2
	}
	c := &lockClient{root: args[0], fd: -1}
	orders, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o Order
		if err := orders.Decode(&o); err == io.EOF {
			return 0
		} else if err != nil {
			return 1
		}
		var a Answer
		var err error
		a.Start = monotonic()
		if do := lockOrders[o.Do]; do != nil {
			a.N, err = do(c, o)
		} else {
			err = fmt.Errorf("no such order: %q", o.Do)
		}
		a.End = monotonic()
		if err != nil {
			a.Err = err.Error()
		}
		if answers.Encode(a) != nil {
			return 1
		}
	}
}

// lockedFile is the name of the i-th file that is locked.
func lockedFile(i int) string { return fmt.Sprintf("locked/project-%03d/task-%06d.json", i/1000, i) }

// LockedDir is the directory of the i-th file that is locked, from 0, below the mount. It
// has to be there.
func LockedDir(i int) string { return filepath.Dir(lockedFile(i)) }

func (o *Order) request(b []byte, i int) []byte {
	return fmt.Appendf(b, `{"op":"acquire","paths":["%s"],"wait":"%s","ttl":"15m"}`+"\n", lockedFile(o.From+i*o.Step), o.Wait)
}

// open begins the conversation with the first request.
func (c *lockClient) open() error {
	if c.fd >= 0 {
		return nil
	}
	fd, err := unix.Open(filepath.Join(c.root, ".locks/control"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return At("open", "control", err)
	}
	c.fd = fd
	c.in = bufio.NewReaderSize(descriptor(fd), 1<<16)
	return nil
}

// descriptor reads with a system call for each read, as the bench's clients do.
type descriptor int

func (d descriptor) Read(b []byte) (int, error) {
	n, err := unix.Read(int(d), b)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// oneByOne sends a request when the one before it is answered.
func (c *lockClient) oneByOne(o Order) (int, error) {
	if err := c.open(); err != nil {
		return 0, err
	}
	var line []byte
	for i := range o.N {
		line = o.request(line[:0], i)
		if err := writeAll(c.fd, line); err != nil {
			return i, At("write", "control", err)
		}
		if err := c.reply(); err != nil {
			return i, err
		}
	}
	return o.N, nil
}

// send sends requests, as many at once as fit into 64 KiB.
func (c *lockClient) send(o Order) (int, error) {
	return c.inBatches(o, func(int) error { return nil })
}

// hold sends them in the same way, and reads the replies after each batch.
func (c *lockClient) hold(o Order) (int, error) {
	return c.inBatches(o, func(n int) error {
		_, err := c.receive(Order{N: n})
		return err
	})
}

func (c *lockClient) inBatches(o Order, sent func(n int) error) (int, error) {
	if err := c.open(); err != nil {
		return 0, err
	}
	b, n := make([]byte, 0, 1<<16), 0
	for i := range o.N {
		b, n = o.request(b, i), n+1
		if len(b)+200 > cap(b) || i == o.N-1 {
			if err := writeAll(c.fd, b); err != nil {
				return i, At("write", "control", err)
			}
			if err := sent(n); err != nil {
				return i, err
			}
			b, n = b[:0], 0
		}
	}
	return o.N, nil
}

// receive reads replies; each must be a grant.
func (c *lockClient) receive(o Order) (int, error) {
	for i := range o.N {
		if err := c.reply(); err != nil {
			return i, err
		}
	}
	return o.N, nil
}

func (c *lockClient) reply() error {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return At("read", "control", err)
	}
	if !bytes.HasPrefix(line, []byte(`{"ok":true`)) {
		return errors.New("refused: " + Shorten(string(line)))
	}
	return nil
}

// close ends the conversation with everything that it holds.
func (c *lockClient) close(Order) (int, error) {
	err := unix.Close(c.fd)
	c.fd = -1
	return 0, err
}

// read reads a file as cat does.
func (c *lockClient) read(o Order) (int, error) {
	b, err := os.ReadFile(filepath.Join(c.root, o.Path))
	return len(b), err
}

// walk lists a directory and everything below it, as ls -R does.
func (c *lockClient) walk(o Order) (int, error) {
	n := 0
	err := filepath.WalkDir(filepath.Join(c.root, o.Path), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	return n, err
}
