// Encrypted stores: where their keys come from, and the change of a key.
//
// Invariants:
//  1. No error has the bytes of a key.
//  2. No panic of a function that gives keys enters the C library: it becomes an error.

package esker

/*
#include <stdlib.h>
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// KeySize is the length of a master key in bytes.
const KeySize = C.ESKER_KEY_BYTES

// A Key says where the master key of encrypted stores comes from; see Options.Key. All files of an
// encrypted store are encrypted, except LOCK and KEYS, which has the data keys, wrapped by the master
// key. The names, sizes and times of files stay visible. Copies are encrypted under the same master
// key. Without it nothing can be read any more. Many stores and goroutines may use a Key.
type Key struct {
	bytes []byte
	file  string
	give  func(name string) (MasterKey, error)
}

// KeyBytes returns a key of KeySize bytes, or of twice as many hexadecimal digits with blanks or
// newlines around them. Its name is its fingerprint. Other bytes are ErrInvalidArgument when the key is
// used.
func KeyBytes(key []byte) *Key { return &Key{bytes: append([]byte{}, key...)} }

// KeyFile returns the key in a file, with the content that KeyBytes takes. The file is read at each
// opening. Nobody else should be able to read it.
func KeyFile(path string) *Key { return &Key{file: path} }

// A MasterKey is a key that a function has given.
type MasterKey struct {
	// Bytes are KeySize bytes.
	Bytes []byte
	// Name has 1 to 64 bytes and is not secret. Empty: the key is named by its fingerprint.
	Name string
}

// KeyFunc returns keys that a function gives, for example from a key service. It gets the name of the
// key that is needed; empty for the key of a new store. It is called when a store is opened, created or
// copied, not for each file, from any goroutine, on several at once. It must not use the store. After an
// error or a panic the opening fails with ErrInvalidArgument and its text.
func KeyFunc(give func(name string) (MasterKey, error)) *Key { return &Key{give: give} }

// set sets the key of options.
func (k *Key) set(c *C.esker_options_t) error {
	var message *C.char
	switch {
	case k.give != nil:
		state := functions{key: k.give}.state("")
		return failed(C.esker_go_set_key_source(c, state, &message), message)
	case k.file != "":
		return named(k.file, func(path *C.char, message **C.char) C.int32_t {
			return C.esker_options_set_key_file(c, path, message)
		})
	}
	return failed(C.esker_go_set_key(c, ptr(k.bytes), n(k.bytes), &message), message)
}

//export eskerGoGiveKey
func eskerGoGiveKey(state C.uintptr_t, name *C.char, place *C.uint8_t, given,
	reason **C.char) (has C.uint8_t) {
	refuse := func(why string) {
		*reason, has = C.CString(why), 0
	}
	defer func() {
		if p := recover(); p != nil {
			refuse(fmt.Sprintf("the function panicked: %v", p))
		}
	}()
	key, err := functionsOf(state).key(C.GoString(name))
	if err == nil && len(key.Bytes) != KeySize {
		err = fmt.Errorf("expected %d bytes of a key, found %d", KeySize, len(key.Bytes))
	}
	if err == nil && !isText(key.Name) {
		err = errors.New("the name of the key has a zero byte")
	}
	if err != nil {
		refuse(err.Error())
		return has
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(place)), KeySize), key.Bytes)
	if key.Name != "" {
		*given = C.CString(key.Name)
	}
	return 1
}

// A RekeyReport says what a Rekey has changed.
type RekeyReport struct {
	// From and To are the names of the master keys before and now.
	From, To string
	// DataKeys is the number of data keys that files of the store still need, without the new one.
	DataKeys uint64
	// RemovedDataKeys is the number of data keys that no file needed, and that were removed.
	RemovedDataKeys uint64
}

// Rekey changes the master key of the encrypted store in path, which must not be open, from the Key of
// options to that of newOptions. Only the file KEYS is written, so it takes milliseconds. A crash leaves
// the store with the one or the other key.
//
// The old key opens nothing afterwards. New files get a new data key, and existing ones keep theirs until
// CompactRange rewrites them. Copies have a KEYS of their own, under the key of the time at which they
// were made. ErrNotFound if there is no store, ErrLocked while it is open, ErrInvalidArgument if it is not
// encrypted, the key of options does not open it, or a key is missing. Nothing is changed then.
func Rekey(path string, options, newOptions *Options) (RekeyReport, error) {
	if options == nil || newOptions == nil {
		return RekeyReport{}, invalid("a rekey needs two keys, and options with a key are missing")
	}
	next, err := newOptions.build()
	if err != nil {
		return RekeyReport{}, err
	}
	defer freeUnused()
	defer C.esker_options_destroy(next)
	var report *C.esker_rekey_report_t
	err = withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_rekey(path, o, next, &report, message)
	})
	if err != nil || report == nil {
		return RekeyReport{}, err
	}
	defer C.esker_free(unsafe.Pointer(report))
	return RekeyReport{
		From:            C.GoString(&report.from[0]),
		To:              C.GoString(&report.to[0]),
		DataKeys:        uint64(report.data_keys),
		RemovedDataKeys: uint64(report.removed_data_keys),
	}, nil
}
