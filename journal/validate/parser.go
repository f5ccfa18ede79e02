package validate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What parsing may take in a process of its own.
const (
	parseMemory = 512 << 20 // bytes
	parseCPU    = 10        // seconds
	parseTime   = 30 * time.Second
)

// What a parser may take above parseMemory until the kernel gives it no more, and how often
// it looks. A Go program that is given no more dies wherever it happens to be, and not
// always with a word that tells why; so the parser ends by itself before. A slice that grows
// takes more than all that there was at once.
const (
	spareMemory = 2 * parseMemory // bytes
	memoryWatch = 2 * time.Millisecond
)

// runtimeFault is how Go's own runtime says that it has touched memory that it was not given.
// A fault of the parser itself is a panic.
const runtimeFault = "SIGSEGV: segmentation violation\nPC="

// nobody is the user as whom root parses.
const nobody = 65534

// answer is what the parser writes to its standard output. One that is missing is
// no acceptance.
type answer struct {
	Accepted bool
	Refusal  *Refusal `json:",omitempty"`
}

// parseOutside parses the content in another process, which can take only so much
// of everything with it.
func parseOutside(ctx context.Context, f io.ReaderAt, size int64, format Format, program string) error {
	if err := enter(ctx, parsingForAll); err != nil {
		return err
	}
	in, err := sealedCopy(f, size)
	if err != nil {
		<-parsingForAll
		return err
	}
	limit, cancel := context.WithTimeout(ctx, parseTime)
	p := &process{cmd: exec.Command(program), name: program, kill: limit.Done(), result: make(chan error, 1)}
	p.cmd.Args = []string{HelperName, helperParse, string(format)}
	p.cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}
	said := output{most: 64 << 10}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, &said, &p.out
	go func() {
		defer func() { <-parsingForAll }()
		defer cancel()
		p.run()
	}()
	if err = p.await(limit.Done()); err == errKilled && ctx.Err() != nil {
		return ctx.Err()
	}
	var a answer
	switch {
	case err != nil:
		return p.parseFailed(err, format)
	case json.Unmarshal(said.buf.Bytes(), &a) != nil || a.Accepted == (a.Refusal != nil):
		return &Refusal{Validator: string(format), Reason: "the parser failed"}
	case a.Refusal != nil:
		return a.Refusal
	}
	return nil
}

// tooMuchMemory is the reason for which content is refused that took parseMemory.
var tooMuchMemory = fmt.Sprintf("too much to be checked: it takes more than %d MiB of memory", parseMemory>>20)

// parseFailed says why a parser has ended without an answer.
func (p *process) parseFailed(err error, format Format) error {
	r := &Refusal{Validator: string(format)}
	var exit *exec.ExitError
	var ws syscall.WaitStatus
	if errors.As(err, &exit) {
		ws, _ = exit.Sys().(syscall.WaitStatus)
	}
	text := strings.Join(p.out.lines(), "\n")
	switch {
	case err == errKilled:
		r.Reason = fmt.Sprintf("too much to be checked: it takes more than %v", parseTime)
	case errors.As(err, new(*startError)):
		r.Reason = "the parser cannot be run: " + err.Error()
	case strings.Contains(text, "out of memory"), strings.Contains(text, "cannot allocate memory"), strings.Contains(text, runtimeFault):
		r.Reason = tooMuchMemory
	case ws.Signaled() && (ws.Signal() == unix.SIGKILL || ws.Signal() == unix.SIGXCPU):
		r.Reason = fmt.Sprintf("too much to be checked: it takes more than %d s of processor time, or memory is short", parseCPU)
	default:
		r.Reason, r.Output = "the parser failed", p.out.lines()
	}
	return r
}

// serveParser parses the standard input, takes no more than about so many bytes of memory, and
// writes an answer.
func serveParser(format Format, memory uint64) error {
	if err := becomeHarmless(); err != nil {
		return err
	}
	st, err := os.Stdin.Stat()
	if err != nil {
		return err
	}
	parsed := make(chan error, 1)
	go func() { parsed <- parseHere(os.Stdin, st.Size(), format) }()
	select {
	case err = <-parsed:
	case <-memoryTaken(memory):
		err = &Refusal{Validator: string(format), Reason: tooMuchMemory}
	}
	a := answer{Accepted: err == nil}
	if err != nil && !errors.As(err, &a.Refusal) {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}

// memoryTaken is closed as soon as this process has taken so many bytes of memory.
func memoryTaken(bytes uint64) <-chan struct{} {
	taken := make(chan struct{})
	go func() {
		total := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
		for range time.Tick(memoryWatch) {
			if metrics.Read(total); total[0].Value.Uint64() > bytes {
				close(taken)
				return
			}
		}
	}()
	return taken
}

// becomeHarmless gives up what a parser does not need.
func becomeHarmless() error {
	err := errors.Join(spareNobody(), setLimits(map[int]uint64{
		unix.RLIMIT_DATA: parseMemory + spareMemory, unix.RLIMIT_CPU: parseCPU, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0,
	}))
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(parseMemory / 4 * 3)
	if os.Geteuid() == 0 {
		// A user namespace may know root alone, which is an ordinary user then.
		if err := become(Credential{UID: nobody, GID: nobody}); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	err = errors.Join(
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0), // lost with the user
		noNewPrivileges(),
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	return os.NewSyscallError("prctl", err)
}

// noNewPrivileges keeps all threads from gaining rights by execve(2): each has its own word
// for that. Where C is linked in only this one can be told, and those that it starts.
func noNewPrivileges() error {
	_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if e == syscall.ENOTSUP {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if e != 0 {
		return e
	}
	return nil
}
