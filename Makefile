# The front door. Variables: PEERS=no installs no peers; CSV=FILE measures that file too.
.PHONY: bench bindings results experiments site guard crosscheck test quick check fuzz crash crash-long miri schedules docs
.PHONY: install uninstall
.PHONY: model followers expiry stores proof kills feedkills separated powercut mapped soak tsan asan
.PHONY: deb deb-test portable mutants coverage shim dropin apps clients capi wheel pytest overhead
.PHONY: rocksdb rocksdb-suite rocksdb-asan rocksdb-apps sick phases api-pages
.PHONY: gotest go-asan go-bench go-module crates
.PHONY: nodetest node-bench node-ecosystem npm-pack
.PHONY: jar javatest javabench kafkatest kafka-integration kafka-nightly kafka-demo kafka-kill infinispantest infinispan-demo distributed
.PHONY: pybench manylinux sdist format-check

bench:  ## Esker beside the peers on this machine, with a page in bench/
	scripts/bench.sh

guard:  ## the speed of this tree beside that of commit BASE (HEAD~1), task by task
	scripts/guard.sh

crosscheck: ## the lab beside RocksDB's own db_bench, the same library and flags, in turn
	cargo build --release --package esker-cli
	scripts/crosscheck.sh

test:   ## everything that must pass, after installing what is missing
	scripts/deps.sh
	scripts/test.sh

quick:  ## a contributor's loop: format, lints and the engine's short tests, under two minutes
	scripts/test.sh quick

results: ## measure the README's table again and write it, its picture and its record
	scripts/results.sh

experiments: ## repeat the five documents' experiments, and write their records, pages and pictures
	scripts/experiments.sh

