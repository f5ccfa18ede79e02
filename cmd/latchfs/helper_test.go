package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestHelperShapes has each way in which mount(8) was seen to call a helper.
func TestHelperShapes(t *testing.T) {
	for _, tt := range []struct {
		name string
		argv string
		want string // arguments of latchfs; "" is: not a call by mount(8)
	}{
		{"mount -t latchfs",
			"/sbin/mount.latchfs /srv/data /mnt -o rw",
			"mount --read-only=false -- /srv/data /mnt"},
		{"mount -t fuse.latchfs",
			"/sbin/mount.fuse.latchfs /srv/data /mnt -o rw,nodev",
			"mount --read-only=false --mount-option=nodev -- /srv/data /mnt"},
		{"mount -t fuse.latchfs through mount.fuse",
			"latchfs /srv/data /mnt -o ro,lock_timeout=5s,dev,suid",
			"mount --read-only --lock-timeout=5s --mount-option=dev --mount-option=suid -- /srv/data /mnt"},
		{"over itself",
			"/sbin/mount.latchfs /srv/data /srv/data -o rw",
			"mount --read-only=false -- /srv/data /srv/data"},
		{"fstab with a user, at boot",
			"/sbin/mount.fuse.latchfs /srv/data /mnt -o ro,noexec,nosuid,nodev,lock_timeout=5s,user=joe,_netdev,nofail,x-systemd.automount",
			"mount --read-only --mount-option=noexec --mount-option=nosuid --mount-option=nodev --lock-timeout=5s -- /srv/data /mnt"},
		{"all flags",
			"mount.latchfs /srv/data /mnt -s -n -v -o rw -t fuse.latchfs -N /proc/1/ns/mnt",
			"mount --log-level=info --read-only=false -- /srv/data /mnt"},
		{"flags in one word, options attached and repeated",
			"mount.latchfs -nv /srv/data /mnt -oro -o allow_other,debug",
			"mount --log-level=info --read-only --allow-other --debug -- /srv/data /mnt"},
		{"every option of ours, either spelling",
			"mount.latchfs /d /m -o config=/etc/p.toml,preset=cleo,preset=beads=repo,durability=lazy,grace=1m,lock-timeout=0,locks_dir=.l,list_locks,log_file=/l,log-level=debug,no_passthrough",
			"mount --config=/etc/p.toml --preset=cleo --preset=beads=repo --durability=lazy --grace=1m --lock-timeout=0 --locks-dir=.l --list-locks --log-file=/l --log-level=debug --no-passthrough -- /d /m"},
		{"sloppy", "mount.latchfs /d /m -s -o bogus,ro", "mount --read-only -- /d /m"},
		{"last word wins", "mount.latchfs /d /m -o ro,rw", "mount --read-only --read-only=false -- /d /m"},
		{"names like flags", "mount.latchfs - /m", "mount -- - /m"},

		{"a subcommand", "latchfs mount /srv/data", ""},
		{"a subcommand that is a path of mount", "/usr/bin/latchfs umount /mnt", ""},
		{"nothing", "latchfs", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call, ok := asHelper(strings.Fields(tt.argv))
			if ok != (tt.want != "") {
				t.Fatalf("recognized as a helper's call: %v", ok)
			}
			if !ok {
				return
			}
			got, err := call.mountArgs()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(tt.want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHelperRefuses(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "got 0 paths"},
		{"/no/data", "got 1 paths"},
		{"/no/data /mnt /more", "got 3 paths"},
		{"/no/data /mnt -o", "-o needs a value"},
		{"/no/data /mnt -x", "unknown flag -x"},
		{"/no/data /mnt --foreground", "unknown flag --"},
		{"/no/data /mnt -o ro,bogus=1", `unknown mount option "bogus=1"`},
		{"/no/data /mnt -o config", `"config" needs a value`},
		{"/no/data /mnt -o config=", `"config" needs a value`},
		{"/no/data /mnt -o ro=1", `"ro" takes no value`},
		{"/no/data /mnt -o nodev=1", `"nodev" takes no value`},
		{"/no/data /mnt -o durability=never", "want auto, full, ordered or lazy"},
		{"/no/data /mnt -o lock_timeout=soon", "invalid duration"},
	} {
		var stderr bytes.Buffer
		code := run(append([]string{"mount.latchfs"}, strings.Fields(tt.args)...), &stderr, &stderr)
		if code != helperUsage || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("mount.latchfs %s: exit code %d, want %d; said\n%swant %q", tt.args, code, helperUsage, &stderr, tt.want)
		}
	}
}

func TestSplitOptions(t *testing.T) {
	for list, want := range map[string][]string{
		"":                         nil,
		"ro":                       {"ro"},
		",ro,,rw,":                 {"ro", "rw"},
		`config="/etc/a,b.toml"`:   {"config=/etc/a,b.toml"},
		`ro,config="/a b,c",nodev`: {"ro", "config=/a b,c", "nodev"},
		"config=/a b":              {"config=/a b"},
	} {
		if diff := cmp.Diff(want, splitOptions(list)); diff != "" {
			t.Errorf("%q: %s", list, diff)
		}
	}
}

// Every flag of mount that an option stands for must be there.
func TestOptionsAreFlags(t *testing.T) {
	flags := newMountCommand(nil).Flags()
	for name, o := range mountOptions {
		flag, _, _ := strings.Cut(o.flag, "=")
		if flag != "" && flags.Lookup(flag) == nil {
			t.Errorf("option %q stands for --%s, which mount does not have", name, flag)
		}
		if name != canonicalOption(name) {
			t.Errorf("option %q is not spelled as it is looked up", name)
		}
	}
}

// FuzzHelper: whatever mount(8) is told, the helper either refuses it or makes
// of it a command line that mount understands, with the same two paths.
func FuzzHelper(f *testing.F) {
	f.Add("/srv/data\x00/mnt\x00-o\x00ro,nodev,lock_timeout=5s")
	f.Add("-sfnv\x00/srv/data\x00/mnt\x00-t\x00fuse.latchfs")
	f.Add("/d\x00/m\x00-oconfig=\"a,b\",x-foo=1,mount_option=x")
	f.Fuzz(func(t *testing.T, joined string) {
		call := parseHelper(strings.Split(joined, "\x00"))
		args, err := call.mountArgs()
		if err != nil {
			return
		}
		var paths []string
		cmd := newMountCommand(args)
		cmd.RunE = func(_ *cobra.Command, args []string) error {
			paths = args
			return nil
		}
		cmd.SetArgs(args[1:])
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err != nil {
			// A value that the flag refuses is a usage error; anything else
			// would be an option that slipped through as a flag.
			if strings.Contains(err.Error(), "unknown flag") {
				t.Fatalf("%q became %q: %v", joined, args, err)
			}
			return
		}
		if want := []string{call.dir, call.mountpoint}; !slices.Equal(paths, want) {
			t.Fatalf("%q became %q: paths %q, want %q", joined, args, paths, want)
		}
	})
}
