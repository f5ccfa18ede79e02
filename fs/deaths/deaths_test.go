package deaths

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

func of(pid int32, sig unix.Signal) *Death {
	return &Death{Owner: lockmgr.Owner{PID: pid}, Signal: sig, Program: "sed"}
}

func TestWasStopped(t *testing.T) {
	stops := []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGALRM, unix.SIGXCPU}
	for sig := unix.Signal(1); sig < 32; sig++ {
		if got := of(1, sig).WasStopped(); got != slices.Contains(stops, sig) {
			t.Errorf("%s asks to stop: %v", unix.SignalName(sig), got)
		}
	}
}

func TestWorse(t *testing.T) {
	const writer, helper = 1, 2
	for _, c := range []struct {
		known, d *Death
		new      bool
	}{
		{nil, of(writer, unix.SIGTERM), true},
		{nil, of(helper, unix.SIGKILL), true},
		{nil, of(writer, unix.SIGPIPE), true},
		{nil, of(helper, unix.SIGPIPE), false},
		{of(writer, unix.SIGTERM), of(helper, unix.SIGKILL), true},
		{of(writer, unix.SIGTERM), of(helper, unix.SIGINT), true},
		{of(writer, unix.SIGKILL), of(helper, unix.SIGINT), false},
		{of(writer, unix.SIGKILL), of(helper, unix.SIGSEGV), true},
		{of(writer, unix.SIGTERM), of(helper, unix.SIGPIPE), false},
	} {
		want := c.known
		if c.new {
			want = c.d
		}
		if got := worse(c.known, c.d, lockmgr.Owner{PID: writer}); got != want {
			t.Errorf("of %v and %v the one that counts is %v", c.known, c.d, got)
		}
	}
}

func TestKeepsOut(t *testing.T) {
	kill, term := of(1, unix.SIGKILL), of(1, unix.SIGTERM)
	yes, no := func() bool { return true }, func() bool { return false }
	for _, c := range []struct {
		d      *Death
		onKill policy.OnKill
		f      File
		want   bool
	}{
		{nil, policy.Rollback, File{}, false},
		{kill, policy.Commit, File{}, false},
		{term, policy.Rollback, File{IsNew: true, WasSynced: true, IsSynced: yes}, true},
		{kill, policy.Auto, File{}, true},
		{term, policy.Auto, File{}, true},
		{kill, policy.Auto, File{WasSynced: true, IsSynced: yes}, false},
		{kill, policy.Auto, File{WasSynced: true, IsSynced: no}, true},
		{kill, policy.Auto, File{IsNew: true}, true},
		{term, policy.Auto, File{IsNew: true}, false},
		{kill, policy.Auto, File{IsNew: true, WasSynced: true, IsSynced: no}, false},
		{kill, policy.Auto, File{IsNew: true, WasSynced: true, IsSynced: yes}, false},
	} {
		if got := c.d.KeepsOut(c.onKill, c.f); got != c.want {
			t.Errorf("%+v, %s, new %v, synced %v: kept out: %v", c.d, c.onKill, c.f.IsNew, c.f.WasSynced, got)
		}
	}
}

func TestWords(t *testing.T) {
	d := of(7, unix.SIGKILL)
	if got := d.String(); got != "sed[7] was killed by SIGKILL" {
		t.Error(got)
	}
	if d.Program = ""; d.String() != "process[7] was killed by SIGKILL" {
		t.Error(d.String())
	}
	for want, got := range map[string]string{
		"nothing that it had written became the file":                                                Outcome(0, true),
		"nothing that it had written became the file, which is still the earlier version":            Outcome(0, false),
		"the 12 bytes that it had written did not become the file":                                   Outcome(12, true),
		"the 3.4 kB that it had written did not become the file, which is still the earlier version": Outcome(3400, false),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestIsTold(t *testing.T) {
	for _, c := range []struct{ opener, output, since, told bool }{
		{opener: true, told: true},
		{opener: false, told: false},
		{opener: true, output: true, told: false},
		{opener: false, output: true, told: false},
		{opener: false, since: true, told: true},
		{opener: false, output: true, since: true, told: true},
	} {
		if isTold(c.opener, c.output, c.since) != c.told {
			t.Errorf("%+v is wrong", c)
		}
	}
}
