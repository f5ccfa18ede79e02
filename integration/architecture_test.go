package integration

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What docs/architecture.md calls by name is there: a method as `Type.method`.
func TestWalkNamesFunctions(t *testing.T) {
	inTest(t)
	methods := map[string]bool{}
	for _, room := range []string{"fs", "lockmgr", "journal"} {
		err := filepath.WalkDir(filepath.Join("..", room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := goparser.ParseFile(token.NewFileSet(), path, nil, goparser.SkipObjectResolution)
			if err != nil {
				return err
			}
			addMethods(methods, file)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := regexp.MustCompile("`([A-Za-z]+\\.[A-Za-z]+)`").FindAllStringSubmatch(readText(t, "../docs/architecture.md"), -1)
	if len(named) < 20 {
		t.Errorf("only %d methods are named", len(named))
	}
	for _, name := range named {
		if !methods[name[1]] {
			t.Errorf("docs/architecture.md names %s, which is not there", name[1])
		}
	}
}

// Every test that docs/security.md names behind a rule is there.
func TestSecurityNamesTests(t *testing.T) {
	inTest(t)
	there := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := goparser.ParseFile(token.NewFileSet(), path, nil, goparser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				there[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(readText(t, "../docs/security.md"), -1)
	if len(named) < 80 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, name := range named {
		if !there[name[1]] {
			t.Errorf("docs/security.md names %s, which is not there", name[1])
		}
	}
}

func addMethods(to map[string]bool, file *ast.File) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		recv := f.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		if id, ok := recv.(*ast.Ident); ok {
			to[id.Name+"."+f.Name.Name] = true
		}
	}
}
