package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The order in which the mutexes of this package are taken stands above FS. Here it is
// computed from the source which mutex is taken, in whatever function, while another
// one is held. Calls through interfaces and function values are not followed, and the
// mutexes of two values of one type are one.

// A lockFunc is what a function, or a function literal, does with mutexes.
type lockFunc struct {
	name  string
	takes map[string]bool // with all that it calls
	held  []lockCall      // calls that are made with something held
	calls map[*types.Func]bool
	edges map[lockEdge]token.Pos
	keeps map[string]bool // held still when it returns
}

type lockCall struct {
	of   *types.Func
	with []string
	at   token.Pos
}

// A lockEdge says that a mutex is taken while another one is held.
type lockEdge struct{ held, taken string }

// lockWalk computes the edges of a package.
type lockWalk struct {
	info  *types.Info
	funcs map[*types.Func]*lockFunc
	all   []*lockFunc
}

func TestMutexOrder(t *testing.T) {
	files, fset, info := typedSource(t, nil)
	order := statedOrder(t, files)
	for name, comment := range mutexFields(files) {
		if _, ok := order[name]; !ok {
			t.Errorf("%s has no place in the order above FS", name)
		}
		if !strings.Contains(comment, "guards") && !strings.Contains(comment, "held") {
			t.Errorf("no comment says what %s guards", name)
		}
	}
	for name := range order {
		if _, ok := mutexFields(files)[name]; !ok {
			t.Errorf("the order above FS names %s, which does not exist", name)
		}
	}
	edges := lockEdges(files, info)
	if len(edges) < 40 {
		t.Errorf("only %d edges were found", len(edges))
	}
	for _, e := range slices.SortedFunc(maps.Keys(edges), func(a, b lockEdge) int { return strings.Compare(a.held+a.taken, b.held+b.taken) }) {
		if testing.Verbose() {
			t.Logf("%s, then %s: %s", e.held, e.taken, fset.Position(edges[e]))
		}
		if order[e.held] >= order[e.taken] {
			t.Errorf("%s: %s is taken with %s held, against the order above FS", fset.Position(edges[e]), e.taken, e.held)
		}
	}
}

// What the test is for, it finds: two functions, one of which calls the other, take
// two mutexes in the wrong order.
func TestMutexOrderFindsAPlantedEdge(t *testing.T) {
	planted := map[string]string{"planted.go": `package fs
func (f *FS) plantedOuter(s *session) { f.mu.Lock(); defer f.mu.Unlock(); if s != nil { f.plantedInner(s) } }
func (f *FS) plantedInner(s *session) { s.mu.Lock(); s.mu.Unlock() }
`}
	files, _, info := typedSource(t, planted)
	if _, ok := lockEdges(files, info)[lockEdge{"FS.mu", "session.mu"}]; !ok {
		t.Error("the planted edge was not found")
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

// mutexFields returns the mutexes of the package's structs with their comments.
func mutexFields(files []*ast.File) map[string]string {
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
					found[spec.Name.Name+"."+name.Name] = field.Doc.Text() + field.Comment.Text()
				}
			}
			return true
		})
	}
	return found
}

// typedSource parses and checks this package's files, and more.
func typedSource(t *testing.T, more map[string]string) ([]*ast.File, *token.FileSet, *types.Info) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	exports, names := exportData(t)
	add := func(name string, src any) {
		file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for _, name := range names {
		add(name, nil)
	}
	for name, src := range more {
		add(name, src)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	conf := types.Config{Importer: imports}
	if _, err := conf.Check("latchfs/fs", fset, files, info); err != nil {
		t.Fatal(err)
	}
	return files, fset, info
}

// exportData asks the go command where the types of the imported packages are, and
// which files make up this one.
func exportData(t *testing.T) (exports map[string]string, names []string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,Dir", ".")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports = map[string]string{}
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
		if p.ImportPath == "latchfs/fs" {
			for _, name := range p.GoFiles {
				names = append(names, filepath.Join(p.Dir, name))
			}
		}
	}
}

