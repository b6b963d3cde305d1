'use strict'

// Loads the native part: the file that ESKER_NODE_ADDON names, or the one that the package has for
// this platform.
//
// Invariant: a platform without a prebuilt file gets an error that names it.

const path = require('node:path')

function file () {
  if (process.env.ESKER_NODE_ADDON) return path.resolve(process.env.ESKER_NODE_ADDON)
  return path.join(__dirname, '..', 'prebuilds', `${process.platform}-${process.arch}`, 'esker.glibc.node')
}

const name = file()

try {
  module.exports = require(name)
} catch (err) {
  throw new Error(
    `esker-level cannot load its native part ${name} (${err.message}); ` +
    'it needs Linux with glibc and Node.js 18 or newer: build it with `scripts/node.sh pack` on another platform',
    { cause: err }
  )
}
