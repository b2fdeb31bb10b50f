#!/bin/sh
# Builds the fuzz targets and runs them in parallel. If a target finds a fault, prints the path of the input and fails.
# Usage: run.sh BUILD SECONDS [TARGET...]      BUILD: build directory of the C++ tests (the Makefile configures it).
# Each target runs for SECONDS, starting from its seeds, corpus/ in this directory and the results of earlier runs. With
# FUZZ_RUNS="TARGET=N ..." it tries N inputs instead, with the seed FUZZ_SEED (1) and without results of earlier runs: the
# same inputs each time, so that the result depends on the code alone. Other targets run for SECONDS; a number without
# TARGET applies to all targets. fuzz_control is a Python program.
# corpus/TARGET.tar.gz contains inputs that reach more code than the seeds, from two runs with a fixed seed:
#   TARGET -runs=100000 -seed=1 -max_len=512 NEW SEEDS
#   TARGET -merge=1 -max_len=512 KEPT SEEDS NEW
# and then the smallest files of KEPT that fit into 20 KB:
#   tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 | gzip -9n
# With COVERAGE=yes, no fuzzing is done. Instead, the code coverage of seeds and corpus is printed (llvm-cov), one line
# per file. BUILD/fuzz/coverage.txt has the count of every line of code.
set -eu

tests=${1:?usage: run.sh BUILD SECONDS [TARGET...]}
seconds=${2:?usage: run.sh BUILD SECONDS [TARGET...]}
shift 2
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$tests/fuzz

if [ $# -eq 0 ]; then
    for source in "$here"/fuzz_*.cpp; do
        name=${source##*/}
        set -- "$@" "${name%.cpp}"
    done
    [ -n "${COVERAGE:-}" ] || set -- "$@" fuzz_control
fi

# Only C++ targets have a program to be built.
native=
for target in "$@"; do
    case $target in
        fuzz_control) ;;
        *) native="$native $target" ;;
    esac
done
# shellcheck disable=SC2086  # a list of names
[ -z "$native" ] || cmake --build "$tests" --target $native

for target in $native; do
    rm -rf "$build/kept/$target"
    mkdir -p "$build/kept/$target"
    tar -xzf "$here/corpus/$target.tar.gz" -C "$build/kept/$target"
done

if [ -n "${COVERAGE:-}" ]; then
    objects=
    for target in $native; do
        set -- "$build/seeds/$target"
        for corpus in "$build/kept/$target" "$here/../../../build/native-tests/fuzz/corpus/$target"; do
            [ ! -d "$corpus" ] || set -- "$@" "$corpus"
        done
        LLVM_PROFILE_FILE=$build/$target.profraw "$build/$target" -runs=0 -max_len=65536 "$@" >"$build/$target.log" 2>&1
        objects="$objects -object $build/$target"
    done
    llvm-profdata-14 merge -sparse "$build"/fuzz_*.profraw -o "$build/fuzz.profdata"
    # shellcheck disable=SC2086  # options
    set -- $objects -instr-profile "$build/fuzz.profdata" -ignore-filename-regex='/usr/|native/fuzz/'
    llvm-cov-14 show "$@" -format=text >"$build/coverage.txt"
    llvm-cov-14 report "$@" -show-region-summary=false -show-branch-summary=false
    exit
fi

# Prints the number of inputs that FUZZ_RUNS requests for a target; nothing if it names only other targets.
runs_of() {
    for entry in ${FUZZ_RUNS:-}; do
        case $entry in
            "$1"=*) echo "${entry#*=}" ;;
            *=*) ;;
            *) echo "$entry" ;;
        esac
    done
}

# The choices of libFuzzer depend only on the seed if addresses are fixed and the corpus directory is not read again.
fixed_addresses=
if [ -n "${FUZZ_RUNS:-}" ]; then
    if setarch -R true 2>/dev/null; then
        fixed_addresses="setarch -R"
    else
        echo "fuzz: addresses cannot be fixed here (setarch -R); the inputs may differ from run to run" >&2
    fi
fi

# Inputs found by a target are kept in BUILD/fuzz/corpus for later runs. A run with FUZZ_RUNS uses a directory that is
# emptied first.
fuzz() {
    target=$1
    runs=$(runs_of "$target")
    if [ -n "$runs" ]; then
        corpus=$build/fixed/$target
        rm -rf "$corpus"
        set -- "-runs=$runs" "-seed=${FUZZ_SEED:-1}" -reload=0
    else
        corpus=$build/corpus/$target
        set -- "-max_total_time=$seconds"
    fi
    mkdir -p "$corpus" "$build/seeds/$target" "$build/crashes"
    [ ! -d "$build/kept/$target" ] || set -- "$@" "$build/kept/$target"
    case $target in
        fuzz_control)
            python3 "$here/fuzz_control.py" "$build/crashes" "$1" ${2:+"$2"} >"$build/$target.log" 2>&1
            return
            ;;
    esac
    # shellcheck disable=SC2086  # a command and its option, or nothing
    $fixed_addresses "$build/$target" -timeout=20 -rss_limit_mb=1024 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$build/crashes/$target-" \
        "$corpus" "$build/seeds/$target" "$@" >"$build/$target.log" 2>&1
}

jobs=
for target in "$@"; do
    fuzz "$target" &
    jobs="$jobs $!"
done

status=0
for target in "$@"; do
    job=${jobs# }
    job=${job%% *}
    jobs=${jobs# "$job"}
    if wait "$job"; then
        tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")
        limit="$seconds s"
        [ -z "$(runs_of "$target")" ] || limit="a run with seed ${FUZZ_SEED:-1}"
        echo "$target: $tried inputs in $limit, no fault"
    else
        status=1
        tail -n 30 "$build/$target.log"
        echo "$target: FAULT; input: $(sed -n 's/.*Test unit written to //p' "$build/$target.log")" >&2
    fi
done
exit $status