// lockEdges returns all edges with a place where each is made.
func lockEdges(files []*ast.File, info *types.Info) map[lockEdge]token.Pos {
	w := &lockWalk{info: info, funcs: map[*types.Func]*lockFunc{}}
	var bodies []func()
	for _, file := range files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				lf := w.newFunc(d.Name.Name)
				w.funcs[info.Defs[d.Name].(*types.Func)] = lf
				bodies = append(bodies, func() { w.function(lf, d.Body) })
			}
		}
	}
	// What a function returns with is known after the first round.
	for range 2 {
		for _, lf := range w.all {
			lf.held = nil
		}
		for _, body := range bodies {
			body()
		}
	}
	w.close()
	edges := map[lockEdge]token.Pos{}
	for _, lf := range w.all {
		maps.Copy(edges, lf.edges)
		for _, call := range lf.held {
			callee := w.funcs[call.of]
			if callee == nil {
				continue
			}
			for _, held := range call.with {
				for taken := range callee.takes {
					if held != taken {
						edges[lockEdge{held, taken}] = call.at
					}
				}
			}
		}
	}
	return edges
}

// close adds what is taken by the functions that a function calls, until nothing is new.
func (w *lockWalk) close() {
	for more := true; more; {
		more = false
		for _, lf := range w.all {
			for of := range lf.calls {
				callee := w.funcs[of]
				if callee == nil {
					continue
				}
				for name := range callee.takes {
					if !lf.takes[name] {
						lf.takes[name], more = true, true
					}
				}
			}
		}
	}
}

func (w *lockWalk) newFunc(name string) *lockFunc {
	lf := &lockFunc{name: name, takes: map[string]bool{}, calls: map[*types.Func]bool{},
		edges: map[lockEdge]token.Pos{}, keeps: map[string]bool{}}
	w.all = append(w.all, lf)
	return lf
}

// A lockState is what is held at a point of a function.
type lockState struct {
	held     map[string]bool
	deferred map[string]bool // unlocked at the end
	over     bool            // the point is never reached
}

func (s lockState) clone() lockState {
	return lockState{maps.Clone(s.held), s.deferred, s.over}
}

// join makes s what is held after one of several branches.
func (s *lockState) join(branches ...lockState) {
	s.held, s.over = map[string]bool{}, true
	for _, b := range branches {
		if !b.over {
			maps.Copy(s.held, b.held)
			s.over = false
		}
	}
}

func (w *lockWalk) function(lf *lockFunc, body *ast.BlockStmt) {
	s := lockState{held: map[string]bool{}, deferred: map[string]bool{}}
	f := &lockBody{w: w, lf: lf}
	f.stmt(&s, body)
	f.leave(s)
}

// lockBody walks one function.
type lockBody struct {
	w  *lockWalk
	lf *lockFunc
}

// leave notes what is held at a return.
func (f *lockBody) leave(s lockState) {
	if s.over {
		return
	}
	for name := range s.held {
		if !s.deferred[name] {
			f.lf.keeps[name] = true
		}
	}
}

func (f *lockBody) stmts(s *lockState, list []ast.Stmt) {
	for _, st := range list {
		f.stmt(s, st)
	}
}

func (f *lockBody) stmt(s *lockState, st ast.Stmt) {
	switch st := st.(type) {
	case nil:
	case *ast.BlockStmt:
		f.stmts(s, st.List)
	case *ast.LabeledStmt:
		f.stmt(s, st.Stmt)
	case *ast.IfStmt:
		f.stmt(s, st.Init)
		f.expr(s, st.Cond)
		yes, no := s.clone(), s.clone()
		f.stmt(&yes, st.Body)
		if st.Else != nil {
			f.stmt(&no, st.Else)
		}
		s.join(yes, no)
	case *ast.ForStmt:
		f.stmt(s, st.Init)
		f.expr(s, st.Cond)
		f.loop(s, st.Body, st.Post)
	case *ast.RangeStmt:
		f.expr(s, st.X)
		f.loop(s, st.Body, nil)
	case *ast.SwitchStmt:
		f.stmt(s, st.Init)
		f.expr(s, st.Tag)
		f.clauses(s, st.Body)
	case *ast.TypeSwitchStmt:
		f.stmt(s, st.Init)
		f.stmt(s, st.Assign)
		f.clauses(s, st.Body)
	case *ast.SelectStmt:
		f.clauses(s, st.Body)
	case *ast.ReturnStmt:
		f.exprs(s, st.Results)
		f.leave(*s)
		s.over = true
	case *ast.BranchStmt:
		s.over = true
	case *ast.GoStmt:
		f.exprs(s, st.Call.Args)
		f.literal(st.Call.Fun)
	case *ast.DeferStmt:
		f.deferred(s, st.Call)
	default:
		f.expr(s, st)
	}
}

