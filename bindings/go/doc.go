// Package esker is an embedded, durable, ordered key-value store: a map from bytes to bytes,
// ordered by key. It calls Esker's C library.
//
//	db, err := esker.Open("/tmp/db", nil)
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	err = db.Put([]byte("apple"), []byte("red"))
//	value, found, err := db.Get([]byte("apple"))
//	for pair, err := range db.Prefix([]byte("a")) {
//		…
//	}
//
// # Crashes
//
// A process kill loses no write with the default durability, buffered. A power failure may lose the
// newest buffered writes, from some write on; it loses no write with Sync. After any crash the store
// has the state after the first n logged writes. A Batch and a Transaction are whole or absent.
//
// # Use by many goroutines
//
// A DB, a Keyspace, a Snapshot, a Follower and a Runtime may be used by many goroutines at once. An Iterator, a
// Transaction and a Batch may be used by one at a time: a second one waits, or gets
// ErrInvalidArgument. Close may be called during other calls. Those that began before it complete;
// later ones fail with ErrClosed.
//
// # Closing
//
// Stores, snapshots, iterators, transactions, change feeds, change writers and appliers, followers,
// comparisons and sorted writers must be closed. They keep versions, files or the lock of the
// directory. If one is collected as garbage without Close, it is freed, and a warning is logged;
// see SetLeakWarning and SetLeakTracking.
//
// # Errors
//
// Every error of a call is an *Error. Its Kind is compared by errors.Is:
//
//	if errors.Is(err, esker.ErrLocked) {
//		…
//	}
//
// # Limits
//
// Keys have at most 1 MiB, values at most 1 GiB. Nil is the same as empty, except for the bounds of
// ranges and iterators, where nil means no bound.
//
// A fork of the process by other means than os/exec leaves a child whose Go runtime does not work;
// that is no different with this package.
package esker
