package fs

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// This file follows the mutexes through functions, for TestMutexOrder.

// lockEdges returns all edges with a place where each is made.
func lockEdges(src *lockSource) map[lockEdge]token.Pos {
	w := &lockWalk{src: src, info: src.info, funcs: map[*types.Func]*lockFunc{}}
	var bodies []func()
	for _, file := range slices.Concat(slices.Collect(maps.Values(src.files))...) {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				lf := w.newFunc(d.Name.Name)
				w.funcs[src.info.Defs[d.Name].(*types.Func)] = lf
				bodies = append(bodies, func() { w.function(lf, d.Body) })
			}
		}
	}
	// With what a function returns is known after the first round, of those that call it
	// after the second.
	declared := len(w.all)
	for range 3 {
		w.all = w.all[:declared] // the literals come again
		for _, lf := range w.all {
			lf.held, lf.edges = nil, map[lockEdge]token.Pos{}
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
	dropped  map[string]bool // unlocked, and locked by who has called the function
	over     bool            // the point is never reached
}

func (s lockState) clone() lockState {
	return lockState{maps.Clone(s.held), s.deferred, maps.Clone(s.dropped), s.over}
}

// join makes s what is held after one of several branches.
func (s *lockState) join(branches ...lockState) {
	s.held, s.dropped, s.over = map[string]bool{}, nil, true
	for _, b := range branches {
		if !b.over {
			maps.Copy(s.held, b.held)
			s.dropped = both(s.dropped, b.dropped)
			s.over = false
		}
	}
	if s.over {
		s.dropped = map[string]bool{}
	}
}

// both is what is in both sets; a is nil of the first one.
func both(a, b map[string]bool) map[string]bool {
	c := map[string]bool{}
	for name := range b {
		if a == nil || a[name] {
			c[name] = true
		}
	}
	return c
}

func (s *lockState) lock(name string) {
	s.held[name] = true
	delete(s.dropped, name)
}

func (s *lockState) unlock(name string) {
	if !s.held[name] {
		s.dropped[name] = true
	}
	delete(s.held, name)
}

func (w *lockWalk) function(lf *lockFunc, body *ast.BlockStmt) {
	s := lockState{held: map[string]bool{}, deferred: map[string]bool{}, dropped: map[string]bool{}}
	f := &lockBody{w: w, lf: lf, keeps: map[string]bool{}}
	f.stmt(&s, body)
	f.leave(s)
	lf.keeps, lf.drops = f.keeps, f.drops
}

// lockBody walks one function.
type lockBody struct {
	w     *lockWalk
	lf    *lockFunc
	keeps map[string]bool
	drops map[string]bool // at each return up to here; nil: there was none
}

// leave notes what is held at a return.
func (f *lockBody) leave(s lockState) {
	if s.over {
		return
	}
	for name := range s.held {
		if !s.deferred[name] {
			f.keeps[name] = true
		}
	}
	f.drops = both(f.drops, s.dropped)
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
		if not, ok := st.Cond.(*ast.UnaryExpr); ok && not.Op == token.NOT {
			f.failed(&yes, not.X)
		} else {
			f.failed(&no, st.Cond)
		}
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

// failed takes back that a mutex was locked, where cond was an attempt that has failed.
func (f *lockBody) failed(s *lockState, cond ast.Expr) {
	if call, ok := cond.(*ast.CallExpr); ok {
		if name, op := f.mutex(call); op == "TryLock" || op == "TryRLock" {
			delete(s.held, name)
		}
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
	then := s.clone()
	f.call(&then, call)
	for name := range s.held {
		if !then.held[name] {
			s.deferred[name] = true
		}
	}
	maps.Copy(s.held, then.held)
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
		s.lock(name)
		return
	case "Unlock", "RUnlock":
		s.unlock(name)
		return
	}
	of := f.callee(call)
	if of == nil {
		return
	}
	held := slices.Collect(maps.Keys(s.held))
	var drops map[string]bool
	keeps := map[string]bool{}
	for _, of := range append(f.w.src.impl[of], of) {
		f.lf.calls[of] = true
		if len(held) > 0 {
			f.lf.held = append(f.lf.held, lockCall{of, held, call.Pos()})
		}
		if callee := f.w.funcs[of]; callee != nil {
			maps.Copy(keeps, callee.keeps)
			drops = both(drops, callee.drops)
		}
	}
	for name := range drops {
		s.unlock(name)
	}
	for name := range keeps {
		s.lock(name)
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
	return mutexName(named.Obj().Pkg().Path(), named.Obj().Name(), field.Sel.Name), of.Name()
}
