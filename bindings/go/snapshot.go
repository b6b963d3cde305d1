// Snapshots: the state of a store at one moment.

package esker

/*
#include "shim.h"
*/
import "C"

import "runtime"

// A Snapshot reads the store as of the moment of its creation: the keyspace default by its own
// methods, another one by In. Many goroutines may use it at once. It keeps old versions on disk
// until Close.
type Snapshot struct {
	reader
	guard  *guard
	handle *C.esker_snapshot_t
}

// A View reads one keyspace in a snapshot.
type View struct{ reader }

// Snapshot creates a snapshot of the current state, which must be closed.
func (db *DB) Snapshot() (*Snapshot, error) {
	defer runtime.KeepAlive(db)
	var handle *C.esker_snapshot_t
	var message *C.char
	if err := failed(C.esker_snapshot_create(db.c, &handle, &message), message); err != nil {
		return nil, err
	}
	return db.snapshotOf(handle), nil
}

func (db *DB) snapshotOf(handle *C.esker_snapshot_t) *Snapshot {
	s := &Snapshot{handle: handle}
	s.reader = reader{db: db, c: db.c, snapshot: s, callsGo: db.callsGo}
	s.guard = newGuard("a snapshot", func() { C.esker_snapshot_destroy(handle) }, false, 2)
	runtime.AddCleanup(s, collected, s.guard)
	return s
}

// In returns a view of a keyspace in the snapshot. It needs no Close.
func (s *Snapshot) In(keyspace *Keyspace) *View {
	view := &View{s.reader}
	view.keyspace = keyspace
	return view
}

// Position returns the sequence number of the last operation that the snapshot shows, as in the change
// feed; 0 after Close.
func (s *Snapshot) Position() uint64 {
	if !s.guard.enter() {
		return 0
	}
	defer runtime.KeepAlive(s)
	defer s.guard.leave()
	return uint64(C.esker_snapshot_position(s.handle))
}

// Close frees the snapshot, after the calls that use it. Later calls fail with ErrClosed; iterators
// that were created before go on.
func (s *Snapshot) Close() error {
	s.guard.close()
	return nil
}
