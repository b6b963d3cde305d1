//go:build !esker_shared

// The static library is searched for in lib/, in the target folder of the source tree, in the
// folders of CGO_LDFLAGS and in those of the system.

package esker

// #cgo LDFLAGS: -L${SRCDIR}/lib -L${SRCDIR}/../../target/c -l:libesker.a -lpthread -ldl -lm
import "C"
