package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The order in which the mutexes of the engine's packages are taken stands above FS. Here
// it is computed from the source which mutex is taken, in whatever function, while
// another one is held. A call through an interface of these packages may be one of each
// method of theirs that implements it; function values are not followed, and the mutexes
// of two values of one type are one.

// enginePackages are the packages whose mutexes have a place in the order, each after
// those that it imports.
var enginePackages = []string{"latchfs/journal/audit", "latchfs/fs/reach", "latchfs/fs/lessons", "latchfs/fs/markers", "latchfs/fs/mounts", "latchfs/fs/vnodes", "latchfs/fs/account", "latchfs/fs/listing", "latchfs/fs/locksfs", "latchfs/fs/rewalk", "latchfs/fs/selftest", "latchfs/fs/submounts", "latchfs/fs/trim", "latchfs/fs/refusals", "latchfs/fs/rejected", "latchfs/fs/disclosure", "latchfs/fs/unfinished", "latchfs/fs/versions", "latchfs/fs/appends", "latchfs/fs/records", "latchfs/fs/bases", "latchfs/fs/heartbeat", "latchfs/fs/holders", "latchfs/fs/ctl", "latchfs/fs/filed", "latchfs/fs/filing", "latchfs/fs/iomode", "latchfs/fs/readclaim", "latchfs/fs/lockview", "latchfs/fs/lostupdate", "latchfs/fs/judge", "latchfs/fs/merging", "latchfs/fs/changes", "latchfs/fs/advisory", "latchfs/fs/lockwait", "latchfs/fs/transaction", "latchfs/fs/calling", "latchfs/fs"}

// lockSource is the source of these packages with its types.
type lockSource struct {
	fset  *token.FileSet
	files map[string][]*ast.File // by package
	info  *types.Info
	// impl are the methods that a call of an interface's method may reach.
	impl map[*types.Func][]*types.Func
}

// mutexName is by what the order calls a mutex: fs's own without the package.
func mutexName(pkg, typ, field string) string {
	if pkg == "latchfs/fs" {
		return typ + "." + field
	}
	return path.Base(pkg) + "." + typ + "." + field
}

// A lockFunc is what a function, or a function literal, does with mutexes.
type lockFunc struct {
	name  string
	takes map[string]bool // with all that it calls
	held  []lockCall      // calls that are made with something held
	calls map[*types.Func]bool
	edges map[lockEdge]token.Pos
	keeps map[string]bool // held still when it returns
	drops map[string]bool // held by who calls it, and not any more when it returns
}

type lockCall struct {
	of   *types.Func
	with []string
	at   token.Pos
}

// A lockEdge says that a mutex is taken while another one is held.
type lockEdge struct{ held, taken string }

// lockWalk computes the edges of all packages.
type lockWalk struct {
	src   *lockSource
	info  *types.Info
	funcs map[*types.Func]*lockFunc
	all   []*lockFunc
}

func TestMutexOrder(t *testing.T) {
	src := typedSource(t, nil)
	order := statedOrder(t, src.files["latchfs/fs"])
	fields := map[string]string{}
	for _, pkg := range enginePackages {
		maps.Copy(fields, mutexFields(pkg, src.files[pkg]))
	}
	for name, comment := range fields {
		if _, ok := order[name]; !ok {
			t.Errorf("%s has no place in the order above FS", name)
		}
		if !strings.Contains(comment, "guards") && !strings.Contains(comment, "held") {
			t.Errorf("no comment says what %s guards", name)
		}
	}
	for name := range order {
		if _, ok := fields[name]; !ok {
			t.Errorf("the order above FS names %s, which does not exist", name)
		}
	}
	edges := lockEdges(src)
	if len(edges) < 40 {
		t.Errorf("only %d edges were found", len(edges))
	}
	for _, e := range slices.SortedFunc(maps.Keys(edges), func(a, b lockEdge) int { return strings.Compare(a.held+a.taken, b.held+b.taken) }) {
		if testing.Verbose() {
			t.Logf("%s, then %s: %s", e.held, e.taken, src.fset.Position(edges[e]))
		}
		if order[e.held] >= order[e.taken] {
			t.Errorf("%s: %s is taken with %s held, against the order above FS", src.fset.Position(edges[e]), e.taken, e.held)
		}
	}
}

