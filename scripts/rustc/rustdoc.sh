#!/bin/sh
# rustdoc with its unstable options: the value of RUSTDOC. RUSTC_BOOTSTRAP for cargo itself would run
# build scripts again, and so compile most dependencies again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
