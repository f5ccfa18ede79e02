package main

import (
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/spf13/cobra"

	"latchfs/fs/control"
)

// selectors are the flags that say, along with the arguments, what to lock, and
// in which mount.
type selectors struct {
	trees, names []string
	mount        string
	locksDir     string
	asJSON       bool
}

func (s *selectors) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringArrayVar(&s.trees, "tree", nil, "`DIR` with everything below it; may be repeated")
	fl.StringArrayVar(&s.names, "name", nil, "`NAME` of a lock that stands for no file: a-z, 0-9, - and _; may be repeated")
	s.registerMount(cmd)
	_ = cmd.MarkFlagDirname("tree") // fails for a flag that is not there
}

// registerMount registers the flags that say in which mount.
func (s *selectors) registerMount(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.mount, "mount", "", "the mount that `DIR` is in, for names (default: the one around the working directory, or the only one)")
	registerLocksDir(cmd, &s.locksDir)
	_ = cmd.MarkFlagDirname("mount")
}

func registerLocksDir(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "locks-dir", ".locks", "`NAME` of the virtual directory, if mount was given another")
}

func registerJSON(cmd *cobra.Command, asJSON *bool, usage string) {
	cmd.Flags().BoolVar(asJSON, "json", false, usage)
}

// begin opens a conversation in the mount that the files, trees and names are
// in, and puts them into the request. What is wrong with the request itself is
// found first.
func (s *selectors) begin(sys system, req *control.Request, files []string) (*conversation, error) {
	req.Paths, req.Trees, req.Names = files, s.trees, s.names
	if slices.Contains(s.trees, "") { // as of an unset variable
		return nil, usagef("--tree: the name of the directory is empty")
	}
	if _, err := encode(req); err != nil {
		return nil, err
	}
	m, err := s.resolve(sys, req)
	if err != nil {
		return nil, err
	}
	return converse(sys, m, s.locksDir)
}

// ask is a conversation of one request.
func (s *selectors) ask(sys system, req *control.Request, files []string) (*answer, error) {
	c, err := s.begin(sys, req, files)
	if err != nil {
		return nil, err
	}
	defer c.end()
	return c.ask(req)
}

// resolve makes the request's paths those of the one mount that they are in.
func (s *selectors) resolve(sys system, req *control.Request) (*mountinfo.Info, error) {
	var in *mountinfo.Info
	locate := func(names []string) ([]string, error) {
		var paths []string
		for _, name := range names {
			p, err := sys.locate(name)
			if err != nil {
				return nil, err
			}
			if in != nil && !sameFilesystem(in, p.mount) {
				return nil, usagef("%s is in the mount %s, not in %s: the locks of one command are all in one mount",
					name, p.mount.Mountpoint, in.Mountpoint)
			}
			in = p.mount
			paths = append(paths, p.path)
		}
		return paths, nil
	}
	var err error
	if s.mount != "" {
		if _, err = locate([]string{s.mount}); err != nil {
			return nil, err
		}
	}
	if req.Paths, err = locate(req.Paths); err != nil {
		return nil, err
	}
	if req.Trees, err = locate(req.Trees); err != nil {
		return nil, err
	}
	if in != nil {
		return in, nil
	}
	return sys.here()
}

// holderFlag is --for: the process that a lock belongs to.
type holderFlag struct{ pid int32 }

func (h *holderFlag) register(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(h, "for", usage)
}

// String shows no default: "the caller" is said in the usage.
func (h *holderFlag) String() string {
	if h.pid == 0 {
		return ""
	}
	return strconv.Itoa(int(h.pid))
}

// Type is the name of the value in the help.
func (h *holderFlag) Type() string { return "PID" }

// Set reads the flag's value.
func (h *holderFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 {
		return errors.New("want the id of a process")
	}
	h.pid = int32(n)
	return nil
}

// holder is the process that --for names, or else the one that called latchfs.
func (h *holderFlag) holder() (int32, error) {
	if h.pid != 0 {
		return h.pid, nil
	}
	parent := os.Getppid()
	if parent < 1 || parent > math.MaxInt32 {
		return 0, usagef("the process that called latchfs cannot be seen from here: name one with --for PID")
	}
	return int32(parent), nil
}

// lockFlags are the flags of the commands that take locks.
type lockFlags struct {
	selectors
	mode      string
	wait      waitFlag
	ttl       time.Duration
	operation string
	actor     string
	steal     bool
}

func (f *lockFlags) register(cmd *cobra.Command) {
	f.selectors.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.mode, "mode", "exclusive", "`MODE`: exclusive, update or shared")
	fl.Var(&f.wait, "wait", "how long to queue: a time as in 5s, 0 or forever (default: the policy's for the first FILE)")
	fl.DurationVar(&f.ttl, "ttl", 0, "the lease: without a sign of life for this `TIME` the lock goes stale; 0 is never (default: the policy's)")
	fl.StringVar(&f.operation, "operation", "", "what the lock is for, a `LABEL` for people")
	fl.StringVar(&f.actor, "actor", "", "who takes it, a `LABEL` for people")
	fl.BoolVar(&f.steal, "steal", false, "take the lock from holders whose lease has expired")
	// Fails for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("mode",
		cobra.FixedCompletions([]string{"exclusive", "update", "shared"}, cobra.ShellCompDirectiveNoFileComp))
}

// request is the acquire that the flags ask for, without what to lock.
func (f *lockFlags) request(cmd *cobra.Command) (*control.Request, error) {
	if f.mode == "" {
		return nil, usagef("--mode: want exclusive, update or shared")
	}
	req := &control.Request{
		Op:        control.Acquire,
		Mode:      f.mode,
		Wait:      f.wait.wait,
		Operation: f.operation,
		Actor:     f.actor,
		Steal:     f.steal,
	}
	if cmd.Flags().Changed("ttl") {
		if f.ttl < 0 {
			return nil, usagef("--ttl %v: cannot be negative", f.ttl)
		}
		ttl := control.Duration(f.ttl)
		req.TTL = &ttl
	}
	return req, nil
}

// waitFlag is --wait.
type waitFlag struct{ wait *control.Duration }

// String shows no default: it is the policy's.
func (w *waitFlag) String() string {
	if w.wait == nil {
		return ""
	}
	if *w.wait == control.Forever {
		return "forever"
	}
	return time.Duration(*w.wait).String()
}

// Type is the name of the value in the help.
func (w *waitFlag) Type() string { return "TIME" }

// Set reads the flag's value.
func (w *waitFlag) Set(s string) error {
	d := control.Forever
	if s != "forever" {
		v, err := time.ParseDuration(s)
		if err != nil || v < 0 {
			return errors.New("want a time as in 5s, 0 or forever")
		}
		d = control.Duration(v)
	}
	w.wait = &d
	return nil
}
