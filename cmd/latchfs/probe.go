package main

import (
	"context"
	"errors"
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

// probeMount runs `latchfs probe` and returns its failure, or that of ctx. A
// probe that hangs is killed, and left behind if even that does not end it.
func probeMount(ctx context.Context, mountpoint string) error {
	probe := exec.CommandContext(ctx, self(), "probe", "--", mountpoint)
	probe.Args[0] = "latchfs"
	if err := probe.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- probe.Wait() }()
	select {
	case err := <-ended:
		return errors.Join(ctx.Err(), err)
	case <-ctx.Done():
		return ctx.Err()
	}
}
