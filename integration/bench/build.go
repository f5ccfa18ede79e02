package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"latchfs/integration/bench/internal/load"
)

const (
	goFuse   = "github.com/hanwen/go-fuse/v2"
	loopback = goFuse + "/example/loopback"
)

// findModule is the root of the source tree that the current directory is in.
func findModule(ctx context.Context) (string, error) {
	gomod, err := output(ctx, "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	if filepath.Base(gomod) != "go.mod" {
		return "", fmt.Errorf("run me in the source tree: the daemons are built from it")
	}
	return filepath.Dir(gomod), nil
}

// buildLoopback builds the example of the go-fuse version that latchfs uses.
func (s *site) buildLoopback(ctx context.Context) (binary, version string, err error) {
	binary, err = s.build(ctx, loopback)
	if err != nil {
		return "", "", err
	}
	version, err = output(ctx, "go", "-C", s.Module, "list", "-m", "-f", "{{.Version}}", goFuse)
	return binary, version, err
}

// buildLatchfs builds the command once, unless a binary was named.
func (s *site) buildLatchfs(ctx context.Context) (string, error) {
	if s.Latchfs == "" {
		binary, err := s.build(ctx, "./cmd/latchfs")
		if err != nil {
			return "", err
		}
		s.Latchfs = binary
	}
	return s.Latchfs, nil
}

func (s *site) build(ctx context.Context, pkg string) (string, error) {
	binary := filepath.Join(s.Dir, "bin", filepath.Base(pkg))
	_, err := output(ctx, "go", "-C", s.Module, "build", "-o", binary, pkg)
	return binary, err
}

// output of a command without the space around it; what the command complains
// about is in the error.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var complaint strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, load.Shorten(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
