package counting

import (
	_ "embed" // the workers
	"os/exec"
	"regexp"
)

// Tool is a way to increment a counter.
type Tool struct {
	Name  string   // also the beginning of the counter's name
	Needs []string // programs that may be missing
	Shown string   // how one increment is done, for tables

	command  []string
	overtook *regexp.Regexp // what the tool also says when another worker was faster; nil if nothing
}

// argv is the command of a worker; path, number of increments and "retry" or
// "once" come after it.
func (t Tool) argv() []string { return append([]string(nil), t.command...) }

// Missing is a program that is needed and not installed, "" if there is none.
func (t Tool) Missing() string {
	for _, program := range t.Needs {
		if _, err := exec.LookPath(program); err != nil {
			return program
		}
	}
	return ""
}

// The workers. Each prints "ready", waits for a line or the end of its standard
// input, and prints a line for each attempt: "ok", or what the tool complained of.
var (
	//go:embed workers/python.py
	pythonWorker string
	//go:embed workers/inplace.py
	inPlaceWorker string
	//go:embed workers/node.js
	nodeWorker string
	//go:embed workers/perl.pl
	perlWorker string
	//go:embed workers/shell.sh
	shellWorker string
)

// Tools are all ways to count. Python is the interpreter to use, counter the
// built program of integration/internal/counter.
func Tools(python, counter string) []Tool {
	shell := func(increment string) []string {
		return []string{"bash", "-c", shellWorker, "bash", increment}
	}
	const (
		jq     = `jq -c '.n += 1' "$path" > "$path.$$" && mv "$path.$$" "$path"`
		shared = `jq -c '.n += 1' "$path" > "$path.tmp" && mv "$path.tmp" "$path"`
		// The flag e runs the line as a command and takes its output instead.
		sed = `sed -i -E 's/.*"n": ?([0-9]+).*/echo "{\\"n\\": $((\1 + 1))}"/e' "$path"`
	)
	return []Tool{
		{Name: "python", Shown: "python `json.load(open(f))`, `json.dump(d, open(f, \"w\"))`", command: []string{python, "-c", pythonWorker}},
		{Name: "jq", Needs: []string{"jq"}, Shown: "bash `jq … f > t && mv t f`", command: shell(jq)},
		{Name: "shared-temporary", Needs: []string{"jq"}, Shown: "bash `jq … f > f.tmp && mv f.tmp f`", command: shell(shared),
			overtook: regexp.MustCompile(`^refused: mv: .*(: No such file or directory|are the same file)$`)}, // another worker has moved it
		{Name: "node", Needs: []string{"node"}, Shown: "node `readFileSync`, `writeFileSync`", command: []string{"node", "-e", nodeWorker}},
		{Name: "go", Shown: "Go `os.ReadFile`, `os.WriteFile`", command: []string{counter}},
		{Name: "perl", Needs: []string{"perl"}, Shown: "perl `open <`, `open >`", command: []string{"perl", "-e", perlWorker}},
		{Name: "sed", Needs: []string{"sed"}, Shown: "`sed -i`", command: shell(sed)},
	}
}

// InPlace are ways to count in which Python reads the counter, opens it again for
// reading and writing, and writes without reading.
func InPlace(python string) []Tool {
	var tools []Tool
	for _, shape := range []string{"buffered", "cut", "unbuffered", "kept-open"} {
		tools = append(tools, Tool{Name: "r+" + shape, command: []string{"env", "SHAPE=" + shape, python, "-c", inPlaceWorker}})
	}
	return tools
}
