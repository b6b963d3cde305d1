'use strict'

// Runs every example of COOKBOOK.md and README.md, each in a function of its own. `dir` is a
// directory that is removed afterwards. The first example of README.md is a program: `make npm-pack`
// runs it.

const fs = require('node:fs')
const path = require('node:path')
const assert = require('node:assert')
const test = require('tape')
const { cleanUp, path: place } = require('./common')

test.onFinish(cleanUp)

const AsyncFunction = (async () => {}).constructor

for (const file of ['README.md', 'COOKBOOK.md']) {
  const text = fs.readFileSync(path.join(__dirname, '..', file), 'utf8')
  const sections = text.split(/^## /m)
  let examples = 0
  for (const section of sections) {
    const title = section.split('\n')[0]
    for (const [, code] of section.matchAll(/^```js\n([\s\S]*?)^```$/gm)) {
      examples++
      if (file === 'README.md' && examples === 1) continue
      test(`${file}: ${title}: example ${examples}`, async t => {
        const dir = place()
        fs.mkdirSync(dir)
        const load = name => require(name === 'esker-level' ? '..' : name)
        load.resolve = name => require.resolve(name === 'esker-level' ? '..' : name)
        const printed = []
        const console = { log: (...args) => printed.push(args.map(String).join(' ')) }
        await new AsyncFunction('require', 'dir', 'assert', 'console', code)(load, dir, assert, console)
        const wanted = [...code.matchAll(/\/\/ prints: (.*)$/gm)].map(([, line]) => line)
        t.same(printed, wanted)
      })
    }
  }
  test(`${file} has examples`, async t => t.ok(examples > 1))
}
