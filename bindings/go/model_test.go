// Random calls on a store, its keyspaces, snapshots, iterators and transactions, compared with maps.

package esker_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"esker.dev/esker"
)

// content is the model of a keyspace.
type content map[string]string

func (c content) keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (c content) deleteRange(start, end string) {
	for key := range c {
		if start <= key && key < end {
			delete(c, key)
		}
	}
}

func (c content) clone() content {
	other := content{}
	for key, value := range c {
		other[key] = value
	}
	return other
}

// readable is what a store, a keyspace, a view and a transaction have.
type readable interface {
	Get([]byte) ([]byte, bool, error)
	GetInto(dst, key []byte) ([]byte, bool, error)
	Iterator(*esker.IterOptions) (*esker.Iterator, error)
}

// machine is a store and its model.
type machine struct {
	t         *testing.T
	random    *rand.Rand
	options   *esker.Options
	db        *esker.DB
	names     []string
	keyspaces []*esker.Keyspace // the first is nil, for the keyspace default
	model     []content
	log       []string
}

func (m *machine) key() []byte {
	key := make([]byte, m.random.IntN(4))
	for i := range key {
		key[i] = "\x00ab\xff"[m.random.IntN(4)]
	}
	if m.random.IntN(20) == 0 {
		key = append(key, bytes.Repeat([]byte("k"), 3000)...)
	}
	return key
}

func (m *machine) value() []byte {
	size := []int{0, 1, 10, 100, 511, 512, 513, 5000, 80_000}[m.random.IntN(9)]
	return bytes.Repeat([]byte{byte(m.random.Uint32())}, size)
}

func (m *machine) fatal(format string, arguments ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nthe last calls: %v", fmt.Sprintf(format, arguments...),
		m.log[max(0, len(m.log)-20):])
}

func (m *machine) must(err error) {
	if err != nil {
		m.fatal("%v", err)
	}
}

// space returns keyspace number i for reads.
func (m *machine) space(i int) readable {
	if i == 0 {
		return m.db
	}
	return m.keyspaces[i]
}

func (m *machine) open() {
	db, err := esker.Open("/store", m.options)
	m.must(err)
	m.db = db
	for i, name := range m.names[1:] {
		m.keyspaces[i+1], err = db.Keyspace(name, nil)
		m.must(err)
	}
}

// checkGet compares one key.
func (m *machine) checkGet(from readable, model content, key []byte) {
	expected, there := model[string(key)]
	value, found, err := from.Get(key)
	m.must(err)
	if found != there || string(value) != expected {
		m.fatal("get of %q: %v, expected %v", key, found, there)
	}
	room := make([]byte, m.random.IntN(600))
	value, found, err = from.GetInto(room, key)
	m.must(err)
	if found != there || string(value) != expected {
		m.fatal("get of %q into %d bytes: %v, expected %v", key, cap(room), found, there)
	}
}

// checkMoves makes random moves of an iterator.
func (m *machine) checkMoves(from readable, model content, moves int) {
	start, end := m.key(), m.key()
	options := &esker.IterOptions{Start: start, End: end, NoCache: m.random.IntN(2) == 0}
	if m.random.IntN(3) == 0 {
		options.Start, start = nil, nil
	}
	if m.random.IntN(3) == 0 {
		options.End = nil
	}
	var keys []string
	for _, key := range model.keys() {
		if key >= string(start) && (options.End == nil || key < string(end)) {
			keys = append(keys, key)
		}
	}
	it, err := from.Iterator(options)
	m.must(err)
	defer it.Close()
	at, valid := 0, false
	for range moves {
		target := m.key()
		move := m.random.IntN(12)
		switch move {
		case 0:
			it.First()
			at, valid = 0, len(keys) > 0
		case 1:
			it.Last()
			at, valid = len(keys)-1, len(keys) > 0
		case 2:
			it.Seek(target)
			at, _ = slices.BinarySearch(keys, string(target))
			valid = at < len(keys)
		case 3:
			it.SeekForPrev(target)
			var exact bool
			if at, exact = slices.BinarySearch(keys, string(target)); !exact {
				at--
			}
			valid = at >= 0
		case 4, 5, 6, 7, 8:
			it.Next()
			if valid {
				at++
				valid = at < len(keys)
			}
		default:
			it.Prev()
			if valid {
				at--
				valid = at >= 0
			}
		}
		m.must(it.Err())
		if it.Valid() != valid || valid && (string(it.Key()) != keys[at] ||
			string(it.Value()) != model[keys[at]]) {
			m.fatal("move %d of an iterator to %q: at %q %v, expected %d of %q", move, target,
				it.Key(), it.Valid(), at, keys)
		}
	}
}

