package main

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
	"latchfs/lockmgr/policy"
)

func newPolicyCommand(sys system) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, show and try out policy files",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("want check, show or test")
		},
	}
	cmd.AddCommand(newPolicyCheckCommand(), newPolicyShowCommand(), newPolicyTestCommand(sys))
	return cmd
}

func newPolicyCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check policy files; every mistake is printed with its line",
		Args:  between(1, math.MaxInt),
		RunE: func(cmd *cobra.Command, files []string) error {
			var wrong []error
			for _, file := range files {
				if _, err := policy.Load(file); err != nil {
					wrong = append(wrong, err)
				}
			}
			return errors.Join(wrong...)
		},
	}
}

func newPolicyShowCommand() *cobra.Command {
	var f policyFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print a policy with its defaults and the built-in rules",
		Long: `Print a policy as it would be in force, with the defaults and the built-in
rules. What is in force on a mount is in its .locks/policy.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.load()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(p.TOML())
			return err
		},
	}
	f.register(cmd, "policy `FILE` (default: the built-in rules alone)")
	return cmd
}

func newPolicyTestCommand(sys system) *cobra.Command {
	var f policyFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test PATH...",
		Short: "Say which rule decides for a path, and what it says",
		Long: `Say which rule decides for each PATH, what holds there, and under which name it
is locked: paths with the same name share one lock; and what it stands for if it
is a claim file. Paths are relative to the
mount's root, wherever the command runs; they need not exist. A full path of a file
in a mount is taken as what it is there.

The policy is that of --config and --preset; what is in force on a mount is in its
.locks/policy. The command does not look at the disk. On a mount, a file for which it says atomic
is live if a directory above it holds a database (live-if); it says so in a note.`,
		Args: between(1, math.MaxInt),
		RunE: func(cmd *cobra.Command, paths []string) error {
			p, err := f.load()
			if err != nil {
				return err
			}
			return testPolicy(cmd, p, sys.fromMountRoots(paths), asJSON)
		},
	}
	f.register(cmd, "policy `FILE` (default: the built-in rules alone)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each path")
	return cmd
}

// testPolicy prints the settings that hold for each path, and the name under
// which it is locked.
func testPolicy(cmd *cobra.Command, p *policy.Policy, paths []string, asJSON bool) error {
	if asJSON {
		return testPolicyJSON(cmd, p, paths)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PATH\tMODE\tWAIT\tDURABILITY\tAPPEND\tON-KILL\tGROW\tTTL\tON-STALE\tKEY\tLOST-UPDATE\tCLAIM-TTL\tFADE\tOBSERVERS\tSTRANGERS\tHISTORY\tVALIDATE\tLOCK\tRULE")
	for _, name := range paths {
		rel := rootRelative(name)
		s := p.For(rel)
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\t%s\t%s\t%v\t%s\t%s\t%s\t%v\t%v\t%s\t%s\t%d\t%v\t%s\t%s\n", printable.Line(name), s.Mode, s.Wait, s.Durability,
			s.Append, s.OnKill, s.GrowText(), s.TTL, s.OnStale, s.Key,
			s.LostUpdate, s.ClaimTTL, s.Fade, listed(s.Observers), s.Strangers, s.History, s.Validate, printable.Line(p.LockName(rel)), s.Rule)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	noteClaims(cmd, p, paths)
	noteMarkers(cmd, p, paths)
	return nil
}

// fromMountRoots has the full paths of what is in mounts as paths from the mounts' roots.
// The others stay as they are.
func (s system) fromMountRoots(paths []string) []string {
	rel := slices.Clone(paths)
	for i, name := range paths {
		if !path.IsAbs(name) {
			continue
		}
		if at, err := s.placeOf(path.Clean(name), name); err == nil {
			rel[i] = at.path
		}
	}
	return rel
}

// noteMarkers says on standard error for which of the paths the disk decides, which
// the command does not look at.
func noteMarkers(cmd *cobra.Command, p *policy.Policy, paths []string) {
	var lists [][]string
	for _, name := range paths {
		s := p.For(rootRelative(name))
		known := slices.ContainsFunc(lists, func(l []string) bool { return slices.Equal(l, s.LiveIf) })
		if s.Mode == policy.Atomic && len(s.LiveIf) > 0 && !known {
			lists = append(lists, s.LiveIf)
			fmt.Fprintf(cmd.ErrOrStderr(), "atomic is live if a directory above holds one of: %s (live-if; the disk was not looked at)\n", listed(s.LiveIf))
		}
	}
}

func testPolicyJSON(cmd *cobra.Command, p *policy.Policy, paths []string) error {
	actorEnv := append([]string{}, p.ActorEnv()...) // [] where there is none, not null
	for _, name := range paths {
		rel := rootRelative(name)
		s := p.For(rel)
		err := printJSON(cmd.OutOrStdout(), map[string]any{
			"path": name, "mode": s.Mode, "wait_seconds": s.Wait.Seconds(), "durability": s.Durability,
			"append": s.Append, "on_kill": s.OnKill, "grow": s.GrowText(), "ttl_seconds": s.TTL.Seconds(), "on_stale": s.OnStale,
			"key": s.Key, "lock": p.LockName(rel), "actor_env": actorEnv, "rule": s.Rule,
			"lost_update": s.LostUpdate, "claim_ttl_seconds": s.ClaimTTL.Seconds(), "fade_seconds": s.Fade.Seconds(),
			"observers": append([]string{}, s.Observers...), "strangers": s.Strangers,
			"history": s.History, "live_if": append([]string{}, s.LiveIf...), "validate": validationJSON(s.Validate),
			"claim": claimJSON(p, rel),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// listed is a list in one column.
func listed(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

// validationJSON is null where everything is accepted.
func validationJSON(v *policy.Validation) any {
	if v == nil {
		return nil
	}
	return map[string]any{
		"validate": v.List(), "max_size": v.MaxSize, "command": v.Command, "command_timeout_seconds": v.Timeout.Seconds(),
	}
}

// rootRelative spells a path as policies know it: "./a//b" and "/a/b" are
// "a/b", and the root is "".
func rootRelative(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
