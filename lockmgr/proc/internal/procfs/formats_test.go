package procfs

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const statLine = "7158 (cat) R 7122 7123 2290 34816 -1 4194308 99 1 2 3 12 3 45 6 20 0 3 0 105400 3133440 390 " +
	"18446744073709551615 94016107372544 94016107392425 140737433338624 0 0 7 8 2621440 16 0 0 0 17 1 0 0 0 0 0 " +
	"94016107408432 94016107410048 94017043677184 140737433340427 140737433340447 140737433340447 140737433341931 9\n"

func TestParseStat(t *testing.T) {
	want := Stat{State: 'R', PPID: 7122, PGrp: 7123, TTY: 34816, Flags: 4194308, Faults: 101, CPU: 15, ChildCPU: 51, Threads: 3, Start: 105400, SigIgnore: 2621440, ExitCode: 9}
	for _, name := range []string{"cat", ") Z 1 (", "", "))", "a\nb", strings.Repeat(" ", 15)} {
		line := strings.Replace(statLine, "cat", name, 1)
		want.Comm = nameOf([]byte(name))
		if got, err := ParseStat([]byte(line)); got != want || err != nil {
			t.Errorf("named %q: %+v, %v, want %+v", name, got, err, want)
		}
		if got, _, ok := comm([]byte(line)); string(got) != name || !ok {
			t.Errorf("named %q: %q", name, got)
		}
	}
	fields := strings.Fields(statLine)
	for n := range fields {
		if _, err := ParseStat([]byte(strings.Join(fields[:n], " "))); err == nil {
			t.Errorf("cut off after %d fields, it is taken for a stat", n)
		}
	}
}

func TestDead(t *testing.T) {
	for _, tt := range []struct {
		state   byte
		threads int64
		want    bool
	}{{'R', 1, false}, {'S', 4, false}, {'T', 1, false}, {'Z', 1, true}, {'Z', 0, true}, {'Z', 2, false}, {'X', 1, true}} {
		if st := (Stat{State: tt.state, Threads: tt.threads}); st.Dead() != tt.want {
			t.Errorf("state %c with %d threads: %t, want %t", tt.state, tt.threads, !tt.want, tt.want)
		}
	}
}

func TestParseFdinfo(t *testing.T) {
	got, ok := ParseFdinfo([]byte("pos:\t12\nflags:\t02100001\nmnt_id:\t31\nino:\t77\nlock:\t1: FLOCK\nino:\t1\n"))
	if want := (Fdinfo{Pos: 12, Flags: 0o2100001, MountID: 31, Ino: 77}); got != want || !ok {
		t.Errorf("%+v, %t, want %+v", got, ok, want)
	}
	for _, bad := range []string{"", "flags:\t1\nmnt_id:\t1\n", "pos:\t0\nflags:\t9\nmnt_id:\t1\nino:\t2\n", "flags:\t1\nmnt_id:\t1\nino:\t2\n"} {
		if _, ok := ParseFdinfo([]byte(bad)); ok {
			t.Errorf("%q is taken for an fdinfo", bad)
		}
	}
}

func TestParseFileLimit(t *testing.T) {
	const limits = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max cpu time              7                    8                    seconds   \n" +
		"Max file size             %s 20480                bytes     \n" +
		"Max data size             9                    unlimited            bytes     \n"
	for _, tt := range []struct {
		soft    string
		want    uint64
		limited bool
	}{{"10240               ", 10240, true}, {"0                   ", 0, true}, {"unlimited           ", 0, false}, {"", 20480, true}, {"-1", 0, false}} {
		if got, limited := ParseFileLimit(fmt.Appendf(nil, limits, tt.soft)); got != tt.want || limited != tt.limited {
			t.Errorf("%q: %d, %t, want %d, %t", tt.soft, got, limited, tt.want, tt.limited)
		}
	}
	if got, limited := ParseFileLimit([]byte("Max cpu time 7 8 seconds\nMax file size")); got != 0 || limited {
		t.Errorf("without the line: %d, %t", got, limited)
	}
}

