// Command porcupine judges a history of plain operations: is each key a linearizable register?
//
// It reads lines of KEY PROCESS CALL END OUTCOME KIND NUMBER EXPIRES from the file that it is given:
//
//	OUTCOME  o: the store acknowledged the operation; u: it took effect between CALL and END, or never
//	KIND     put, get, delete, remove, expire
//	NUMBER   what was put or found, 0 for a missing key; for remove, 1 if the key existed; for expire,
//	         the session that begins: it ends each pair whose EXPIRES is not above it
//	EXPIRES  the session at whose begin a put pair ends, 0 for none
//
// It prints a sentence. The exit code is 0 for a linearizable history, 1 for one that is not or whose
// check took too long, and 2 if the history cannot be read.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Maximum time for the check of one key.
const keyTimeout = 5 * time.Minute

type kind uint8

const (
	put kind = iota
	get
	remove
	expire
)

// The input of an operation. A delete is a put of 0.
type input struct {
	kind    kind
	number  int64
	expires int64
	unknown bool
}

// The number that a key holds, 0 for a missing key, and the session at whose begin it ends, if not 0.
type pair struct {
	number  int64
	expires int64
}

// A step returns every state that can follow. A state is a pair.
func step(state, in, out interface{}) []interface{} {
	held, op, found := state.(pair), in.(input), out.(int64)
	switch op.kind {
	case get:
		if held.number == found {
			return []interface{}{held}
		}
	case put:
		next := pair{op.number, op.expires}
		if op.unknown && held != next {
			return []interface{}{held, next}
		}
		return []interface{}{next}
	case remove:
		if op.unknown && held.number != 0 {
			return []interface{}{held, pair{}}
		}
		if op.unknown || (held.number != 0) == (found == 1) {
			return []interface{}{pair{}}
		}
	case expire:
		if held.expires != 0 && held.expires <= op.number {
			return []interface{}{pair{}}
		}
		return []interface{}{held}
	}
	return nil
}

var register = porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{pair{}} },
	Step: step,
}

func parse(line string) (string, porcupine.Operation, error) {
	none := porcupine.Operation{}
	words := strings.Fields(line)
	if len(words) != 8 {
		return "", none, fmt.Errorf("expected 8 words, found %d", len(words))
	}
	var numbers [5]int64
	for at, word := range []string{words[1], words[2], words[3], words[6], words[7]} {
		number, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return "", none, err
		}
		numbers[at] = number
	}
	in := input{number: numbers[3], expires: numbers[4], unknown: words[4] == "u"}
	switch words[5] {
	case "put":
		in.kind = put
	case "get":
		in.kind = get
	case "delete":
		in.kind, in.number = put, 0
	case "remove":
		in.kind = remove
	case "expire":
		in.kind = expire
	default:
		return "", none, fmt.Errorf("unknown operation %q", words[5])
	}
	if words[4] != "u" && words[4] != "o" {
		return "", none, fmt.Errorf("unknown outcome %q", words[4])
	}
	return words[0], porcupine.Operation{
		ClientId: int(numbers[0]), Input: in, Call: numbers[1], Output: numbers[3], Return: numbers[2],
	}, nil
}

func read(path string) (map[string][]porcupine.Operation, int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	keys := make(map[string][]porcupine.Operation)
	lines := bufio.NewScanner(file)
	count := 0
	for lines.Scan() {
		key, operation, err := parse(lines.Text())
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", count+1, err)
		}
		keys[key] = append(keys[key], operation)
		count++
	}
	return keys, count, lines.Err()
}

// The operations of a key around the place where no order could be continued.
func excerpt(operations []porcupine.Operation, info porcupine.LinearizationInfo) string {
	longest := 0
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > longest {
				longest = len(order)
			}
		}
	}
	sort.Slice(operations, func(i, j int) bool { return operations[i].Call < operations[j].Call })
	first, last := longest-8, longest+8
	if first < 0 {
		first = 0
	}
	if last > len(operations) {
		last = len(operations)
	}
	var text strings.Builder
	for _, op := range operations[first:last] {
		in := op.Input.(input)
		word := [...]string{"put", "get", "remove", "expire"}[in.kind]
		fmt.Fprintf(&text, "\n  process %d, %d to %d: %s %d", op.ClientId, op.Call, op.Return, word,
			op.Output)
		if in.unknown {
			text.WriteString(", outcome unknown")
		}
	}
	return text.String()
}

// Judges the keys with as many workers as there are processors. Returns what was found.
func judge(keys map[string][]porcupine.Operation) []string {
	names := make(chan string)
	go func() {
		for name := range keys {
			names <- name
		}
		close(names)
	}()
	model := register.ToModel()
	var findings []string
	var lock sync.Mutex
	var workers sync.WaitGroup
	for i := 0; i < runtime.GOMAXPROCS(0); i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for name := range names {
				operations := keys[name]
				result := porcupine.CheckOperationsTimeout(model, operations, keyTimeout)
				if result == porcupine.Ok {
					continue
				}
				finding := fmt.Sprintf("unknown: key %s: the check took too long", name)
				if result == porcupine.Illegal {
					_, info := porcupine.CheckOperationsVerbose(model, operations, keyTimeout)
					finding = fmt.Sprintf("not linearizable: key %s, %d operations:%s", name,
						len(operations), excerpt(operations, info))
				}
				lock.Lock()
				findings = append(findings, finding)
				lock.Unlock()
			}
		}()
	}
	workers.Wait()
	sort.Strings(findings)
	return findings
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: porcupine HISTORY")
		os.Exit(2)
	}
	keys, count, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(2)
	}
	findings := judge(keys)
	if len(findings) == 0 {
		fmt.Printf("linearizable: %d keys, %d operations\n", len(keys), count)
		return
	}
	for at, finding := range findings {
		if at == 3 {
			fmt.Printf("and %d more\n", len(findings)-at)
			break
		}
		fmt.Println(finding)
	}
	os.Exit(1)
}
