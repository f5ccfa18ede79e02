package fs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// members are what the types of this package have, by type; abroad says of which types another
// package's type is embedded, so that not all is known.
type members struct {
	has    map[string]map[string]bool
	embeds map[string][]string
	abroad map[string]bool
}

var (
	fileInComment   = regexp.MustCompile(`\b[a-z]\w*\.go\b`)
	memberInComment = regexp.MustCompile(`\b([a-zA-Z]\w*)\.([a-zA-Z]\w*)\b`)
)

// Comments name files, and fields and methods of types, by names that they have; and what
// declares something begins with its name. Whoever renames or moves one finds the comments by
// this.
func TestCommentsNameWhatIsThere(t *testing.T) {
	fset := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	m := members{map[string]map[string]bool{}, map[string][]string{}, map[string]bool{}}
	for _, p := range paths {
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(p, "_test.go") {
			files[p] = f
			m.add(f)
		}
	}
	for _, f := range files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				for _, name := range fileInComment.FindAllString(c.Text, -1) {
					if _, err := os.Stat(name); err != nil {
						t.Errorf("%s: there is no %s", fset.Position(c.Pos()), name)
					}
				}
				for _, name := range memberInComment.FindAllStringSubmatch(c.Text, -1) {
					if name[2] != "go" && m.lacks(name[1], name[2]) {
						t.Errorf("%s: there is no %s", fset.Position(c.Pos()), name[0])
					}
				}
			}
		}
		for _, d := range f.Decls {
			if fd, ok := d.(*ast.FuncDecl); ok && fd.Doc != nil && !strings.HasPrefix(fd.Doc.Text(), fd.Name.Name+" ") {
				t.Errorf("%s: the comment does not begin with %s", fset.Position(fd.Pos()), fd.Name.Name)
			}
		}
	}
}

// add enters the types of a file, with their fields and methods.
func (m *members) add(f *ast.File) {
	enter := func(typ, name string) {
		if m.has[typ] == nil {
			m.has[typ] = map[string]bool{}
		}
		m.has[typ][name] = true
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				typ, _ := typeName(d.Recv.List[0].Type)
				enter(typ, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				typ, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				var fields *ast.FieldList
				switch is := typ.Type.(type) {
				case *ast.StructType:
					fields = is.Fields
				case *ast.InterfaceType:
					fields = is.Methods
				default:
					m.abroad[typ.Name.Name] = true
					continue
				}
				for _, field := range fields.List {
					for _, n := range field.Names {
						enter(typ.Name.Name, n.Name)
					}
					if len(field.Names) == 0 {
						name, local := typeName(field.Type)
						enter(typ.Name.Name, name)
						m.embeds[typ.Name.Name] = append(m.embeds[typ.Name.Name], name)
						m.abroad[typ.Name.Name] = m.abroad[typ.Name.Name] || !local
					}
				}
			}
		}
	}
}

// lacks reports whether a type of this package is known not to have a field or method.
func (m *members) lacks(typ, name string) bool {
	if m.has[typ] == nil || m.abroad[typ] || m.has[typ][name] {
		return false
	}
	for _, e := range m.embeds[typ] {
		if m.has[e] == nil || !m.lacks(e, name) {
			return false
		}
	}
	return true
}

// typeName is the name of the type of a field or receiver, and whether it is this package's.
func typeName(e ast.Expr) (name string, local bool) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name, true
	case *ast.SelectorExpr:
		return e.Sel.Name, false
	}
	return "", false
}
