#!/bin/sh
# rustc for the crates of the workspace with `--cfg esker_separated`: the value of RUSTC_WORKSPACE_WRAPPER.
# Their dependencies are compiled without it, and so only once. RUSTFLAGS would compile them again.
exec "$@" --cfg esker_separated
