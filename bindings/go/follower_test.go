// Followers: views, catch-ups, waits and what ends them, promotion after a kill.

package esker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"esker.dev/esker"
)

// longest is longer than any wait of a test on a busy machine.
const longest = 10 * time.Minute

// writerPath is the variable of the environment by which a process of the tests is a writer.
const writerPath = "ESKER_TEST_WRITER"

// writeForEver writes a batch for each line that it gets, and answers each. It ends by a kill.
func writeForEver(path string) {
	options := &esker.Options{}
	if strings.HasSuffix(path, "encrypted") {
		options.Key = rightKey
	}
	db, err := esker.Open(path, options)
	check(err)
	lines := bufio.NewScanner(os.Stdin)
	for number := 0; lines.Scan(); number++ {
		var batch esker.Batch
		key := fmt.Appendf(nil, "k%d", number)
		batch.Put(key, []byte("written"))
		batch.Put([]byte("last"), key)
		check(db.Write(&batch))
		fmt.Println(number)
	}
}

// A writer is a process that writes a batch for each order.
type writer struct {
	process *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
}

func newWriter(t *testing.T, path string) writer {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), writerPath+"="+path)
	process.Stderr = os.Stderr
	orders := ok[io.WriteCloser](t)(process.StdinPipe())
	answers := ok[io.ReadCloser](t)(process.StdoutPipe())
	must(t, process.Start())
	return writer{process, orders, bufio.NewReader(answers)}
}

func (w writer) write(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(w.orders, "write\n")
	must(t, err)
	_, err = w.answers.ReadString('\n')
	must(t, err)
}

func TestFollowerTakesThePlaceOfAKilledWriter(t *testing.T) {
	for _, name := range []string{"plain", "encrypted"} {
		t.Run(name, func(t *testing.T) {
			options := &esker.Options{}
			if name == "encrypted" {
				options.Key = rightKey
			}
			followAndPromote(t, filepath.Join(t.TempDir(), name), options)
		})
	}
}

func followAndPromote(t *testing.T, path string, options *esker.Options) {
	writer := newWriter(t, path)
	writer.write(t)
	follower := ok[*esker.Follower](t)(esker.Follow(path, options))
	first := ok[*esker.DB](t)(follower.DB())
	equal(t, get(t, first, "last"), "k0")
	isKind(t, first.Put([]byte("k"), nil), esker.ErrReadOnly)
	writer.write(t)
	lag := ok[esker.FollowerLag](t)(follower.Lag())
	if lag.Operations != 2 || lag.Newest != lag.Position+2 || lag.Err != nil || lag.Age < 0 {
		t.Fatal(lag)
	}
	equal(t, lag.Position, follower.Position())
	equal(t, ok[uint64](t)(follower.CatchUp(background)), lag.Newest)
	second := ok[*esker.DB](t)(follower.DB())
	equal(t, get(t, second, "last"), "k1")
	equal(t, get(t, first, "last"), "k0")
	equal(t, get(t, first, "k1"), "none")
	ctx, cancel := context.WithTimeout(background, longest)
	defer cancel()
	must(t, follower.WaitFor(ctx, lag.Newest))
	_, err := follower.Promote()
	isKind(t, err, esker.ErrLocked)
	isKind(t, follower.CatchUpEvery(0), esker.ErrInvalidArgument)
	isKind(t, follower.CatchUpEvery(-time.Hour), esker.ErrInvalidArgument)
	must(t, follower.CatchUpEvery(time.Millisecond))
	writer.write(t)
	for follower.Position() < lag.Newest+2 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	third := ok[*esker.DB](t)(follower.DB())
	equal(t, get(t, third, "last"), "k2")
	must(t, writer.process.Process.Kill())
	_ = writer.process.Wait()
	promoted := ok[*esker.DB](t)(follower.Promote())
	equal(t, get(t, promoted, "last"), "k2")
	must(t, promoted.Put([]byte("mine"), []byte("1")))
	must(t, follower.WaitFor(ctx, lag.Newest+3))
	fourth := ok[*esker.DB](t)(follower.DB())
	equal(t, get(t, fourth, "mine"), "1")
	must(t, follower.Close())
	for _, view := range []*esker.DB{first, second, third, fourth} {
		equal(t, get(t, view, "k0"), "written")
		must(t, view.Close())
		_, _, err := view.Get([]byte("k0"))
		isKind(t, err, esker.ErrClosed)
	}
	must(t, promoted.Close())
}

func TestUseAfterCloseOfAFollower(t *testing.T) {
	options := memory(t)
	db := open(t, options)
	must(t, db.Put([]byte("k"), []byte("v")))
	follower := ok[*esker.Follower](t)(esker.Follow("/store", options))
	view := ok[*esker.DB](t)(follower.DB())
	waiting := make(chan error, 1)
	go func() { waiting <- follower.WaitFor(background, 1<<60) }()
	must(t, follower.Close())
	must(t, follower.Close())
	isKind(t, <-waiting, esker.ErrClosed)
	var errs []error
	one := func(_ any, err error) { errs = append(errs, err) }
	one(follower.DB())
	one(follower.CatchUp(background))
	one(follower.Lag())
	one(follower.Promote())
	one(nil, follower.CatchUpEvery(time.Second))
	one(nil, follower.WaitFor(background, 0))
	for _, err := range errs {
		isKind(t, err, esker.ErrClosed)
	}
	equal(t, follower.Position(), 0)
	equal(t, get(t, view, "k"), "v")
	must(t, view.Close())
}

func TestWaitOfAFollowerEndsWithItsContext(t *testing.T) {
	options := memory(t)
	open(t, options)
	follower := ok[*esker.Follower](t)(esker.Follow("/store", options))
	defer follower.Close()
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	if err := follower.WaitFor(ctx, 1<<60); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := follower.CatchUp(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestFollowersCallGoFunctions(t *testing.T) {
	options := memory(t)
	options.Comparator = backwards
	options.MergeOperator = "test.join"
	options.MergeOperators = []*esker.MergeOperator{{Name: "test.join",
		FullMerge: func(_, existing []byte, operands [][]byte) ([]byte, error) {
			joined := append([]byte{}, existing...)
			for _, operand := range operands {
				joined = append(joined, operand...)
			}
			return joined, nil
		}}}
	db := open(t, options)
	follower := ok[*esker.Follower](t)(esker.Follow("/store", options))
	defer follower.Close()
	must(t, follower.CatchUpEvery(time.Millisecond))
	snapshot, position, err := db.SnapshotWithPosition()
	must(t, err)
	must(t, snapshot.Close())
	for _, key := range []string{"a", "b", "c"} {
		must(t, db.Merge([]byte(key), []byte("1")))
		must(t, db.Merge([]byte(key), []byte("2")))
	}
	ctx, cancel := context.WithTimeout(background, longest)
	defer cancel()
	must(t, follower.WaitFor(ctx, position+6))
	view := ok[*esker.DB](t)(follower.DB())
	equal(t, pairs(t, view.Range(nil, nil)), "c=12 b=12 a=12 ")
	must(t, view.Close())
}

func TestWhatIsNoStoreIsNotFollowed(t *testing.T) {
	_, err := esker.Follow(filepath.Join(t.TempDir(), "none"), nil)
	isKind(t, err, esker.ErrNotFound)
	_, err = esker.Follow("a\x00b", nil)
	isKind(t, err, esker.ErrInvalidArgument)
}
