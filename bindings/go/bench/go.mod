module esker.dev/esker/bench

go 1.25

require (
	esker.dev/esker v0.0.0
	github.com/syndtr/goleveldb v1.0.1-0.20210819022825-2ae1ddf74ef7
)

require github.com/golang/snappy v0.0.4 // indirect

replace esker.dev/esker => ..