// What the test is for, it finds: two functions, one of which calls the other, take
// two mutexes in the wrong order; in one package, or in two, of which the lower one
// calls the upper one through an interface, or is called by it.
func TestMutexOrderFindsAPlantedEdge(t *testing.T) {
	planted := map[string]string{
		"latchfs/fs": `package fs
func (f *FS) plantedOuter(s *session) { f.nodes.mu.Lock(); defer f.nodes.mu.Unlock(); if s != nil { f.plantedInner(s) } }
func (f *FS) plantedInner(s *session) { s.mu.Lock(); s.mu.Unlock() }
func (f *FS) PlantedUp() { f.nodes.ns.Lock(); f.nodes.ns.Unlock() }
func (f *FS) plantedDown() { f.nodes.mu.Lock(); defer f.nodes.mu.Unlock(); f.callers.ctl.Claims.PlantedBelow(f) }
type plantedSession struct{ s *session }
func (p plantedSession) PlantedLock() { p.s.mu.Lock() }
func (p plantedSession) PlantedUnlock() { p.s.mu.Unlock() }
func (f *FS) PlantedInside() { f.disk.tokenMu.Lock(); f.disk.tokenMu.Unlock() }
func (f *FS) PlantedDeferred() { f.locks.thefts.Lock(); f.locks.thefts.Unlock() }
func (f *FS) PlantedAfter() { f.locks.advisoryKeys.Lock(); f.locks.advisoryKeys.Unlock() }
`,
		"latchfs/fs/ctl": `package ctl
type planted interface { PlantedUp() }
func (cs *Claims) PlantedBelow(p planted) { cs.mu.Lock(); defer cs.mu.Unlock(); p.PlantedUp() }
type plantedLocker interface { PlantedLock(); PlantedUnlock() }
type plantedWork interface { PlantedInside(); PlantedAfter(); PlantedDeferred() }
func plantedRound(l plantedLocker, w plantedWork) { l.PlantedLock(); w.PlantedInside(); l.PlantedUnlock(); w.PlantedAfter() }
func plantedRest(l plantedLocker, w plantedWork) { l.PlantedLock(); defer l.PlantedUnlock(); w.PlantedDeferred() }
`,
	}
	edges := lockEdges(typedSource(t, planted))
	for _, e := range []lockEdge{{"nodes.mu", "session.mu"}, {"ctl.Claims.mu", "nodes.ns"}, {"nodes.mu", "ctl.Claims.mu"}, {"nodes.mu", "nodes.ns"}, {"session.mu", "disk.tokenMu"}, {"session.mu", "locks.thefts"}} {
		if _, ok := edges[e]; !ok {
			t.Errorf("the planted edge %v was not found", e)
		}
	}
	if _, ok := edges[lockEdge{"session.mu", "locks.advisoryKeys"}]; ok {
		t.Error("a mutex that was unlocked through an interface counts as held")
	}
}

var orderLine = regexp.MustCompile(`(?m)^\t([A-Za-z.]+(?:, [A-Za-z.]+)*)$`)

// statedOrder returns the line of each mutex in the comment above FS.
func statedOrder(t *testing.T, files []*ast.File) map[string]int {
	t.Helper()
	order := map[string]int{}
	for _, file := range files {
		for _, d := range file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || len(gen.Specs) != 1 {
				continue
			}
			if spec, ok := gen.Specs[0].(*ast.TypeSpec); !ok || spec.Name.Name != "FS" {
				continue
			}
			_, text, ok := strings.Cut(gen.Doc.Text(), "Mutex order")
			if !ok {
				t.Fatal("no mutex order above FS")
			}
			for n, line := range orderLine.FindAllStringSubmatch(text, -1) {
				for name := range strings.SplitSeq(line[1], ", ") {
					if _, twice := order[name]; twice {
						t.Errorf("%s is in the order twice", name)
					}
					order[name] = n
				}
			}
		}
	}
	return order
}