func TestParseWritten(t *testing.T) {
	for io, want := range map[string][2]bool{
		"rchar: 6976\nwchar: 0\nsyscr: 10\n":           {false, true},
		"rchar: 6976\nwchar: 17\nsyscw: 1\n":           {true, true},
		"rchar: 6976\nwchar: x\n":                      {false, false},
		"wchar: 0\nread_bytes: 7\nwrite_bytes: 0\n":    {false, true},
		"wchar: 0\nread_bytes: 7\nwrite_bytes: 4096\n": {true, true},
		"rchar: 6976\n":                                {false, false},
		"":                                             {false, false},
	} {
		if written, known := ParseWritten([]byte(io)); written != want[0] || known != want[1] {
			t.Errorf("%q: %t, %t", io, written, known)
		}
	}
}

func TestMountDev(t *testing.T) {
	const mounts = "25 30 0:23 / /sys rw - sysfs sysfs rw\n5 25 254:1 / / rw - ext4 /dev/vda rw\n255 30 0:99 / /m rw - fuse m rw\n"
	if dev, ok := MountDev([]byte(mounts), 5); dev != unix.Mkdev(254, 1) || !ok {
		t.Errorf("mount 5 is on %x, %t", dev, ok)
	}
	if _, ok := MountDev([]byte(mounts), 30); ok {
		t.Error("a parent is taken for a mount")
	}
}

func TestParseMaps(t *testing.T) {
	const maps = "7f00-7f01 rw-p 00000000 fe:01 12  /a\n" +
		"7f01-7f02 r--s 00000000 fe:01 12  /a\n" +
		"7f02-7f03 rw-s 00001000 103:0a 12  /dev/x y\n" +
		"7f03-7f04 rw-s 00000000 00:01 99  /SYSV0 (deleted)\n" +
		"7f04-7f05 rw-p 00000000 00:00 0 \n"
	for _, tt := range []struct {
		dev, ino uint64
		want     bool
	}{
		{unix.Mkdev(0xfe, 1), 12, false},
		{unix.Mkdev(0x103, 0x0a), 12, true},
		{unix.Mkdev(0, 1), 99, true},
		{0, 0, false},
	} {
		is := func(dev, ino uint64) bool { return dev == tt.dev && ino == tt.ino }
		if got := ParseMaps([]byte(maps), is); got != tt.want {
			t.Errorf("%x:%d: %t, want %t", tt.dev, tt.ino, got, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{statLine, "1 1 0 0 0 1 0\n", "flags:\t02\nmnt_id:\t1\nino:\t2\n", "a b rw-s 0 1:2 3 x\n",
		"1 2 3:4 / /\n", "Uid:\t1\t2\t3\t4\n", "a\x00b\x00", "(", ")("} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, err := ParseStat(b); err == nil && st.State == 0 {
			t.Errorf("a stat without a state: %+v", st)
		}
		InExec(b)
		ParseSchedstat(b)
		Variable(b, "a")
		ParseFdinfo(b)
		ParseMaps(b, func(_, _ uint64) bool { return false })
		MountDev(b, 1)
		ParseUID(b)
		ParsePIDs(b)
		if args := SplitArgs(b); len(b) > 0 && b[0] != 0 && len(args) == 0 {
			t.Error("arguments got lost")
		}
	})
}

func TestParseUID(t *testing.T) {
	if uid := ParseUID([]byte("Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n")); uid != 2 {
		t.Errorf("effective user is %d", uid)
	}
}

func TestVariable(t *testing.T) {
	for environ, want := range map[string]string{"A=1\x00A=2\x00": "1", "A=\x00A=2\x00": "", "A\x00A=3": "3", "AA=1": "", "": ""} {
		if got := Variable([]byte(environ), "A"); got != want {
			t.Errorf("A in %q: %q, want %q", environ, got, want)
		}
	}
}

func BenchmarkParseStat(b *testing.B) {
	line := []byte(statLine)
	for b.Loop() {
		if _, err := ParseStat(line); err != nil {
			b.Fatal(err)
		}
	}
}
