module esker.dev/esker/suites/ethdb

go 1.25.0

require (
	esker.dev/esker v0.0.0
	github.com/ethereum/go-ethereum v1.17.10
)

replace esker.dev/esker => ../..
