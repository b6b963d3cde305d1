// The functions of the program that the C library calls, through callbacks.c.
//
// Invariants:
//  1. No panic leaves these functions: Go would unwind the frames of the library, which would keep
//     its locks.
//  2. Arguments are slices of the library's memory, valid only during the call.
//  3. Returned memory comes from malloc, and an empty result is not null.

package esker

// #include <stdlib.h>
// #include <stdint.h>
// #include <stddef.h>
// #include "callbacks.h"
import "C"

import (
	"fmt"
	"log"
	"runtime/cgo"
	"unsafe"
)

// view returns the bytes at a place of C. They are never nil.
func view(at unsafe.Pointer, n C.size_t) []byte {
	if at == nil || n == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(at), int(n))
}

// views returns the buffers of an array of C.
func views(starts, lens unsafe.Pointer, count int) [][]byte {
	all := make([][]byte, count)
	if count == 0 {
		return all
	}
	at := unsafe.Slice((*unsafe.Pointer)(starts), count)
	n := unsafe.Slice((*C.size_t)(lens), count)
	for i := range all {
		all[i] = view(at[i], n[i])
	}
	return all
}

// given returns a copy of value from malloc.
func given(value []byte, n *C.size_t) unsafe.Pointer {
	copied := C.malloc(C.size_t(max(len(value), 1)))
	copy(unsafe.Slice((*byte)(copied), max(len(value), 1)), value)
	*n = C.size_t(len(value))
	return copied
}

func functionsOf(state C.uintptr_t) functions {
	return cgo.Handle(state).Value().(functions)
}

// freeUnused frees the states of functions that no store uses any more.
func freeUnused() {
	var list unsafe.Pointer
	for {
		state := C.esker_go_take_unused(&list)
		if state == 0 {
			return
		}
		C.free(unsafe.Pointer(functionsOf(state).name))
		cgo.Handle(state).Delete()
	}
}

//export eskerGoName
func eskerGoName(state C.uintptr_t) *C.char {
	return functionsOf(state).name
}

//export eskerGoCompare
func eskerGoCompare(state C.uintptr_t, a unsafe.Pointer, aLen C.size_t, b unsafe.Pointer,
	bLen C.size_t) C.int {
	x, y := view(a, aLen), view(b, bLen)
	defer func() {
		if p := recover(); p != nil {
			// A store without an order can neither go on nor be left: its locks are held.
			go panic(fmt.Sprintf("esker: the comparator %q panicked: %v",
				functionsOf(state).comparator.Name, p))
			select {}
		}
	}()
	order := functionsOf(state).comparator.Compare(x, y)
	switch {
	case order < 0:
		return -1
	case order > 0:
		return 1
	}
	return 0
}

//export eskerGoFullMerge
func eskerGoFullMerge(state C.uintptr_t, key unsafe.Pointer, keyLen C.size_t,
	existing unsafe.Pointer, existingLen C.size_t, operands, lens unsafe.Pointer, count C.size_t,
	n *C.size_t, reason **C.char) (result *C.uint8_t) {
	defer func() {
		if p := recover(); p != nil {
			*reason, result = C.CString(fmt.Sprintf("the merge operator panicked: %v", p)), nil
		}
	}()
	var old []byte
	if existing != nil {
		old = view(existing, existingLen)
	}
	value, err := functionsOf(state).merge.FullMerge(view(key, keyLen), old,
		views(operands, lens, int(count)))
	if err != nil {
		*reason = C.CString(err.Error())
		return nil
	}
	return (*C.uint8_t)(given(value, n))
}

//export eskerGoPartialMerge
func eskerGoPartialMerge(state C.uintptr_t, key unsafe.Pointer, keyLen C.size_t, operands,
	lens unsafe.Pointer, count C.size_t, n *C.size_t) (result *C.uint8_t) {
	defer func() {
		if recover() != nil {
			result = nil
		}
	}()
	value, ok := functionsOf(state).merge.PartialMerge(view(key, keyLen),
		views(operands, lens, int(count)))
	if !ok {
		return nil
	}
	return (*C.uint8_t)(given(value, n))
}

