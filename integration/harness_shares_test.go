package integration

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Most tests run one after another in their process, for the descriptors of one are for
// a moment in what another starts; so the processors would be idle for much of the time.
// Processes do not share descriptors: the first one, go test's own, builds the programs,
// and runs this test binary again for each share of the tests.

var processes = flag.Int("processes", 0, "run the tests in `n` processes at a time; 0: one for each processor, but a single one with -v")

const (
	shareEnv = "LATCHFS_TEST_SHARE" // "1 of 2": the share that a process runs; empty in the first process
	runEnv   = "LATCHFS_TEST_RUN"   // the directory that all shares of this run have

	missingSuffix = ".missing" // of the files in which shares leave what they were missing

	// sharesEach is how many shares there are for each process that runs at a time: with one
	// each, the last of them runs alone for as long as its tests happen to take longer.
	sharesEach = 4
)

// onlyLists tells whether this process is asked for the names of the tests alone.
func onlyLists() bool { return flag.Lookup("test.list").Value.String() != "" }

// runShares runs each share of the tests in a process, and returns the exit code of this one.
func runShares() int {
	// A child dies with the thread that has started it.
	runtime.LockOSThread()
	shares, atOnce, err := cutShares()
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration: the names of the tests:", err)
		return 1
	}
	run, err := os.MkdirTemp(os.Getenv("LATCHFS_TEST_DIR"), "latchfs-test-")
	if err == nil {
		if os.Getenv("LATCHFS_KEEP") == "" {
			defer os.RemoveAll(run)
		}
		err = errors.Join(os.Chmod(run, 0o755), buildPrograms(run), startHiccups())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		return 1
	}
	code := awaitShares(run, shares, atOnce)
	if err := tellMissing(run); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = max(code, 1)
	}
	return code
}

// cutShares returns what each share is to have in place of -run, and how many shares run at once.
func cutShares() (patterns []string, atOnce int, err error) {
	asked := flag.Lookup("test.run").Value.String()
	n := *processes
	if n == 0 && !testing.Verbose() {
		n = runtime.NumCPU()
	}
	// Of single subtests, benchmarks and profiles there is one run.
	for _, single := range []string{"bench", "blockprofile", "coverprofile", "cpuprofile", "memprofile", "mutexprofile", "trace"} {
		if flag.Lookup("test."+single).Value.String() != "" {
			n = 1
		}
	}
	if n <= 1 || strings.Contains(asked, "/") {
		return []string{asked}, 1, nil
	}
	out, err := exec.Command("/proc/self/exe", "-test.list", cmp.Or(asked, ".")).Output()
	if err != nil {
		return nil, 0, err
	}
	names := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return !strings.HasPrefix(name, "Test") })
	return shareOut(names, n*sharesEach), n, nil
}

// shareOut cuts the names of tests into at most n shares, and returns for each a pattern of
// -run. Neighbours, which often take equally long, go to different ones.
func shareOut(names []string, n int) []string {
	var patterns []string
	for i := range max(1, min(n, len(names))) {
		var own []string
		for at := i; at < len(names); at += n {
			own = append(own, names[at])
		}
		patterns = append(patterns, "^("+strings.Join(own, "|")+")$")
	}
	return patterns
}

// awaitShares runs each share in a process, at most atOnce at a time, and returns the highest
// of their exit codes.
func awaitShares(run string, shares []string, atOnce int) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	running, ended := map[*exec.Cmd]bool{}, make(chan *exec.Cmd)
	code := 0
	for next := 0; next < len(shares) || len(running) > 0; {
		if next < len(shares) && len(running) < atOnce {
			cmd, err := startShare(run, shares[next], fmt.Sprintf("%d of %d", next+1, len(shares)))
			next++
			if err != nil {
				fmt.Fprintln(os.Stderr, "integration: a process for tests:", err)
				code = 1
				continue
			}
			running[cmd] = true
			go func() {
				_ = cmd.Wait() // its state says how it has ended
				ended <- cmd
			}()
			continue
		}
		select {
		case cmd := <-ended:
			delete(running, cmd)
			if !cmd.ProcessState.Success() {
				code = max(code, 1, cmd.ProcessState.ExitCode())
			}
		case s := <-signals:
			next, code = len(shares), max(code, 1) // it ends all
			for cmd := range running {
				cmd.Process.Signal(s)
			}
		}
	}
	return code
}

// startShare starts the process that runs the tests of the pattern.
func startShare(run, pattern, share string) (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe", append(slices.Clone(os.Args[1:len(os.Args)-flag.NArg()]), "-test.run="+pattern)...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), runEnv+"="+run, shareEnv+"="+share)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	return cmd, cmd.Start()
}

// passMissing leaves what this share was missing for tellMissing.
func passMissing() error {
	missingTools.mu.Lock()
	defer missingTools.mu.Unlock()
	text, err := json.Marshal(missingTools.of)
	if err != nil {
		return err
	}
	return os.WriteFile(bench.root+missingSuffix, text, 0o644)
}

// tellMissing names each program that a share was missing once.
func tellMissing(run string) error {
	files, err := filepath.Glob(filepath.Join(run, "*"+missingSuffix))
	if err != nil {
		return err
	}
	all := lacks{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var of lacks
		if err := json.Unmarshal(text, &of); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for program, parts := range of {
			for part := range parts {
				all.add(program, part)
			}
		}
	}
	all.tell()
	return nil
}

// runAgain runs this test binary as go test does, with the programs of this run.
func runAgain(args ...string) (string, error) {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(cmd.Environ(), binaryEnv+"="+bench.binary, "LATCHFS_TEST_DIR="+bench.root, shareEnv+"=", stressEnv+"=", hiccupsEnv+"=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
