// Errors: the kinds, their names, and what errors.Is says about them.

package esker_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"esker.dev/esker"
)

var kinds = []esker.Kind{
	esker.ErrInvalidArgument, esker.ErrCorruption, esker.ErrIO, esker.ErrNoSpace, esker.ErrLocked,
	esker.ErrIncompatible, esker.ErrReadOnly, esker.ErrClosed, esker.ErrInternal,
	esker.ErrNotFound, esker.ErrConflict, esker.ErrBusy, esker.ErrDeadlock,
}

func TestKinds(t *testing.T) {
	for i, kind := range kinds {
		equal(t, int(kind), i+1)
		var err error = fmt.Errorf("with context: %w", &esker.Error{Kind: kind, Message: "m"})
		for _, other := range kinds {
			equal(t, errors.Is(err, other), kind == other)
		}
		var own *esker.Error
		equal(t, errors.As(err, &own) && own.Kind == kind && own.Message == "m", true)
		equal(t, errors.Is(err, fs.ErrClosed), kind == esker.ErrClosed)
		equal(t, errors.Is(err, fs.ErrInvalid), kind == esker.ErrInvalidArgument)
		equal(t, errors.Is(err, fs.ErrNotExist), kind == esker.ErrNotFound)
	}
	equal(t, (&esker.Error{Kind: esker.ErrBusy}).Error(), "esker: busy")
	equal(t, esker.Kind(77).Error(), "unknown kind of error")
}

// The table of errors has the kinds of this package.
func TestKindsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("docs/errors.md is part of the source tree only")
	}
	must(t, err)
	names := map[esker.Kind]string{
		esker.ErrInvalidArgument: "ErrInvalidArgument", esker.ErrCorruption: "ErrCorruption",
		esker.ErrIO: "ErrIO", esker.ErrNoSpace: "ErrNoSpace", esker.ErrLocked: "ErrLocked",
		esker.ErrIncompatible: "ErrIncompatible", esker.ErrReadOnly: "ErrReadOnly",
		esker.ErrClosed: "ErrClosed", esker.ErrInternal: "ErrInternal",
		esker.ErrNotFound: "ErrNotFound", esker.ErrConflict: "ErrConflict",
		esker.ErrBusy: "ErrBusy", esker.ErrDeadlock: "ErrDeadlock",
	}
	equal(t, len(names), len(kinds))
	for _, kind := range kinds {
		row := fmt.Sprintf("| `%s` |", kind.Error())
		_, rest, found := strings.Cut(string(page), "\n"+row)
		line, _, _ := strings.Cut(rest, "\n")
		// The name is that of Rust, in the next column.
		rust := strings.Replace(strings.TrimPrefix(names[kind], "Err"), "IO", "Io", 1)
		known := kind == esker.ErrInternal || strings.HasPrefix(line, " `"+rust+"` |")
		if !found || !known || !strings.Contains(line, fmt.Sprintf(" %d` |", kind)) {
			t.Errorf("docs/errors.md: the row %s is not that of %s: %s", row, names[kind], line)
		}
	}
}