// loop walks a body as if it ran once: one that unlocks what was locked has unlocked all.
func (f *lockBody) loop(s *lockState, body *ast.BlockStmt, post ast.Stmt) {
	once := s.clone()
	f.stmt(&once, body)
	once.over = false
	f.stmt(&once, post)
	*s = once
}

func (f *lockBody) clauses(s *lockState, body *ast.BlockStmt) {
	ends := []lockState{s.clone()}
	for _, c := range body.List {
		one := s.clone()
		switch c := c.(type) {
		case *ast.CaseClause:
			f.exprs(&one, c.List)
			f.stmts(&one, c.Body)
		case *ast.CommClause:
			f.stmt(&one, c.Comm)
			f.stmts(&one, c.Body)
		}
		ends = append(ends, one)
	}
	s.join(ends...)
}

func (f *lockBody) exprs(s *lockState, list []ast.Expr) {
	for _, e := range list {
		f.expr(s, e)
	}
}

// expr walks what is evaluated in the order of the source.
func (f *lockBody) expr(s *lockState, n ast.Node) {
	if n == nil {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.literal(n)
			return false
		case *ast.CallExpr:
			if lit, ok := n.Fun.(*ast.FuncLit); ok {
				f.stmt(s, lit.Body) // called where it stands
			} else {
				f.expr(s, n.Fun)
			}
			f.exprs(s, n.Args)
			f.call(s, n)
			return false
		}
		return true
	})
}

// literal walks a function that is called later or elsewhere.
func (f *lockBody) literal(e ast.Expr) {
	if lit, ok := e.(*ast.FuncLit); ok {
		f.w.function(f.w.newFunc(f.lf.name+" (a literal)"), lit.Body)
	}
}

func (f *lockBody) deferred(s *lockState, call *ast.CallExpr) {
	f.exprs(s, call.Args)
	if name, op := f.mutex(call); op == "Unlock" || op == "RUnlock" {
		s.deferred[name] = true
		return
	}
	if lit, ok := call.Fun.(*ast.FuncLit); ok {
		then := s.clone()
		f.stmt(&then, lit.Body)
		for name := range s.held {
			if !then.held[name] {
				s.deferred[name] = true
			}
		}
		return
	}
	f.call(s, call)
}

// call is one call with what is held.
func (f *lockBody) call(s *lockState, call *ast.CallExpr) {
	name, op := f.mutex(call)
	switch op {
	case "Lock", "RLock", "TryLock", "TryRLock":
		f.lf.takes[name] = true
		for held := range s.held {
			if held != name {
				f.lf.edges[lockEdge{held, name}] = call.Pos()
			}
		}
		s.held[name] = true
		return
	case "Unlock", "RUnlock":
		delete(s.held, name)
		return
	}
	of := f.callee(call)
	if of == nil {
		return
	}
	f.lf.calls[of] = true
	if len(s.held) > 0 {
		f.lf.held = append(f.lf.held, lockCall{of, slices.Collect(maps.Keys(s.held)), call.Pos()})
	}
	if callee := f.w.funcs[of]; callee != nil {
		maps.Copy(s.held, callee.keeps)
	}
}

func (f *lockBody) callee(call *ast.CallExpr) *types.Func {
	var id *ast.Ident
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	default:
		return nil
	}
	of, _ := f.w.info.Uses[id].(*types.Func)
	if of != nil {
		of = of.Origin()
	}
	return of
}

// mutex tells whether a call is one of a mutex that is a field, and which.
func (f *lockBody) mutex(call *ast.CallExpr) (name, op string) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	of, _ := f.w.info.Uses[sel.Sel].(*types.Func)
	if of == nil || of.Pkg() == nil || of.Pkg().Path() != "sync" {
		return "", ""
	}
	field, ok := ast.Unparen(sel.X).(*ast.SelectorExpr)
	if !ok || !strings.Contains(f.w.info.Types[field].Type.String(), "Mutex") {
		return "", ""
	}
	owner := f.w.info.Types[field.X].Type
	if p, ok := owner.(*types.Pointer); ok {
		owner = p.Elem()
	}
	named, ok := owner.(*types.Named)
	if !ok {
		return fmt.Sprintf("%s.%s", owner, field.Sel.Name), of.Name()
	}
	return named.Obj().Name() + "." + field.Sel.Name, of.Name()
}
