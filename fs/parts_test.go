package fs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
)

// A part knows those that stand before it: on the floors below, or above it in the list of
// its own floor. So what it does can be read without those that use it.
func TestPartsStandInOrder(t *testing.T) {
	stands := map[reflect.Type]int{}
	var parts []reflect.Type
	floors := []reflect.Type{reflect.TypeFor[ground](), reflect.TypeFor[engine](), reflect.TypeFor[operations]()}
	for _, floor := range floors {
		for i := range floor.NumField() {
			parts = append(parts, floor.Field(i).Type.Elem())
			stands[floor.Field(i).Type.Elem()] = len(parts)
		}
		stands[floor] = len(parts) // whoever has a floor has all its parts
	}
	for _, part := range parts {
		for _, f := range reflect.VisibleFields(part) {
			if len(f.Index) > 1 || f.Type.Kind() != reflect.Pointer {
				continue
			}
			if at, ok := stands[f.Type.Elem()]; ok && at >= stands[part] {
				t.Errorf("%s uses %s, which stands after it", part.Name(), f.Type.Elem().Name())
			}
		}
	}
}

// Every part is declared in the file that has its name, or that in the singular.
func TestPartsHaveTheirFiles(t *testing.T) {
	for _, floor := range []reflect.Type{reflect.TypeFor[ground](), reflect.TypeFor[engine](), reflect.TypeFor[operations]()} {
		for i := range floor.NumField() {
			part := floor.Field(i).Type.Elem().Name()
			file := strings.ToLower(part)
			if !declares(file+".go", part) && !declares(strings.TrimSuffix(file, "s")+".go", part) {
				t.Errorf("%s is not declared in %s.go", part, file)
			}
		}
	}
}

// declares reports whether a file declares a type.
func declares(file, name string) bool {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			for _, s := range g.Specs {
				if s.(*ast.TypeSpec).Name.Name == name {
					return true
				}
			}
		}
	}
	return false
}

// Every part is wired to all that it uses.
func TestPartsAreWired(t *testing.T) {
	f := reflect.ValueOf(newFS(Options{})).Elem()
	for _, floor := range []string{"ground", "engine", "operations"} {
		for i := range f.FieldByName(floor).NumField() {
			part := f.FieldByName(floor).Field(i)
			if part.IsNil() {
				t.Fatalf("%s has no %s", floor, part.Type().Elem().Name())
			}
			for j := range part.Elem().NumField() {
				use := part.Elem().Field(j)
				if use.Kind() == reflect.Pointer && use.Type().Elem().PkgPath() == f.Type().PkgPath() && use.IsNil() && isPart(f, use.Type()) {
					t.Errorf("%s has no %s", part.Type().Elem().Name(), use.Type().Elem().Name())
				}
			}
		}
	}
}

// isPart reports whether a type is that of a part, of a floor, or of the whole.
func isPart(f reflect.Value, typ reflect.Type) bool {
	if typ.Elem() == f.Type() {
		return true
	}
	for _, floor := range []string{"ground", "engine", "operations"} {
		if f.FieldByName(floor).Type() == typ.Elem() {
			return true
		}
		for i := range f.FieldByName(floor).NumField() {
			if f.FieldByName(floor).Type().Field(i).Type == typ {
				return true
			}
		}
	}
	return false
}
