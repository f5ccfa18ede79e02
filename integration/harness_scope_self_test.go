package integration

import (
	"os/exec"
	"strings"
	"testing"
)

// A test that is left to make test-all or to make stress says so, and what has no mount
// without passthrough runs once.
func TestEachTestIsInOneOfBoth(t *testing.T) {
	inTest(t)
	if *plain {
		t.Skip("with -plain there are no mounts to choose from")
	}
	const some = "^(TestNobodyButTestAll|TestNobodyButTest|TestNobodyButStress|TestHarnessMountAnswers)$"
	for _, run := range []struct {
		flag         string
		says, silent []string
	}{
		{"-test.short", []string{"SKIP: TestNobodyButStress ", "SKIP: TestNobodyButTestAll ", leftToTestAll, "PASS: TestNobodyButTest ", "MountAnswers/user "}, []string{"MountAnswers/root-nopassthrough "}},
		{"-rest", []string{"SKIP: TestNobodyButStress ", leftToStress, "PASS: TestNobodyButTestAll ", "SKIP: TestNobodyButTest ", doneByTest}, []string{"MountAnswers/root ", "MountAnswers/user "}},
	} {
		cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", some, run.flag)
		cmd.Env = append(cmd.Environ(), "LATCHFS_BINARY="+bench.binary, "LATCHFS_TEST_DIR="+bench.root, namespaceEnv+"=", stressEnv+"=", hiccupsEnv+"=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", run.flag, err)
		}
		for _, text := range run.says {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s does not say %q", run.flag, text)
			}
		}
		for _, text := range run.silent {
			if strings.Contains(string(out), text) {
				t.Errorf("%s says %q", run.flag, text)
			}
		}
		if t.Failed() {
			t.Fatalf("%s", out)
		}
	}
}

func TestNobodyButTestAll(t *testing.T) { inTestAll(t) }

func TestNobodyButTest(t *testing.T) { inTest(t) }

func TestNobodyButStress(t *testing.T) { inStress(t) }
