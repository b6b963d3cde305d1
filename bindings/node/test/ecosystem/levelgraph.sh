#!/usr/bin/env bash
# Runs the tests of levelgraph 4, which are in its package, on Esker instead of on memory-level:
# `levelgraph.sh PACKAGE PLACE`, where PACKAGE is the built package of Esker and PLACE a directory for
# levelgraph. Its tests of a store on disk need the package level and are left out. Exits with 77 if npm
# cannot fetch what it needs.
set -euo pipefail
own=$(cd "$(dirname "$0")" && pwd)
package=$(realpath "$1")
mkdir -p "$2"
cd "$2"

if [ ! -d package/node_modules/mocha ]; then
    rm -rf package
    npm pack --loglevel=error levelgraph@4.0.0 >/dev/null || exit 77
    tar xzf levelgraph-4.0.0.tgz
    # Its development needs browsers and linters too. Only these run the tests.
    node -e '
        const fs = require("fs"), file = "package/package.json", own = JSON.parse(fs.readFileSync(file))
        delete own.devDependencies
        delete own.scripts
        fs.writeFileSync(file, JSON.stringify(own))'
    (cd package && npm install --no-audit --no-fund --no-package-lock --ignore-scripts \
        --loglevel=error mocha@10.8.2 chai@4.5.0 sinon@14.0.2 sinon-chai@3.7.0 setimmediate@1.0.5 \
        many-level@2.0.0 memory-level@1.0.0 tmp@0.2.5 osenv@0.1.5) || { rm -rf package; exit 77; }
fi
cd package
rm -rf node_modules/memory-level node_modules/esker-level
mkdir node_modules/memory-level
cp "$own/memory-level.js" node_modules/memory-level/index.js
ln -s "$package" node_modules/esker-level
node_modules/.bin/mocha --exit --timeout 60000 --require test/memdb/common.js test/memdb
