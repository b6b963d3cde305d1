// The module in which cometbft-db's own tests run: a copy of its sources with the adapter beside
// them, and without the backends that need other databases. scripts/go.sh makes the copy.
module github.com/cometbft/cometbft-db

go 1.25

require (
	esker.dev/esker v0.0.0
	github.com/google/btree v1.1.3
	github.com/stretchr/testify v1.9.0
	github.com/syndtr/goleveldb v1.0.1-0.20200815110645-5c35d600f0ca
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/golang/snappy v0.0.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
