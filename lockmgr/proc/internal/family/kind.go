package family

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/signals"
)

// Kind is what a process is to those below it.
type Kind uint8

const (
	// Ordinary processes start others to do their work.
	Ordinary Kind = iota
	// Prompt is a shell at whose prompt somebody types.
	Prompt
	// Launcher starts programs that have nothing to do with each other: an init, cron,
	// sshd, a terminal multiplexer.
	Launcher
)

// launchers are programs that start unrelated ones.
var launchers = map[string]bool{
	"(sd-pam)": true, "agetty": true, "alacritty": true, "anacron": true, "atd": true, "conmon": true, "containerd-shim": true,
	"cron": true, "crond": true, "dockerd": true, "dropbear": true, "fcron": true, "foot": true, "gnome-terminal-": true,
	"init": true, "kitty": true, "konsole": true, "login": true, "mosh-server": true, "openrc-run": true,
	"runsv": true, "s6-supervise": true, "screen": true, "sshd": true, "sshd-session": true, "supervisord": true,
	"systemd": true, "tini": true, "tmux": true, "tmux: server": true, "wezterm-gui": true, "xterm": true,
}

// shells are the programs at whose prompt somebody may type.
var shells = map[string]bool{
	"ash": true, "bash": true, "busybox": true, "csh": true, "dash": true,
	"elvish": true, "fish": true, "ksh": true, "ksh93": true, "mksh": true,
	"nu": true, "rbash": true, "sh": true, "tcsh": true, "xonsh": true,
	"yash": true, "zsh": true,
}

// jobControl are the terminal's stop signals. Shells with job control ignore them, and no
// others do: scripts, subshells and `sh -c` have them at their default.
var jobControl = signals.Of(unix.SIGTSTP, unix.SIGTTOU)

// KindOf is what a process is by its name (comm), whether it has a terminal, and the
// signals that it ignores.
func KindOf(comm []byte, terminal bool, ignored signals.Set) Kind {
	switch {
	case launchers[string(comm)]:
		return Launcher
	case shells[string(comm)] && terminal && ignored&jobControl != 0:
		return Prompt
	}
	return Ordinary
}
