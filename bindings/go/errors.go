// Errors: the kinds of docs/errors.md, as values for errors.Is.
//
// Invariant: every failed call of the C interface becomes one *Error, and its message is freed.

package esker

/*
#include "shim.h"
*/
import "C"

import (
	"io/fs"
	"unsafe"
)

// A Kind is a kind of error. The kinds themselves are errors, so that errors.Is(err,
// esker.ErrLocked) tells whether an error has that kind.
type Kind int32

// The kinds of errors. The numbers are those of the C interface.
const (
	// ErrInvalidArgument: the store cannot accept an argument; nothing was changed. Also
	// fs.ErrInvalid.
	ErrInvalidArgument Kind = C.ESKER_INVALID_ARGUMENT
	// ErrCorruption: bytes on disk differ from the bytes written. They were not returned.
	ErrCorruption Kind = C.ESKER_CORRUPTION
	// ErrIO: the operating system refused an operation.
	ErrIO Kind = C.ESKER_IO
	// ErrNoSpace: the device or a quota is full. No acknowledged write is lost.
	ErrNoSpace Kind = C.ESKER_NO_SPACE
	// ErrLocked: another process or handle has the store open.
	ErrLocked Kind = C.ESKER_LOCKED
	// ErrIncompatible: the directory has another format, version or key order, or belongs to
	// another program.
	ErrIncompatible Kind = C.ESKER_INCOMPATIBLE
	// ErrReadOnly: the store accepts no writes. It was opened read-only, or a sync failed earlier.
	ErrReadOnly Kind = C.ESKER_READ_ONLY
	// ErrClosed: the object, or its store, was closed. Also fs.ErrClosed.
	ErrClosed Kind = C.ESKER_CLOSED
	// ErrInternal: a defect in Esker. Please report the message.
	ErrInternal Kind = C.ESKER_INTERNAL
	// ErrNotFound: the named store, keyspace or backup does not exist. A missing key is no error.
	// Also fs.ErrNotExist.
	ErrNotFound Kind = C.ESKER_NOT_FOUND
	// ErrConflict: a transaction conflicts with another commit. Nothing was written. Run the
	// transaction again; Transact does so.
	ErrConflict Kind = C.ESKER_CONFLICT
	// ErrBusy: a wait for a lock, or of a write for memory, ended at its deadline. Nothing was
	// written.
	ErrBusy Kind = C.ESKER_BUSY
	// ErrDeadlock: transactions wait for each other's locks. Nothing was written. Run the
	// transaction again; Transact does so.
	ErrDeadlock Kind = C.ESKER_DEADLOCK
)

var kindNames = map[Kind]string{
	ErrInvalidArgument: "invalid argument",
	ErrCorruption:      "corruption",
	ErrIO:              "i/o",
	ErrNoSpace:         "no space",
	ErrLocked:          "locked",
	ErrIncompatible:    "incompatible",
	ErrReadOnly:        "read-only",
	ErrClosed:          "closed",
	ErrInternal:        "internal",
	ErrNotFound:        "not found",
	ErrConflict:        "conflict",
	ErrBusy:            "busy",
	ErrDeadlock:        "deadlock",
}

// Error returns the name of the kind, such as "not found".
func (k Kind) Error() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return "unknown kind of error"
}

// An Error is a failed call: its kind for programs, and a message for people. The message is a
// sentence with the path, what was expected and what to do.
type Error struct {
	// Kind is what errors.Is compares.
	Kind Kind
	// Message is a sentence, without "esker: " before it.
	Message string
}

// Error returns the message.
func (e *Error) Error() string {
	if e.Message == "" {
		return "esker: " + e.Kind.Error()
	}
	return "esker: " + e.Message
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Is reports whether target is the error of the package io/fs for this kind.
func (e *Error) Is(target error) bool {
	switch e.Kind {
	case ErrInvalidArgument:
		return target == fs.ErrInvalid
	case ErrClosed:
		return target == fs.ErrClosed
	case ErrNotFound:
		return target == fs.ErrNotExist
	}
	return false
}

// failed returns the error of a code, and frees the message; nil for ESKER_OK.
func failed(code C.int32_t, message *C.char) error {
	if code == C.ESKER_OK {
		return nil
	}
	err := &Error{Kind: Kind(code)}
	if message != nil {
		err.Message = C.GoString(message)
		C.esker_free(unsafe.Pointer(message))
	}
	return err
}

// ended returns the error of a call.
func ended(done C.esker_go_done) error {
	if done.code == C.ESKER_OK {
		return nil
	}
	return failed(done.code, done.message)
}

func invalid(message string) error {
	return &Error{Kind: ErrInvalidArgument, Message: message}
}

func closed(what string) error {
	return &Error{Kind: ErrClosed, Message: "the " + what + " was closed"}
}
