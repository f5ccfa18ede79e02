package integration

import (
	"os"
	"strings"
	"testing"
)

// A program that a script has started in the background is still its own work when the
// shells between the two have ended, whoever leads the script's process group and
// whatever session the program is in.

// orphansScript reads status, and replaces it after its orphan has.
const orphansScript = `echo 0 > status; cat status
LAST='until [ -e go ]; do sleep 0.01; done; echo running > status; touch done' sh -c 'sh -c "$JOB sh -c \"\$LAST\" & exit 0"; exit 0'
touch go; until [ -e done ]; do sleep 0.01; done
echo stopped > status
`

func TestOrphansOfAScriptAreItsOwn(t *testing.T) {
	needsLatchfs(t)
	cases := []struct{ what, job, run string }{
		{"of a script that leads its group", "", `setsid --wait bash script`},
		{"below a script", "", `bash -c 'bash script; exit $?'`},
		{"below timeout", "", `timeout 60 bash script`},
		{"below make", "", `printf 'all:\n\t@bash script\n' > makefile; make -s`},
		{"in a session of its own", "setsid", `bash script`},
		{"below make in a session of its own", "setsid", `printf 'all:\n\t@bash script\n' > makefile; make -s`},
		{"of an agent", "setsid", `"$PYTHON" -c 'import subprocess; subprocess.run(open("script").read(), shell=True, check=True, start_new_session=True)'`},
	}
	if ns, _ := os.Readlink("/proc/self/ns/pid"); ns != "pid:[4026531836]" {
		cases = cases[:1] // the kernel does not tell of forks in a container
	}
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, c := range cases {
			t.Run(c.what, func(t *testing.T) {
				if strings.Contains(c.run, "make") {
					requireTool(t, "make")
				}
				dir := strings.ReplaceAll(c.what, " ", "-")
				f := m.Family(t)
				f.OK("mkdir " + dir + "; cd " + dir + "; export JOB=" + c.job)
				m.WriteFile(dir+"/script", orphansScript)
				f.OK(c.run)
				if got := m.ReadFile(dir + "/status"); got != "stopped\n" {
					t.Errorf("status holds %q", got)
				}
			})
		}
	})
}

// Two workers of one script are strangers to each other's orphans as well.
func TestOrphansOfAWorkerAreStrangersToAnother(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		m.WriteFile("n", "0\n")
		m.WriteFile("first", `n=$(cat n); touch ready; until [ -e done ]; do sleep 0.01; done
echo $((n+1)) > n; echo ended $?
`)
		m.WriteFile("second", `n=$(cat n)
sh -c 'sh -c "until [ -e go ]; do sleep 0.01; done; echo 1 > n; touch done" & exit 0'
touch go; until [ -e done ]; do sleep 0.01; done
`)
		m.WriteFile("script", `bash first &
until [ -e ready ]; do sleep 0.01; done
bash second; wait
`)
		out := m.Family(t).OK("bash script")
		if got := m.ReadFile("n"); got != "1\n" || !strings.Contains(out, "ended 1") {
			t.Errorf("n holds %q, and the workers said\n%s", got, out)
		}
	})
}
