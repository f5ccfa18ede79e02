package fs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/fs/account"
)

// Beside another user's requests, a user's looks into .locks go one after the other, and
// leave that user's other requests and those of others alone.
func TestOneLookAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		everybody := func(uint32) bool { return false }
		here := &account.Presence{}
		s := Requests{newFS(Options{})}
		s.f.callers.turns, s.f.callers.views = account.NewTurns(2, turnPatience, here, everybody), account.NewTurns(1, viewPatience, here, everybody)
		ask := func(uid uint32, node uint64) (end func(), waited time.Duration) {
			began := time.Now()
			turn := s.f.callers.takeTurn(&Request{Node: node, UID: uid})
			return turn.end, time.Since(began)
		}
		const alice, bob, file = 1, 2, 7
		end, _ := ask(alice, file)
		end()
		look, waited := ask(bob, virtualRoot)
		if waited != 0 {
			t.Errorf("the first look waited for %v", waited)
		}
		second := make(chan time.Duration)
		go func() {
			end, waited := ask(bob, virtualRoot)
			end()
			second <- waited
		}()
		synctest.Wait()
		for _, uid := range []uint32{alice, bob} {
			for _, node := range []uint64{file, virtualRoot} {
				if uid == bob && node == virtualRoot {
					continue
				}
				end, waited := ask(uid, node)
				if end(); waited != 0 {
					t.Errorf("user %d waited for %v", uid, waited)
				}
			}
		}
		time.Sleep(3 * time.Millisecond)
		look()
		if waited := <-second; waited != 3*time.Millisecond {
			t.Errorf("the second look waited for %v", waited)
		}
	})
}

// Requests that change a directory are counted while they run, or the sync of that
// directory might not wait for them: see commit.Store.FsyncDir.
func TestRequestsThatChangeDirectoriesAreCounted(t *testing.T) {
	counted := deferring(t, func(call *ast.CallExpr) bool { return isCallOf(call.Fun, "changes") })
	for _, name := range []string{
		"Create", "Mkdir", "Mknod", "Symlink", "Link", "Rename", "Unlink", "Rmdir", "SetAttr", "SetXAttr", "RemoveXAttr",
	} {
		if !counted[name] {
			t.Errorf("%s is not counted", name)
		}
	}
}

// Whoever is late with one of the requests that the kernel repeats is so until that is answered, or
// its next system call is taken for a repeated one.
func TestRequestsThatAreRepeatedAreTold(t *testing.T) {
	told := deferring(t, func(call *ast.CallExpr) bool { return isCallOf(call, "Answered") })
	for _, name := range []string{
		"Open", "Create", "Tmpfile", "Mkdir", "Mknod", "Symlink", "Link", "Rename", "Unlink", "Rmdir", "SetAttr", "SetXAttr", "RemoveXAttr",
	} {
		if !told[name] {
			t.Errorf("nobody is told when %s is answered", name)
		}
	}
}

// deferring are the functions of requests.go that defer such a call.
func deferring(t *testing.T, is func(*ast.CallExpr) bool) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "requests.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, decl := range parsed.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if deferred, ok := n.(*ast.DeferStmt); ok && is(deferred.Call) {
					all[fn.Name.Name] = true
				}
				return true
			})
		}
	}
	return all
}

// isCallOf reports whether an expression is a call of the method name.
func isCallOf(e ast.Expr, name string) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == name
}
