// Command saver saves files as Go programs do, for the tool matrix and the
// crash tests.
//
//	saver writefile PATH TEXT   os.WriteFile
//	saver rename PATH TEXT      os.CreateTemp beside it, Sync, Close, os.Rename
//	saver threads N             N goroutines on N threads save a file each
//	saver load DIR LOG FIRST   saves in DIR until it fails (package crashload)
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"latchfs/integration/internal/crashload"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "saver:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 3 && args[0] == "writefile" {
		return os.WriteFile(args[1], []byte(args[2]), 0o644)
	}
	if len(args) == 3 && args[0] == "rename" {
		return saveByRename(args[1], args[2])
	}
	if len(args) == 2 && args[0] == "threads" {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return saveFromThreads(n)
	}
	if len(args) == 4 && (args[0] == "load" || args[0] == "inplace") {
		first, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return runLoad(args[0] == "inplace", args[1], args[2], first)
	}
	return fmt.Errorf("usage: writefile PATH TEXT | rename PATH TEXT | threads N | load DIR LOG FIRST | inplace DIR LOG FIRST, not %q", args)
}

func runLoad(inPlace bool, dir, logPath string, first int) error {
	log, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s := crashload.Load{Dir: dir, Log: log}
	if inPlace {
		return s.RunInPlace(first)
	}
	return s.Run(first)
}

func saveByRename(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "tmp-*")
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// saveFromThreads keeps every goroutine on a thread of its own, all at once, so
// that the requests carry as many different thread ids.
func saveFromThreads(n int) error {
	errs := make([]error, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait()
			errs[i] = os.WriteFile(fmt.Sprint("n", i), []byte(fmt.Sprint("thread ", i)), 0o644)
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
