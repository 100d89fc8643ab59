#!/usr/bin/env bash
# Runs every example on a machine with a GPU, with every given cuDNN:
#   benches/measurements/examples-h200.sh target/release/examples CUDNN_DIR...
# Build the programs first:
#   cargo build --release -p cudnn-backend --examples
#   CUDNN_SYS_LIB_DIR=... cargo build --release -p cudnn-backend --no-default-features --features gpu,link \
#       --example backend_convolution --target-dir target/linking
#   mv target/linking/release/examples/backend_convolution target/release/examples/backend_convolution_linked
set -u
examples=$1
shift
for cudnn in "$@"; do
    export CUDNN_LOADER_DIR=$cudnn
    for example in backend_convolution fused_convolution "choose_engine 60" plan_without_gpu "plan_without_gpu --describe" receive_log backend_mistakes; do
        printf '\n## %s\n```\n' "$example, $(basename "$(dirname "$cudnn")")/$(basename "$cudnn")"
        # Unquoted: the name and its arguments are separate words.
        # shellcheck disable=SC2086
        "$examples"/$example 2>&1
        printf '```\n'
    done
    printf '\n## %s\n```\n' "backend_convolution_linked, $(basename "$(dirname "$cudnn")")/$(basename "$cudnn")"
    LD_LIBRARY_PATH=$cudnn:${LD_LIBRARY_PATH:-} "$examples/backend_convolution_linked" 2>&1
    printf '```\n'
done
