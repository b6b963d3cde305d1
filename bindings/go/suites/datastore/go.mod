module esker.dev/esker/suites/datastore

go 1.25.0

require (
	esker.dev/esker v0.0.0
	github.com/ipfs/go-datastore v0.9.2
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/ipfs/go-detect-race v0.0.1 // indirect
)

replace esker.dev/esker => ../..
