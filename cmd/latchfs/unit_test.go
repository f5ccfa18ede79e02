package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const unitFile = "../../systemd/latchfs@.service"

// installedAs is where the unit expects the program (make install changes it
// along with PREFIX).
const installedAs = "/usr/local/bin/latchfs"

func TestUnitVerifies(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil && os.Geteuid() != 0 {
		t.Skip("systemd-analyze wants to make /run/systemd, which is not there and not ours to make")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(readUnit(t), installedAs, self)
	unit := filepath.Join(t.TempDir(), filepath.Base(unitFile))
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The command lines in the unit are ones that the program understands.
func TestUnitCommandLines(t *testing.T) {
	found := 0
	for line := range strings.Lines(readUnit(t)) {
		_, command, ok := strings.Cut(strings.TrimSpace(line), "="+installedAs+" ")
		if !ok {
			continue
		}
		found++
		args := strings.Fields(strings.NewReplacer("%f", "/srv/data", "$LATCHFS_OPTIONS", "--lock-timeout 5s").Replace(command))
		cmd, rest, err := newRoot(machine(), args).Find(args)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || !cmd.HasParent() {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	if found != 2 {
		t.Errorf("%d command lines of ours in the unit, want one to start and one to clean up", found)
	}
}

// An option that gives the service a mount namespace of its own would hide the
// mount from everybody else (systemd.exec(5), "Sandboxing").
func TestUnitMountsForAll(t *testing.T) {
	hiding := []string{"PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectSystem", "ProtectHome",
		"ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectControlGroups",
		"ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "TemporaryFileSystem", "BindPaths",
		"BindReadOnlyPaths", "RootDirectory", "RootImage", "MountFlags", "DynamicUser"}
	for line := range strings.Lines(readUnit(t)) {
		for _, option := range hiding {
			if strings.HasPrefix(line, option+"=") {
				t.Errorf("%s in the unit hides the mount", strings.TrimSpace(line))
			}
		}
	}
}

// The unit keeps the sandbox that it has: `systemd-analyze security` gives points for
// what a service can do, 96 for one without any, in tenths.
func TestUnitIsConfined(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	if help, err := exec.Command(analyze, "--help").CombinedOutput(); err != nil || !strings.Contains(string(help), "--offline") {
		t.Skip("systemd-analyze cannot look at a file")
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=58", unitFile).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// The capabilities in the unit are enough to mount with everything that root's mount
// has.
func TestUnitCapabilitiesSuffice(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if ok, _ := condition("fuse"); err != nil || !ok || os.Geteuid() != 0 {
		t.Skip("needs root, setpriv and FUSE")
	}
	bounds := []string{"-all"}
	for line := range strings.Lines(readUnit(t)) {
		if caps, ok := strings.CutPrefix(strings.TrimSpace(line), "CapabilityBoundingSet="); ok {
			for _, name := range strings.Fields(caps) {
				bounds = append(bounds, "+"+strings.ToLower(strings.TrimPrefix(name, "CAP_")))
			}
		}
	}
	data := t.TempDir()
	t.Cleanup(func() { unmountBelow(data) })
	cmd := exec.Command(setpriv, "--no-new-privs", "--bounding-set", strings.Join(bounds, ","), "--inh-caps", "-all",
		"latchfs", "mount", "--log-level", "info", data)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else if text := string(out); strings.Contains(text, "no passthrough") || strings.Contains(text, "orphaned") {
		t.Errorf("something is missing: %s", text)
	}
	if err := os.WriteFile(filepath.Join(data, "file"), []byte("content"), 0o600); err != nil {
		t.Error(err)
	}
	if err := os.Chown(filepath.Join(data, "file"), 77, 77); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command("latchfs", "umount", data).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func readUnit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
