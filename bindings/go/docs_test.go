// Comments of the package, as `go doc` shows them.

package esker_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

// undocumented returns the exported names of a package without a comment, and how many names there are.
func undocumented(files *token.FileSet, pkg *doc.Package) (missing []string, names int) {
	note := func(name, comment string) {
		if !ast.IsExported(name[strings.LastIndex(name, ".")+1:]) {
			return
		}
		names++
		if strings.TrimSpace(comment) == "" {
			missing = append(missing, name)
		}
	}
	// A comment on a group of constants is about each of them.
	values := func(groups []*doc.Value) {
		for _, group := range groups {
			for _, spec := range group.Decl.Specs {
				value := spec.(*ast.ValueSpec)
				for _, name := range value.Names {
					note(name.Name, group.Doc+value.Doc.Text()+value.Comment.Text())
				}
			}
		}
	}
	functions := func(of string, list []*doc.Func) {
		for _, function := range list {
			note(of+function.Name, function.Doc)
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	functions("", pkg.Funcs)
	for _, kind := range pkg.Types {
		note(kind.Name, kind.Doc)
		values(kind.Consts)
		values(kind.Vars)
		functions("", kind.Funcs)
		functions(kind.Name+".", kind.Methods)
		fields(files, kind, note)
	}
	return missing, names
}

// fields notes the fields of a structure and the methods of an interface. A comment is also about what
// follows in the next lines without one.
func fields(files *token.FileSet, kind *doc.Type, note func(name, comment string)) {
	for _, spec := range kind.Decl.Specs {
		var list *ast.FieldList
		switch of := spec.(*ast.TypeSpec).Type.(type) {
		case *ast.StructType:
			list = of.Fields
		case *ast.InterfaceType:
			list = of.Methods
		default:
			continue
		}
		last, line := "", 0
		for _, field := range list.List {
			comment := field.Doc.Text() + field.Comment.Text()
			if comment == "" && files.Position(field.Pos()).Line == line+1 {
				comment = last
			}
			last, line = comment, files.Position(field.End()).Line
			for _, name := range field.Names {
				note(kind.Name+"."+name.Name, comment)
			}
		}
	}
}

func TestEachExportedNameHasAComment(t *testing.T) {
	own := func(file fs.FileInfo) bool { return !strings.HasSuffix(file.Name(), "_test.go") }
	files := token.NewFileSet()
	parsed, err := parser.ParseDir(files, ".", own, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	pkg := doc.New(parsed["esker"], "esker", 0)
	missing, names := undocumented(files, pkg)
	if pkg.Doc == "" || names < 100 {
		t.Fatalf("found %d names, and the package's comment %q", names, pkg.Doc)
	}
	for _, name := range missing {
		t.Errorf("%s has no comment", name)
	}
}