site:   ## pages of the experiments' records in SITE (bench/site), with an index
	cargo build --release --package esker-cli
	$${CARGO_TARGET_DIR:-target}/release/esker lab site docs/results/*/record.json.zst --out $${SITE:-bench/site}

bindings: ## builds and tests each binding whose toolchain is here, and lists what was skipped
	scripts/deps.sh
	scripts/test.sh bindings

install: ## the command, libesker, esker.h, man pages: under PREFIX (/usr/local), below DESTDIR
	scripts/install.sh install

uninstall: ## what install put there, with the same PREFIX and DESTDIR
	scripts/install.sh uninstall

check:  ## the quick part: format, lints, shape of the tree, generated documents
	cargo fmt --all --check && cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask tidy && cargo xtask options --check && cargo xtask results --check
	cargo xtask headers --check && cargo xtask metrics --check && cargo xtask rocksdb --check
	cargo xtask api

fuzz:   ## every decoder for a minute; random operations, and random calls through C, longer
	scripts/fuzz.sh

model:  ## random operations against a map under MODEL_CASES (5000) option sets; two hours
	MODEL_CASES=$${MODEL_CASES:-5000} cargo test --release --package esker --test model any_option_set

crash:  ## power cuts, faults and corruption, a hundred thousand times: one table
	scripts/crash.sh

crash-long:  ## twenty times as much, and kill -9
	LONG=yes scripts/crash.sh

proof:  ## histories of transactions and plain operations, judged by adya and porcupine; needs Go
	scripts/proof.sh

format-check: ## this tree and the release before use the same stores of format version 1 in turn
	scripts/format.sh

kills:  ## COUNT (10000) processes killed while they use stores, judged from outside
	scripts/torture.sh kills

feedkills: ## COUNT (1000) kills each of a writer and a reader that copies its feed to LMDB, SQLite
	scripts/torture.sh feed

sick: ## stores made sick on purpose: does the doctor name each, and what does its advice bring?
	cargo bench --package esker-cli --bench sick_stores

phases: ## what a store gains if each phase gets the setting that was the fastest in it
	cargo bench --package esker-cli --bench phases

followers: ## what a slot, its reader and a follower cost a writer, and how far they are behind
	cargo bench --package esker-cli --bench followers

expiry: ## the space of a store whose pairs expire, and scans over expired pairs
	cargo bench --package esker-cli --bench expiry

stores: ## what many stores, and many keyspaces, cost in one process
	cargo bench --package esker-cli --bench stores

api-pages: ## pages of the C, C++, Node.js and Python interfaces in target/pages; a warning is a failure
	scripts/api-pages.sh

separated: ## the tests, and those of other projects, with all values in value files
	scripts/separated.sh

powercut: ## COUNT (200) power cuts of ext4 and of xfs, mounted from files; for root
	scripts/torture.sh power

mapped: ## the pages of a live store's log taken away, on ext4, xfs, btrfs and FUSE; for root
	scripts/mapped.sh

soak:   ## MINUTES (15) of everything at once: options, faults, deaths, checkpoints, backups
	scripts/torture.sh soak

crates: ## target/package/: the crates as their registry gets them, each built from its file, and a program
	scripts/package.sh whole

deb:    ## Debian packages in target/deb
	scripts/deb.sh

deb-test: ## the same; then lintian, and their installation, use and removal in a clean Debian (for root)
	DEB=must scripts/deb.sh test

tsan:   ## the engine's threads under ThreadSanitizer, where nightly and its sources are installed
	scripts/tsan.sh

asan:   ## both C interfaces under AddressSanitizer, where nightly is installed
	scripts/asan.sh

schedules: ## the engine's threads under many orders of steps; SCHEDULES says how many
	scripts/schedules.sh

portable: ## the engine with the standard library alone; FULL=yes for all of its tests
	scripts/portable.sh

miri:   ## the memtables under Miri, where it is installed; SEEDS orders of the threads' steps
	scripts/miri.sh

mutants: ## changes the engine in one place at a time; do the tests notice? EVERY says how many
	scripts/mutants.sh

coverage: ## which lines of the engine its tests run, by folder, and each line that none does
	scripts/coverage.sh

docs:   ## generated documents, the C header and the API's pages
	cargo xtask options && cargo xtask metrics && cargo xtask headers && cargo xtask rocksdb
	cargo doc --workspace --no-deps

capi:   ## target/c/: libesker.so, libesker.a and esker.h
	scripts/capi.sh

shim:   ## target/shim/libleveldb.so.1d: LevelDB's C++ and C interfaces over Esker
	SHIM=must scripts/shim.sh

rocksdb: ## target/rocksdb/librocksdb.so: RocksDB's C interface over Esker
	scripts/rocksdb.sh

rocksdb-apps: ## programs that use RocksDB, unchanged, on RocksDB and on Esker in turn, with kills
	scripts/rocksdb-apps.sh

rocksdb-suite: ## other people's tests of that interface, and random calls beside RocksDB
	scripts/rocksdb-suite.sh

rocksdb-asan: ## that interface's own tests, random calls beside RocksDB, and others' tests, with AddressSanitizer
	scripts/rocksdb-asan.sh

dropin: ## other people's programs and tests on that library; NAMES="plyvel leveldown" for a few
	scripts/dropin.sh $(NAMES)

apps:   ## two programs on LevelDB and on Esker in turn, killed with -9; prints a table
	scripts/apps.sh

clients: ## YCSB and scans through LevelDB's C++ interface, on LevelDB and on Esker; SCALE=0.01 for a short run
	scripts/clients.sh build
	cargo build --release --package esker-cli
	$${CARGO_TARGET_DIR:-target}/release/esker lab run clients --scale $(or $(SCALE),1) --html bench/clients.html

wheel:  ## target/wheel/: Esker for Python, abi3
	WHEEL=must scripts/wheel.sh

pytest: ## that wheel, tested from Python
	WHEEL=must scripts/wheel.sh test

pybench: ## Esker for Python beside plyvel, rocksdict and lmdb, in turn
	scripts/pybench.sh

manylinux: ## target/manylinux/: a wheel for glibc 2.17, by zig; its symbols are checked
	scripts/manylinux.sh

sdist:  ## target/sdist/: a source archive; pip installs from it alone, and it is used
	scripts/manylinux.sh sdist

overhead: ## what a call costs through C over Rust, and through Python beside plyvel on LevelDB
	WHEEL=must scripts/overhead.sh

gotest: ## the Go package's tests, and those of three other projects over it
	GO=must scripts/go.sh test

go-module: ## the Go module in an empty folder with libesker.a, and a program that uses it
	GO=must scripts/go.sh module

go-asan: ## the Go package's tests under the C compiler's AddressSanitizer
	GO=must scripts/go.sh asan

go-bench: ## calls of the Go package beside C and goleveldb
	GO=must scripts/go.sh bench

nodetest: ## Esker for Node.js, with abstract-level's suite; NAMES="own random" for a few
	NODE=must scripts/node.sh test $(NAMES)

node-ecosystem: ## other projects' tests on Esker for Node.js: levelgraph's
	NODE=must scripts/node.sh ecosystem

node-bench: ## Node.js: Esker beside classic-level and lmdb-js; prints a table
	NODE=must scripts/node.sh bench

npm-pack: ## target/node/esker-level-*.tgz, tried in an empty directory
	NODE=must scripts/node.sh pack

jar:    ## target/jvm/: Esker for Java 17, for Kafka Streams and for Infinispan; needs a JDK and Maven
	JAVA=must scripts/java.sh jar

javatest: ## their tests in the long form: a million random operations, a hundred kills
	JAVA=must LONG=yes scripts/java.sh test

javabench: ## put and get from Java beside RocksDB's Java library, and what a call costs
	JAVA=must scripts/java.sh bench

kafkatest: ## Kafka's own tests of stores and of its DSL on Esker
	JAVA=must DSL=yes scripts/java.sh kafka

kafka-integration: ## three classes of Kafka's own integration tests on Esker, which start brokers; CLASSES="Eos Restore"
	JAVA=must scripts/java.sh integration short

kafka-nightly: ## ten classes of them, in forty minutes
	JAVA=must scripts/java.sh integration all

kafka-demo: ## two instances of an application under exactly-once, killed KILLS (5) times, on Esker and RocksDB
	JAVA=must scripts/java.sh demo

kafka-kill: ## the same with 20 kills, and with 20 under at-least-once
	JAVA=must KILLS=$(or $(KILLS),20) scripts/java.sh demo
	JAVA=must KILLS=$(or $(KILLS),20) GUARANTEE=at_least_once scripts/java.sh demo

infinispan-demo: ## three nodes of Infinispan, which are killed, on Esker and on RocksDB
	JAVA=must scripts/java.sh infinispan-demo

distributed: ## YCSB through Infinispan and Kafka Streams; SCALE=20 for a million records, which takes hours
	JAVA=must scripts/distributed.sh build
	cargo build --release --package esker-cli
	$${CARGO_TARGET_DIR:-target}/release/esker lab run distributed --scale $(or $(SCALE),1) --html bench/distributed.html

infinispantest: ## Infinispan's own tests of stores on Esker
	JAVA=must scripts/java.sh infinispan
