package fs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
)

// floors are the types of the floors of FS, from below.
func floors() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[ground](), reflect.TypeFor[engine](), reflect.TypeFor[operations]()}
}

// partsOf are the types of the parts on a floor, from below.
func partsOf(floor reflect.Type) (list []reflect.Type) {
	for i := range floor.NumField() {
		list = append(list, floor.Field(i).Type.Elem())
	}
	return list
}

// A part knows those that stand before it: on the floors below, or above it in the list of
// its own floor. So what it does can be read without those that use it.
func TestPartsStandInOrder(t *testing.T) {
	stands := map[reflect.Type]int{}
	var parts []reflect.Type
	for _, floor := range floors() {
		for _, part := range partsOf(floor) {
			parts = append(parts, part)
			stands[part] = len(parts)
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
	for _, floor := range floors() {
		for _, typ := range partsOf(floor) {
			part := typ.Name()
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
	wired := map[reflect.Type]bool{} // parts and floors
	for _, floor := range floors() {
		wired[floor] = true
		for _, part := range partsOf(floor) {
			wired[part] = true
		}
	}
	for _, floor := range floors() {
		for i := range floor.NumField() {
			part := f.FieldByName(floor.Name()).Field(i)
			name := part.Type().Elem().Name()
			if part.IsNil() {
				t.Fatalf("%s has no %s", floor.Name(), name)
			}
			for j := range part.Elem().NumField() {
				use := part.Elem().Field(j)
				if use.Kind() == reflect.Pointer && wired[use.Type().Elem()] && use.IsNil() {
					t.Errorf("%s has no %s", name, use.Type().Elem().Name())
				}
			}
		}
	}
}
