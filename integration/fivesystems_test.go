package integration

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/five-systems.md has every number of the five systems' requirements, and names a
// test of each that is there.
func TestFiveSystemsNameTheirTests(t *testing.T) {
	inTest(t)
	text := readText(t, "../docs/five-systems.md")
	for _, s := range []struct {
		letter, test, file string
		rows               int
	}{
		{"C", "TestSystemCleo", "system_cleo_test.go", 16}, {"W", "TestSystemClawdbot", "system_clawdbot_test.go", 12},
		{"T", "TestSystemTowerFleet", "system_towerfleet_test.go", 14}, {"B", "TestSystemBeads", "system_beads_test.go", 6},
		{"M", "TestSystemReverie", "system_reverie_test.go", 9},
	} {
		source := readText(t, s.file)
		for n := 1; n <= s.rows; n++ {
			number := fmt.Sprint(s.letter, n)
			row := regexp.MustCompile(`(?m)^\| ` + number + " \\|.*\\| `" + s.test + "/" + number + "` \\|$")
			if len(row.FindAllString(text, -1)) != 1 {
				t.Errorf("%s has not one row with its test", number)
			}
			if strings.Count(source, `{"`+number+`", `) != 1 {
				t.Errorf("%s has no test for %s", s.file, number)
			}
		}
	}
	if got := len(regexp.MustCompile(`(?m)^\| [A-Z]\d+ \|`).FindAllString(text, -1)); got != 16+12+14+6+9 {
		t.Errorf("the tables have %d rows", got)
	}
	var sources strings.Builder
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "system") {
			sources.WriteString(readText(t, e.Name()))
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)[`/]").FindAllStringSubmatch(text, -1)
	for _, name := range slices.Compact(firstGroups(named)) {
		if !strings.Contains(sources.String(), "\nfunc "+name+"(t *testing.T)") {
			t.Errorf("there is no test %s", name)
		}
	}
}

// firstGroups are the first groups of matches.
func firstGroups(matches [][]string) []string {
	var names []string
	for _, m := range matches {
		names = append(names, m[1])
	}
	return names
}
