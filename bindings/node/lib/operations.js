'use strict'

// Operations of a batch that abstract-level does not have: merges and range deletions.
//
// Invariants:
// 1. Operations take effect in the order of the batch.
// 2. Those of abstract-level go through its hooks and events. The others do not.

const crossing = require('./crossing')
const { ttlOf } = require('./options')

const { PUT, DELETE, PUT_WITH_TTL, MERGE, DELETE_RANGE } = crossing

// The operations before one of abstract-level, and those after the last one.
const kBefore = Symbol('before')
const kAfter = Symbol('after')

const isOwn = op => op?.type === 'merge' || op?.type === 'deleteRange'

// Returns whether a batch has an operation that abstract-level does not have.
exports.hasOwn = operations => Array.isArray(operations) && operations.some(isOwn)

// Encodes an operation. `targetOf` returns the keyspace of a key and the key within it.
function encode (db, op, options, targetOf) {
  const on = op.sublevel ?? db
  const keys = on.keyEncoding(op.keyEncoding ?? options?.keyEncoding)
  const target = key => {
    on._assertValidKey(key)
    return targetOf(db, { sublevel: op.sublevel, key: keys.encode(key), keyEncoding: keys.format })
  }
  if (op.type === 'merge') {
    const [part, key] = target(op.key)
    on._assertValidValue(op.operand)
    const values = on.valueEncoding(op.valueEncoding ?? options?.valueEncoding)
    return { kind: MERGE, part, key, value: values.encode(op.operand) }
  }
  const [part, key] = target(op.start)
  return { kind: DELETE_RANGE, part, key, value: target(op.end)[1] }
}

// Does a batch with such operations. `plain` does one without, by abstract-level.
exports.batch = function (db, operations, options, targetOf, plain) {
  const others = []
  let own = []
  for (const op of operations) {
    if (isOwn(op)) {
      own.push(encode(db, op, options, targetOf))
    } else {
      others.push(own.length === 0 ? op : { ...op, [kBefore]: own })
      own = []
    }
  }
  const more = { ...options, [kAfter]: own }
  return others.length === 0 ? db._batch([], more) : plain(others, more)
}

function add (packer, own) {
  for (const { kind, part, key, value } of own ?? []) packer.operation(kind, part, key, value)
}

// Packs the operations of a batch.
exports.pack = function (packer, db, operations, options, targetOf) {
  for (const op of operations) {
    add(packer, op[kBefore])
    const [part, key] = targetOf(db, op)
    if (op.type === 'put') {
      const ttl = ttlOf(op)
      packer.operation(ttl === undefined ? PUT : PUT_WITH_TTL, part, key, op.value, ttl)
    } else {
      packer.operation(DELETE, part, key, crossing.empty)
    }
  }
  add(packer, options[kAfter])
}
