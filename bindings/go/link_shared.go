//go:build esker_shared

// The build tag esker_shared links libesker.so instead of the static library.

package esker

// #cgo LDFLAGS: -L${SRCDIR}/lib -L${SRCDIR}/../../target/c -lesker
import "C"
