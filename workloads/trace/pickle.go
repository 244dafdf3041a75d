package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/bounded"
)

// This file reads the part of Python's pickle (protocol 2) that torch.save uses. It executes no calls of a pickle: a
// call that rebuilds a tensor gives a `tensor`, and any other call gives `opaque`.
//
// We do not use github.com/nlpodyssey/gopickle v0.2.0: it allocates the length that a file claims
// for a string.

type (
	pdict  struct{ keys, values []any }
	plist  struct{ items []any } // list or tuple
	global struct{ name string }
	opaque struct{}
	mark   struct{}
)

// tensor is a view of a storage (torch._utils._rebuild_tensor_v2).
type tensor struct {
	class, key    string // of the storage
	offset        int64  // in elements
	shape, stride []int
}

// contiguous reports whether a tensor is in row-major order without gaps. An axis with one element may have any stride.
func (t *tensor) contiguous() bool {
	want := 1
	for i := len(t.shape) - 1; i >= 0; i-- {
		if t.shape[i] > 1 && (i >= len(t.stride) || t.stride[i] != want) {
			return false
		}
		want *= max(t.shape[i], 1)
	}
	return true
}

var errPickle = errors.New("malformed pickle")

type machine struct {
	in    []byte
	cost  *bounded.Budget
	stack []any
	memo  map[uint32]any
}

// unpickle decodes a pickle. A malformed pickle gives errPickle.
func unpickle(in []byte, cost *bounded.Budget) (v any, err error) {
	m := &machine{in: in, cost: cost, memo: map[uint32]any{}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case tooMuch:
			v, err = nil, r.error
		default:
			v, err = nil, errPickle
		}
	}()
	for {
		op := m.take(1)[0]
		if op == '.' {
			return m.pop(), nil
		}
		f, ok := opcodes[op]
		if !ok {
			return nil, fmt.Errorf("%w: opcode %#x is not read", errPickle, op)
		}
		f(m)
	}
}

func (m *machine) take(n int) []byte {
	b := m.in[:n]
	m.in = m.in[n:]
	return b
}

func (m *machine) line() string {
	for i, c := range m.in {
		if c == '\n' {
			return string(m.take(i + 1)[:i])
		}
	}
	panic(errPickle)
}

type tooMuch struct{ error }

func (m *machine) hold(bytes int) {
	if err := m.cost.Allocate("values", int64(bytes)); err != nil {
		panic(tooMuch{err})
	}
}

// push puts a value on the stack, and charges the memory budget for it.
func (m *machine) push(v any) {
	m.hold(bounded.ObjectBytes)
	m.stack = append(m.stack, v)
}

func (m *machine) remember(key uint32) {
	m.hold(bounded.ObjectBytes)
	m.memo[key] = m.top()
}

func (m *machine) pop() any {
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v
}

func (m *machine) top() any { return m.stack[len(m.stack)-1] }

func (m *machine) popMark() []any {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			m.hold(16 * len(m.stack[i+1:]))
			items := append([]any(nil), m.stack[i+1:]...)
			m.stack = m.stack[:i]
			return items
		}
	}
	panic(errPickle)
}

func (m *machine) u32() uint32 { return binary.LittleEndian.Uint32(m.take(4)) }

// opcodes holds the opcodes of protocol 2, and some of protocol 4.
var opcodes map[byte]func(m *machine)

