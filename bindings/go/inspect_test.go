package esker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"esker.dev/esker"
)

func TestStreamedValues(t *testing.T) {
	db := newStore(t)
	own := ok[*esker.Keyspace](t)(db.Keyspace("own", nil))
	film := bytes.Repeat([]byte("film"), 1<<19)
	equal(t, ok[uint64](t)(db.PutReader([]byte("k"), bytes.NewReader(film))), uint64(len(film)))
	equal(t, ok[uint64](t)(own.PutReader([]byte("k"), strings.NewReader("short"))), 5)
	equal(t, get(t, own, "k"), "short")
	reader, found, err := db.GetReader([]byte("k"))
	must(t, err)
	equal(t, found && reader.Size() == int64(len(film)), true)
	equal(t, bytes.Equal(ok[[]byte](t)(io.ReadAll(reader)), film), true)
	end := make([]byte, 10)
	count, err := reader.ReadAt(end, reader.Size()-3)
	equal(t, count == 3 && err == io.EOF && string(end[:3]) == "ilm", true)
	_, err = reader.ReadAt(end, -1)
	isKind(t, err, esker.ErrInvalidArgument)
	must(t, reader.Close())
	must(t, reader.Close())
	_, err = reader.Read(end)
	isKind(t, err, esker.ErrClosed)
	_, found, err = own.GetReader([]byte("none"))
	equal(t, found || err != nil, false)

	// A source that fails or panics changes nothing.
	planted := errors.New("planted")
	_, err = db.PutReader([]byte("late"), io.MultiReader(strings.NewReader("x"), failing{planted}))
	equal(t, errors.Is(err, planted), true)
	func() {
		defer func() { equal(t, recover() == "planted", true) }()
		_, _ = db.PutReader([]byte("late"), failing{nil})
	}()
	_, err = db.PutReader([]byte("late"), nil)
	isKind(t, err, esker.ErrInvalidArgument)
	equal(t, get(t, db, "late"), "none")
}

// failing is a reader that fails, or panics without an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		panic("planted")
	}
	return 0, f.err
}

func TestTablesMetricsAndOptions(t *testing.T) {
	db := newStore(t)
	own := ok[*esker.Keyspace](t)(db.Keyspace("own", &esker.KeyspaceOptions{
		KeyOrder: "esker.reverse", Settings: map[string]string{"policy": "leveled"}}))
	equal(t, own.KeyOrder() == "esker.reverse" && own.OwnOptions()["policy"] == "leveled", true)
	equal(t, own.Tree() > 0, true)
	for _, key := range []string{"a", "b"} {
		must(t, db.Put([]byte(key), []byte("1")))
		must(t, own.Put([]byte(key), bytes.Repeat([]byte("v"), 1000)))
	}
	snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
	equal(t, snapshot.Position(), 4)
	must(t, db.Delete([]byte("a")))
	value, _, found, err := snapshot.GetWithExpiry([]byte("a"))
	equal(t, err == nil && found && string(value) == "1", true)
	must(t, snapshot.Close())
	equal(t, snapshot.Position(), 0)
	must(t, db.Flush(context.Background()))
	tables := ok[[]esker.Table](t)(db.Tables())
	equal(t, len(tables) >= 2 && tables[0].Entries > 0 && len(tables[0].Smallest) > 0, true)
	equal(t, ok[uint64](t)(db.LevelMetric(tables[0].Level, "levels.bytes")) > 0, true)
	equal(t, ok[uint64](t)(db.Metric("user_ops")), 5)
	_, err = db.Metric("none")
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = db.LevelMetric(-1, "levels.bytes")
	isKind(t, err, esker.ErrInvalidArgument)
	equal(t, ok[uint64](t)(own.ApproximateSize([]byte("z"), nil)) > 0, true)
	equal(t, ok[uint64](t)(own.ApproximateSize(nil, []byte("z"))), 0)
	must(t, db.CompactAll(context.Background()))
	must(t, db.SetOptions(map[string]string{"policy": "leveled", "fan_out": "7"}))
	isKind(t, db.SetOptions(map[string]string{"fan_out": "9", "none": "1"}),
		esker.ErrInvalidArgument)
	fanOut, _ := db.Property("esker.option.fan_out")
	equal(t, fanOut, "7")
	equal(t, strings.HasPrefix(ok[string](t)(db.Path()), "/"), true)
	infos := ok[[]esker.OptionInfo](t)(esker.OptionInfos())
	known := 0
	for _, info := range infos {
		if defaultValue, found := esker.SettingDefault(info.Name); found && defaultValue == info.Default {
			known++
		}
	}
	equal(t, known == len(infos) && known > 30, true)
}

func TestKeyOrderByName(t *testing.T) {
	options := &esker.Options{Memory: esker.NewMemory(), KeyOrder: "esker.reverse"}
	db := ok[*esker.DB](t)(esker.Open("/down", options))
	must(t, db.Put([]byte("a"), nil))
	must(t, db.Put([]byte("b"), nil))
	var keys string
	for pair, err := range db.Range(nil, nil) {
		must(t, err)
		keys += string(pair.Key)
	}
	equal(t, keys, "ba")
	must(t, db.Close())
	options.KeyOrder = "test.unknown"
	_, err := esker.Open("/down", options)
	isKind(t, err, esker.ErrInvalidArgument)
	options.Comparator = &esker.Comparator{Name: "test.order", Compare: bytes.Compare}
	_, err = esker.Open("/down", options)
	isKind(t, err, esker.ErrInvalidArgument)
}
