// Events: what a store tells the program's listeners.

package esker

/*
#include "shim.h"
*/
import "C"

import "time"

// An EventKind is a kind of event. The fields of Event that a kind does not name are zero.
type EventKind int32

// The kinds of events.
const (
	// EventOther has no kind in this version of the package. Its text describes it.
	EventOther EventKind = C.ESKER_EVENT_OTHER
	// EventOpened: the store was opened. ReadOnly, ClosedCleanly, Tables, Bytes (of tables), Logs,
	// Duration.
	EventOpened EventKind = C.ESKER_EVENT_OPENED
	// EventRecoveryNote: the opening found that a crash had lost something. Cause.
	EventRecoveryNote EventKind = C.ESKER_EVENT_RECOVERY_NOTE
	// EventFlushBegan: a flush of memtables began. Job, MemoryBytes.
	EventFlushBegan EventKind = C.ESKER_EVENT_FLUSH_BEGAN
	// EventFlushEnded: a flush ended. Job, MemoryBytes, Tables, WrittenBytes, Duration; Err if it
	// failed.
	EventFlushEnded EventKind = C.ESKER_EVENT_FLUSH_ENDED
	// EventCompactionBegan: a compaction began. Job, Tree, Level, OutputLevel, Inputs, ReadBytes
	// (estimated), Cause.
	EventCompactionBegan EventKind = C.ESKER_EVENT_COMPACTION_BEGAN
	// EventCompactionEnded: a compaction ended. Job, Tree, Level, OutputLevel, ReadBytes,
	// WrittenBytes, Tables, Duration, Cause; Err if it failed, which is ErrClosed if it was stopped
	// for other work or by Close.
	EventCompactionEnded EventKind = C.ESKER_EVENT_COMPACTION_ENDED
	// EventRestEnded: a store at rest stopped merging. Compactions, WrittenBytes, Duration, Cause.
	EventRestEnded EventKind = C.ESKER_EVENT_REST_ENDED
	// EventStallBegan: a write stall began. Cause, Bytes (that have to be written to tables), Clears,
	// Stopped.
	EventStallBegan EventKind = C.ESKER_EVENT_STALL_BEGAN
	// EventStallEnded: a write stall ended. Cause, Bytes, Clears, Stopped, Duration.
	EventStallEnded EventKind = C.ESKER_EVENT_STALL_ENDED
	// EventTableCreated: a table file became part of the store. Tree, Level, Number, Bytes.
	EventTableCreated EventKind = C.ESKER_EVENT_TABLE_CREATED
	// EventTableRemoved: an obsolete table file was removed. Number.
	EventTableRemoved EventKind = C.ESKER_EVENT_TABLE_REMOVED
	// EventBackgroundError: a job or a write failed. Name (of the job), Err.
	EventBackgroundError EventKind = C.ESKER_EVENT_BACKGROUND_ERROR
	// EventScrubProblem: the scrub found damage. Err.
	EventScrubProblem EventKind = C.ESKER_EVENT_SCRUB_PROBLEM
	// EventKeyspaceCreated: a keyspace was created. Number, Name.
	EventKeyspaceCreated EventKind = C.ESKER_EVENT_KEYSPACE_CREATED
	// EventKeyspaceRenamed: a keyspace was renamed. Number, Name, NewName.
	EventKeyspaceRenamed EventKind = C.ESKER_EVENT_KEYSPACE_RENAMED
	// EventKeyspaceDropped: a keyspace was dropped. Number, Name.
	EventKeyspaceDropped EventKind = C.ESKER_EVENT_KEYSPACE_DROPPED
	// EventClosed: the store is being closed; the last event. Err if that failed.
	EventClosed EventKind = C.ESKER_EVENT_CLOSED
	// EventSlotDropped: a slot of the change feed keeps no logs any more. Name, Cause.
	EventSlotDropped EventKind = C.ESKER_EVENT_SLOT_DROPPED
)

// An Event is an event of a store. Its kind tells which fields it has. It may be kept.
type Event struct {
	// Kind is what happened.
	Kind EventKind
	// Text is the event as one sentence. It is never empty.
	Text string
	// Err is the failure, an *Error, or nil.
	Err error
	// Name is the name of a keyspace, of a slot or of a job, NewName the new name of a keyspace.
	Name, NewName string
	// Cause is why it happened, Clears what ends a stall.
	Cause, Clears string
	// Job is the number of a flush or compaction, unique in this opening of the store.
	Job uint64
	// Tree is the tree of the tables; tree 0 holds the keyspace default.
	Tree uint64
	// Level is the level of a table, or the uppermost level of inputs, OutputLevel that of the output.
	Level, OutputLevel int
	// Number is the number of a table file or of a keyspace.
	Number uint64
	// Numbers of tables, inputs of a compaction, compactions, and logs that were read.
	Tables, Inputs, Compactions, Logs uint64
	// Bytes are bytes as the kind tells, MemoryBytes those of memtables.
	Bytes, MemoryBytes uint64
	// ReadBytes and WrittenBytes are what the job read and wrote.
	ReadBytes, WrittenBytes uint64
	Duration                time.Duration
	// ReadOnly says that the store was opened for reading only.
	ReadOnly bool
	// ClosedCleanly says that the store was closed before it was opened, and not ended by a crash.
	ClosedCleanly bool
	// Stopped says that writes wait until the cause of a stall is gone. If it is false, each write is
	// only slowed.
	Stopped bool
}

// A Listener receives the events of a store, one at a time, in their order, soon after they
// happened, on a thread of the store or in a call of the store. It must return soon: it delays the
// work of that thread. The store's methods fail within it with ErrInvalidArgument. Another goroutine
// may use the store meanwhile, but the listener must not wait for it. A panic of it is logged, and
// the store goes on.
//
// Of more than 4,096 events that wait, further ones are dropped and counted in the metric
// events_lost. A crash loses events that were not delivered.
type Listener func(Event)
