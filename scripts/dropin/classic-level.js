'use strict'
// abstract-level's whole suite on classic-level, in a directory that is removed in the end.
const fs = require('fs')
const os = require('os')
const path = require('path')
const test = require('tape')
const { ClassicLevel } = require('classic-level')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'dropin-classic-level-'))
let number = 0
const factory = (options) => new ClassicLevel(path.join(root, String(++number)), options)

require('abstract-level/test')({ test, factory })

test.onFinish(() => {
  const maps = fs.readFileSync('/proc/self/maps', 'utf8')
  if (!maps.includes(path.join(process.env.EXPECTED, 'libleveldb.so.1d'))) {
    console.error('another libleveldb.so.1d than the one asked for is loaded')
    process.exitCode = 1
  }
  fs.rmSync(root, { recursive: true, force: true })
})
