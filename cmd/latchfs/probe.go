package main

import (
	"context"
	"os/exec"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// newProbeCommand makes the hidden `latchfs probe`, with which the daemon finds
// out whether its own mount answers. It is a process of its own because a
// daemon that waits for itself inside the kernel cannot be killed any more: its
// descriptor of /dev/fuse would stay open until the answer that it does not
// give.
func newProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "probe MOUNTPOINT",
		Short:  "Ask a mount for an answer",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var st unix.Statfs_t // never answered from a cache
			return unix.Statfs(args[0], &st)
		},
	}
}

// probeMount runs `latchfs probe` and returns its failure.
func probeMount(ctx context.Context, mountpoint string) error {
	probe := exec.CommandContext(ctx, self(), "probe", "--", mountpoint)
	probe.Args[0] = "latchfs"
	return probe.Run()
}
