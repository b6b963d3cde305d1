#!/bin/sh
# rustc for the crates of the workspace with `--cfg esker_portable --cfg esker_separated`: the value of
# RUSTC_WORKSPACE_WRAPPER in the short form of `scripts/portable.sh`.
exec "$@" --cfg esker_portable --cfg esker_separated
