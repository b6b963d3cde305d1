'use strict'
// abstract-leveldown's whole suite on leveldown, in a directory that is removed in the end.
const fs = require('fs')
const os = require('os')
const path = require('path')
const test = require('tape')
const leveldown = require('leveldown')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'dropin-leveldown-'))
let number = 0
const factory = () => leveldown(path.join(root, String(++number)))

require('abstract-leveldown/test')({ test, factory, clear: true, getMany: true })

test.onFinish(() => {
  const maps = fs.readFileSync('/proc/self/maps', 'utf8')
  if (!maps.includes(path.join(process.env.EXPECTED, 'libleveldb.so.1d'))) {
    console.error('another libleveldb.so.1d than the one asked for is loaded')
    process.exitCode = 1
  }
  fs.rmSync(root, { recursive: true, force: true })
})
