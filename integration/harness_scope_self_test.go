package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
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
		out, err := runAgain("-test.v", "-test.run", some, run.flag)
		if err != nil {
			t.Errorf("%s: %v", run.flag, err)
		}
		for _, text := range run.says {
			if !strings.Contains(out, text) {
				t.Errorf("%s does not say %q", run.flag, text)
			}
		}
		for _, text := range run.silent {
			if strings.Contains(out, text) {
				t.Errorf("%s says %q", run.flag, text)
			}
		}
		if t.Failed() {
			t.Fatalf("%s", out)
		}
	}
}

// Each test is run by one of the processes, and what one of them finds is told.
func TestEachTestIsRunOnce(t *testing.T) {
	inTest(t)
	some := []string{"TestNobodyButStress", "TestNobodyButTest", "TestNobodyButTestAll", "TestNobodyIsInstalled", "TestNobodySucceeds"}
	pattern := "^(" + strings.Join(some, "|") + ")$"
	for _, n := range []int{1, 2, 3, 9} {
		t.Setenv(askedEnv, "to succeed")
		out, err := runAgain("-test.v", "-test.run", pattern, "-processes", fmt.Sprint(n))
		if err != nil {
			t.Errorf("%d processes: %v", n, err)
		}
		for _, name := range some {
			if times := strings.Count(out, "=== RUN   "+name+"\n"); times != 1 {
				t.Errorf("%d processes run %s %d times", n, name, times)
			}
		}
		lines := strings.Split(out, "\n")
		shares := 1
		if n > 1 {
			shares = min(n*sharesEach, len(some))
		}
		if len(slices.DeleteFunc(lines, func(line string) bool { return line != "PASS" })) != shares {
			t.Errorf("%d processes do not run %d shares", n, shares)
		}
		if told := "nobody is not installed; this was left out: TestNobodyIsInstalled, TestNobodySucceeds\n"; strings.Count(out, told) != 1 {
			t.Errorf("%d processes do not say once %q", n, told)
		}
		t.Setenv(askedEnv, "to fail")
		again, err := runAgain("-test.run", pattern, "-processes", fmt.Sprint(n))
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(again, "--- FAIL: TestNobodySucceeds ") {
			t.Errorf("%d processes, of which one has a test that fails, end with %v:\n%s", n, err, again)
		}
		if t.Failed() {
			t.Fatalf("%s", out)
		}
	}
}

// askedEnv has what TestEachTestIsRunOnce asks of the tests that it runs.
const askedEnv = "LATCHFS_TEST_ASKED"

func TestNobodyIsInstalled(t *testing.T) {
	if os.Getenv(askedEnv) != "" {
		leftOut(t, "", "nobody")
	}
}

func TestNobodySucceeds(t *testing.T) {
	TestNobodyIsInstalled(t)
	if os.Getenv(askedEnv) == "to fail" {
		t.Error("as asked")
	}
}

func TestNobodyButTestAll(t *testing.T) { inTestAll(t) }

func TestNobodyButTest(t *testing.T) { inTest(t) }

func TestNobodyButStress(t *testing.T) { inStress(t) }