//export eskerGoFilter
func eskerGoFilter(state C.uintptr_t, level C.size_t, key unsafe.Pointer, keyLen C.size_t,
	value unsafe.Pointer, valueLen C.size_t, replaced **C.uint8_t,
	n *C.size_t) (decision C.int32_t) {
	defer func() {
		if recover() != nil {
			decision = -1
		}
	}()
	answer, other := functionsOf(state).filter.Filter(int(level), view(key, keyLen),
		view(value, valueLen))
	if answer == FilterReplace {
		*replaced = (*C.uint8_t)(given(other, n))
	}
	return C.int32_t(answer)
}

//export eskerGoCreateFilter
func eskerGoCreateFilter(state C.uintptr_t, keys, lens unsafe.Pointer, count C.int,
	n *C.size_t) (result *C.char) {
	defer func() {
		if p := recover(); p != nil {
			go panic(fmt.Sprintf("esker: the filter policy %q panicked: %v",
				functionsOf(state).policy.Name, p))
			select {}
		}
	}()
	filter := functionsOf(state).policy.Create(views(keys, lens, int(count)))
	return (*C.char)(given(filter, n))
}

//export eskerGoMayMatch
func eskerGoMayMatch(state C.uintptr_t, key unsafe.Pointer, keyLen C.size_t, data unsafe.Pointer,
	dataLen C.size_t) (may C.uint8_t) {
	may = 1
	defer func() { _ = recover() }()
	if !functionsOf(state).policy.MayMatch(view(key, keyLen), view(data, dataLen)) {
		may = 0
	}
	return may
}

//export eskerGoListen
func eskerGoListen(state C.uintptr_t, event *C.esker_event_t) {
	defer func() {
		if p := recover(); p != nil {
			log.Printf("esker: a listener panicked: %v", p)
		}
	}()
	functionsOf(state).listener(eventOf(event))
}

// eventOf returns a copy of an event of C.
func eventOf(event *C.esker_event_t) Event {
	e := Event{
		Kind:          EventKind(event.kind),
		Text:          C.GoString(event.text),
		Name:          C.GoString(event.name),
		NewName:       C.GoString(event.new_name),
		Cause:         C.GoString(event.cause),
		Clears:        C.GoString(event.clears),
		Job:           uint64(event.job),
		Tree:          uint64(event.tree),
		Level:         int(event.level),
		OutputLevel:   int(event.output_level),
		Number:        uint64(event.number),
		Tables:        uint64(event.tables),
		Inputs:        uint64(event.inputs),
		Compactions:   uint64(event.compactions),
		Logs:          uint64(event.logs),
		Bytes:         uint64(event.bytes),
		MemoryBytes:   uint64(event.memory_bytes),
		ReadBytes:     uint64(event.read_bytes),
		WrittenBytes:  uint64(event.written_bytes),
		Duration:      durationOf(event.duration_ns),
		ReadOnly:      event.read_only != 0,
		ClosedCleanly: event.is_closed_cleanly != 0,
		Stopped:       event.is_stopped != 0,
	}
	if event.error_code != C.ESKER_OK {
		e.Err = &Error{Kind: Kind(event.error_code), Message: C.GoString(event.error)}
	}
	return e
}

//export eskerGoNow
func eskerGoNow(state C.uintptr_t) C.uint64_t {
	defer func() {
		if p := recover(); p != nil {
			// A wrong time would remove pairs, or return those that have expired.
			go panic(fmt.Sprintf("esker: the clock panicked: %v", p))
			select {}
		}
	}()
	return C.uint64_t(max(functionsOf(state).clock().UnixMilli(), 0))
}

//export eskerGoVisitName
func eskerGoVisitName(state C.uintptr_t, text unsafe.Pointer, n C.size_t) {
	names := cgo.Handle(state).Value().(*[]string)
	*names = append(*names, string(view(text, n)))
}

//export eskerGoVisitBackup
func eskerGoVisitBackup(state C.uintptr_t, backup *C.esker_backup_info_t) {
	backups := cgo.Handle(state).Value().(*[]BackupInfo)
	// C.GoString of a null pointer is an empty text.
	info := BackupInfo{
		Number:    uint64(backup.number),
		Path:      C.GoString(backup.path),
		Tables:    uint64(backup.tables),
		SizeBytes: uint64(backup.table_bytes),
		StoreID:   uint64(backup.store_id),
		StorePath: C.GoString(backup.store_path),
		Problem:   C.GoString(backup.problem),
	}
	if backup.created_ms >= 0 {
		info.Created = timeOfMs(uint64(backup.created_ms))
	}
	*backups = append(*backups, info)
}