func init() {
	opcodes = map[byte]func(m *machine){
		0x80: func(m *machine) { m.take(1) }, // PROTO
		0x95: func(m *machine) { m.take(8) }, // FRAME
		'(':  func(m *machine) { m.push(mark{}) },
		'}':  func(m *machine) { m.push(&pdict{}) },
		']':  func(m *machine) { m.push(&plist{}) },
		')':  func(m *machine) { m.push(&plist{}) },
		't':  func(m *machine) { m.push(&plist{m.popMark()}) },
		0x85: func(m *machine) { m.tuple(1) },
		0x86: func(m *machine) { m.tuple(2) },
		0x87: func(m *machine) { m.tuple(3) },
		'N':  func(m *machine) { m.push(nil) },
		0x88: func(m *machine) { m.push(true) },
		0x89: func(m *machine) { m.push(false) },
		'K':  func(m *machine) { m.push(int64(m.take(1)[0])) },
		'M':  func(m *machine) { m.push(int64(binary.LittleEndian.Uint16(m.take(2)))) },
		'J':  func(m *machine) { m.push(int64(int32(m.u32()))) },
		0x8a: func(m *machine) { m.long() },
		'G':  func(m *machine) { m.push(math.Float64frombits(binary.BigEndian.Uint64(m.take(8)))) },
		'X':  func(m *machine) { m.text(int(m.u32())) },
		0x8c: func(m *machine) { m.text(int(m.take(1)[0])) },
		'q':  func(m *machine) { m.remember(uint32(m.take(1)[0])) },
		'r':  func(m *machine) { m.remember(m.u32()) },
		0x94: func(m *machine) { m.remember(uint32(len(m.memo))) },
		'h':  func(m *machine) { m.recall(uint32(m.take(1)[0])) },
		'j':  func(m *machine) { m.recall(m.u32()) },
		's':  func(m *machine) { value := m.pop(); m.setItems([]any{m.pop(), value}) },
		'u':  func(m *machine) { m.setItems(m.popMark()) },
		'a':  func(m *machine) { m.extend([]any{m.pop()}) },
		'e':  func(m *machine) { m.extend(m.popMark()) },
		'c':  func(m *machine) { module := m.line(); m.push(global{module + "." + m.line()}) },
		0x93: func(m *machine) { name := m.pop().(string); m.push(global{m.pop().(string) + "." + name}) },
		'Q':  func(m *machine) {}, // the persistent id stays on the stack, in place of the storage that it names
		'R':  func(m *machine) { args := m.pop().(*plist); m.call(m.pop(), args.items) },
		0x81: func(m *machine) { m.pop(); m.pop(); m.push(opaque{}) }, // NEWOBJ
		'b':  func(m *machine) { m.pop() },                            // BUILD
	}
}

func (m *machine) text(n int) {
	b := m.take(n)
	m.hold(n)
	m.push(string(b))
}

func (m *machine) tuple(n int) {
	items := append([]any(nil), m.stack[len(m.stack)-n:]...)
	m.stack = append(m.stack[:len(m.stack)-n], &plist{items})
}

func (m *machine) long() {
	b := m.take(int(m.take(1)[0]))
	if len(b) > 8 {
		panic(errPickle)
	}
	v := int64(0)
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | int64(b[i])
	}
	if n := 8 * len(b); n > 0 {
		v = v << (64 - n) >> (64 - n)
	}
	m.push(v)
}

func (m *machine) recall(key uint32) {
	v, ok := m.memo[key]
	if !ok {
		panic(errPickle)
	}
	m.push(v)
}

func (m *machine) setItems(kv []any) {
	d, ok := m.top().(*pdict)
	m.hold(4 * 16 * len(kv)) // keys and values: append may double the memory of each
	for i := 0; ok && i < len(kv); i += 2 {
		d.keys, d.values = append(d.keys, kv[i]), append(d.values, kv[i+1])
	}
}

func (m *machine) extend(items []any) {
	m.hold(2 * 16 * len(items))
	if l, ok := m.top().(*plist); ok {
		l.items = append(l.items, items...)
	}
}

func (m *machine) call(f any, args []any) {
	g, _ := f.(global)
	switch g.name {
	case "collections.OrderedDict":
		m.push(&pdict{})
	case "torch._utils._rebuild_tensor_v2":
		storage := args[0].(*plist).items // 'storage', class, key, device, elements
		class := storage[1].(global).name
		m.push(&tensor{
			class: class[len("torch."):], key: storage[2].(string), offset: args[1].(int64),
			shape: ints(args[2]), stride: ints(args[3]),
		})
	default:
		m.push(opaque{})
	}
}

func ints(v any) []int {
	items := v.(*plist).items
	out := make([]int, len(items))
	for i, n := range items {
		out[i] = int(n.(int64))
	}
	return out
}