// write makes random changes, by single calls or by a batch.
func (m *machine) write() {
	var batch esker.Batch
	single := m.random.IntN(2) == 0
	for range 1 + m.random.IntN(12) {
		i := m.random.IntN(len(m.model))
		key, value, end := m.key(), m.value(), m.key()
		kind := m.random.IntN(5)
		m.log = append(m.log, fmt.Sprintf("%v %d %d %.9q %.9q", single, kind, i, key, end))
		switch kind {
		case 0, 1, 2:
			m.model[i][string(key)] = string(value)
			if !single {
				batch.PutIn(m.keyspaces[i], key, value)
			} else if i == 0 {
				m.must(m.db.Put(key, value))
			} else {
				m.must(m.keyspaces[i].Put(key, value))
			}
		case 3:
			delete(m.model[i], string(key))
			if !single {
				batch.DeleteIn(m.keyspaces[i], key)
			} else if i == 0 {
				m.must(m.db.Delete(key))
			} else {
				m.must(m.keyspaces[i].Delete(key))
			}
		default:
			if bytes.Compare(key, end) > 0 {
				key, end = end, key
			}
			m.model[i].deleteRange(string(key), string(end))
			if !single {
				batch.DeleteRangeIn(m.keyspaces[i], key, end)
			} else if i == 0 {
				m.must(m.db.DeleteRange(key, end))
			} else {
				m.must(m.keyspaces[i].DeleteRange(key, end))
			}
		}
	}
	m.must(m.db.Write(&batch))
}

// transact makes changes in a transaction, reads them in it, and ends it.
func (m *machine) transact() {
	options := &esker.TransactionOptions{Isolation: esker.Isolation(m.random.IntN(2)),
		Concurrency: esker.Concurrency(m.random.IntN(2))}
	transaction, err := m.db.Begin(options)
	m.must(err)
	i := m.random.IntN(len(m.model))
	part := transaction.In(m.keyspaces[i])
	model := m.model[i].clone()
	var saved []content
	for range m.random.IntN(15) {
		key, end := m.key(), m.key()
		switch m.random.IntN(7) {
		case 0, 1:
			value := m.value()
			m.must(part.Put(key, value))
			model[string(key)] = string(value)
		case 2:
			m.must(part.Delete(key))
			delete(model, string(key))
		case 3:
			if bytes.Compare(key, end) > 0 {
				key, end = end, key
			}
			m.must(part.DeleteRange(key, end))
			model.deleteRange(string(key), string(end))
		case 4:
			m.must(transaction.Savepoint())
			saved = append(saved, model.clone())
		case 5:
			err := transaction.RollbackToSavepoint()
			if len(saved) == 0 {
				isKind(m.t, err, esker.ErrNotFound)
				continue
			}
			m.must(err)
			model, saved = saved[len(saved)-1], saved[:len(saved)-1]
		default:
			m.checkGet(part, model, key)
			m.checkMoves(part, model, 5)
		}
	}
	m.checkMoves(part, model, 20)
	if m.random.IntN(3) == 0 {
		m.must(transaction.Close())
		return
	}
	m.must(transaction.Commit())
	m.model[i] = model
}

// step makes one random call.
func (m *machine) step() {
	i := m.random.IntN(len(m.model))
	switch m.random.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		m.write()
	case 6, 7, 8:
		m.checkGet(m.space(i), m.model[i], m.key())
	case 9, 10, 11:
		m.checkMoves(m.space(i), m.model[i], 30)
	case 12, 13, 14:
		m.transact()
	case 15:
		m.must(m.db.Flush(background))
	case 16:
		m.checkScan(i)
	case 17:
		snapshot, err := m.db.Snapshot()
		m.must(err)
		before := m.model[i].clone()
		m.write()
		view := snapshot.In(m.keyspaces[i])
		m.checkGet(view, before, m.key())
		m.checkMoves(view, before, 20)
		m.must(snapshot.Close())
	case 18:
		m.must(m.db.CompactRange(background, nil, nil))
	default:
		m.must(m.db.Close())
		if _, _, err := m.space(i).Get(nil); !errors.Is(err, esker.ErrClosed) {
			m.fatal("a closed store was read: %v", err)
		}
		m.open()
	}
}

// checkScan compares all pairs.
func (m *machine) checkScan(i int) {
	keys := m.model[i].keys()
	loop := m.db.Range(nil, nil)
	if i > 0 {
		loop = m.keyspaces[i].Range(nil, nil)
	}
	for pair, err := range loop {
		m.must(err)
		if len(keys) == 0 || string(pair.Key) != keys[0] ||
			string(pair.Value) != m.model[i][keys[0]] {
			m.fatal("a scan found %.30q, expected %.100q", pair.Key, keys)
		}
		keys = keys[1:]
	}
	if len(keys) > 0 {
		m.fatal("a scan missed %.100q", keys)
	}
}

// Set ESKER_STEPS and ESKER_SEED for longer runs and other ones.
func TestRandomCalls(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		if value, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return value
		}
		return otherwise
	}
	steps, seed := number("ESKER_STEPS", 600), number("ESKER_SEED", rand.Uint64())
	t.Logf("ESKER_SEED=%d", seed)
	m := &machine{t: t, random: rand.New(rand.NewPCG(seed, 38)), options: memory(t),
		names: []string{"default", "one", "two"}}
	m.options.Settings = map[string]string{"memtable_size_bytes": "1MiB"}
	m.keyspaces = make([]*esker.Keyspace, len(m.names))
	for range m.names {
		m.model = append(m.model, content{})
	}
	m.open()
	defer func() { _ = m.db.Close() }()
	for range steps {
		m.step()
	}
	for i := range m.model {
		m.checkScan(i)
	}
}