// mutexFields returns the mutexes of a package's structs with their comments.
func mutexFields(pkg string, files []*ast.File) map[string]string {
	found := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range st.Fields.List {
				if t := types.ExprString(field.Type); t != "sync.Mutex" && t != "sync.RWMutex" {
					continue
				}
				for _, name := range field.Names {
					found[mutexName(pkg, spec.Name.Name, name.Name)] = field.Doc.Text() + field.Comment.Text()
				}
			}
			return true
		})
	}
	return found
}

// typedSource parses and checks the engine's packages, with more source for some.
func typedSource(t *testing.T, more map[string]string) *lockSource {
	t.Helper()
	src := &lockSource{fset: token.NewFileSet(), files: map[string][]*ast.File{}, impl: map[*types.Func][]*types.Func{}}
	src.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}
	exports, names := exportData(t)
	imports := checkedFirst{
		checked: map[string]*types.Package{},
		rest:    importer.ForCompiler(src.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }),
	}
	for _, pkg := range enginePackages {
		add := func(name string, text any) {
			file, err := parser.ParseFile(src.fset, name, text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			src.files[pkg] = append(src.files[pkg], file)
		}
		for _, name := range names[pkg] {
			add(name, nil)
		}
		if text, ok := more[pkg]; ok {
			add(path.Base(pkg)+"/planted.go", text)
		}
		conf := types.Config{Importer: imports}
		checked, err := conf.Check(pkg, src.fset, src.files[pkg], src.info)
		if err != nil {
			t.Fatal(err)
		}
		imports.checked[pkg] = checked
	}
	src.implement(slices.Collect(maps.Values(imports.checked)))
	return src
}

// checkedFirst imports a package that was checked from source as it is, so that a type
// is one in all of them.
type checkedFirst struct {
	checked map[string]*types.Package
	rest    types.Importer
}

func (c checkedFirst) Import(path string) (*types.Package, error) {
	if pkg := c.checked[path]; pkg != nil {
		return pkg, nil
	}
	return c.rest.Import(path)
}

// implement finds out which methods of the packages implement those of their interfaces.
func (src *lockSource) implement(pkgs []*types.Package) {
	var ifaces []*types.Interface
	var named []*types.Named
	for _, pkg := range pkgs {
		for _, name := range pkg.Scope().Names() {
			tn, ok := pkg.Scope().Lookup(name).(*types.TypeName)
			if !ok {
				continue
			}
			n, ok := tn.Type().(*types.Named)
			if !ok || n.TypeParams().Len() > 0 {
				continue
			}
			if iface, ok := n.Underlying().(*types.Interface); ok {
				ifaces = append(ifaces, iface)
			} else {
				named = append(named, n)
			}
		}
	}
	for _, iface := range ifaces {
		for _, n := range named {
			p := types.NewPointer(n)
			if !types.Implements(p, iface) {
				continue
			}
			for m := range iface.Methods() {
				obj, _, _ := types.LookupFieldOrMethod(p, true, m.Pkg(), m.Name())
				if of, ok := obj.(*types.Func); ok {
					src.impl[m] = append(src.impl[m], of)
				}
			}
		}
	}
}

// exportData asks the go command where the types of the imported packages are, and
// which files make up the engine's.
func exportData(t *testing.T) (exports map[string]string, names map[string][]string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,Dir", ".")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports, names = map[string]string{}, map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return exports, names
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if slices.Contains(enginePackages, p.ImportPath) {
			for _, name := range p.GoFiles {
				names[p.ImportPath] = append(names[p.ImportPath], filepath.Join(p.Dir, name))
			}
		}
	}
}
