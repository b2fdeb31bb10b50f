#!/bin/sh
# Builds the fuzz targets and runs each for SECONDS, all at once; fails and names the input where one finds a fault.
# Usage: run.sh SECONDS [TARGET...]      PYTHON=... chooses the interpreter that makes the seeds.
set -eu

seconds=${1:?usage: run.sh SECONDS [TARGET...]}
shift
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../../.." && pwd)
build=$root/build/fuzz
python=${PYTHON:-$root/.venv/bin/python}

cmake -S "$here/.." -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++-14 -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DACAPELLA_BINDINGS=OFF -DACAPELLA_FUZZ=ON -DPython_EXECUTABLE="$python" >/dev/null
cmake --build "$build" -j 2

if [ $# -eq 0 ]; then
    for source in "$here"/fuzz_*.cpp; do
        name=${source##*/}
        set -- "$@" "${name%.cpp}"
    done
fi

# What a target finds new is kept in corpus/ from run to run.
fuzz() {
    mkdir -p "$build/corpus/$1" "$build/fuzz/seeds/$1" "$build/crashes"
    "$build/fuzz/$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$build/crashes/$1-" \
        "$build/corpus/$1" "$build/fuzz/seeds/$1" >"$build/$1.log" 2>&1
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
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")
        echo "$target: $runs inputs in $seconds s, no fault"
    else
        status=1
        tail -n 30 "$build/$target.log"
        echo "$target: FAULT; input: $(sed -n 's/.*Test unit written to //p' "$build/$target.log")" >&2
    fi
done
exit $status
