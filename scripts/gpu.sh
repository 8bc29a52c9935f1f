#!/bin/sh
# All that a machine with an NVIDIA GPU is wanted for, in one command that needs no Node: builds with cmake and ninja or
# make, runs the native tests on the GPU, once more under compute-sanitizer if it is there, and the bench.
#
#   scripts/gpu.sh [build] [tests] [sanitize] [bench] [-- options of gpu_bench]
#
# Without a word all of them, in this order. A step that fails does not keep the next from running; the exit code is 1
# if any failed. MONOLITH_OUT: where gpu.json and the logs go (build/gpu/out). MONOLITH_GPU_BUILD: where it is built.
# MONOLITH_BUILD_SECONDS: how long one call builds (3000). What is built then is kept: called again, it goes on from there,
# and the exit code is 75 until nothing is left.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=${MONOLITH_GPU_BUILD:-$root/build/gpu}
out=${MONOLITH_OUT:-$build/out}
steps=
while [ $# -gt 0 ]; do
  case $1 in
    build | tests | sanitize | bench) steps="$steps $1"; shift ;;
    --) shift; break ;;
    *) echo "gpu.sh: \"$1\" is none of build, tests, sanitize, bench" >&2; exit 2 ;;
  esac
done
[ -n "$steps" ] || steps='build tests sanitize bench'
mkdir -p "$out" || exit 1
failed=0

say() { echo "gpu.sh: $*" >&2; }

# run LOG SECONDS COMMAND...: its output is shown and kept; true if it ended well in time.
run() {
  log=$out/$1; limit=$2; shift 2
  { timeout "$limit" "$@" 2>&1; echo $? >"$log.code"; } | tee "$log" >&2
  code=$(cat "$log.code"); rm -f "$log.code"
  [ "$code" = 0 ] || say "$(basename "$log") ended with $code (124: it was stopped after $limit s)"
  [ "$code" = 0 ]
}

began=$(date +%s)

# Before minutes of building: is there anything at all that looks like a GPU?
if [ "$steps" != ' build' ] && ! ls /dev/nvidia* >/dev/null 2>&1 && ! [ -e /dev/dxg ] &&
  ! command -v nvidia-smi >/dev/null && ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so'; then
  say 'no NVIDIA GPU and no driver on this machine: nothing to measure (scripts/gpu.sh build works without)'
  exit 1
fi

for step in $steps; do
  case $step in
    build)
      if command -v ninja >/dev/null; then generator=Ninja; else generator='Unix Makefiles'; fi
      cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
      { [ -f "$build/CMakeCache.txt" ] ||
        run configure.log 60 cmake -S "$root/native" -B "$build" -G "$generator" -DMONOLITH_TESTS=ON -DMONOLITH_CUDA=ON \
          -DCMAKE_BUILD_TYPE=Release; } &&
        run build.log "${MONOLITH_BUILD_SECONDS:-3000}" cmake --build "$build" --parallel "$cores" \
          --target gpu_bench tests_gpu tests_engine_gpu ||
        {
          [ "$code" != 124 ] ||
            { say "not finished ($(grep -o '^\[ *[0-9/%]*\]' "$out/build.log" | tail -n 1) of this call): call it again"; exit 75; }
          say 'the build failed: without nvcc there are no such targets'
          exit 1
        }
      ;;
    tests)
      run tests_gpu.log 200 "$build/tests_gpu" || failed=1
      # All skipped: there is no GPU that it could use, and that is no success here.
      if grep -q '# SKIP' "$out/tests_gpu.log" && ! grep '^ok ' "$out/tests_gpu.log" | grep -qv '# SKIP'; then
        say "nothing was tested $(grep -m 1 -o '# SKIP .*' "$out/tests_gpu.log")"
        exit 1
      fi
      # Whole models: skipped without the golden vectors.
      run tests_engine_gpu.log 200 "$build/tests_engine_gpu" || failed=1
      ;;
    sanitize)
      sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
      if [ -x "$sanitizer" ]; then
        # As far as they get in the time: both are slow, and being stopped is no failure.
        run memcheck.log 120 "$sanitizer" --tool memcheck --error-exitcode 3 "$build/tests_gpu" || [ "$code" = 124 ] || failed=1
        run racecheck.log 60 "$sanitizer" --tool racecheck --error-exitcode 3 "$build/tests_gpu" || [ "$code" = 124 ] || failed=1
      else
        say 'compute-sanitizer is not here: not run'
      fi
      ;;
    bench)
      # JSON apart from the lines that say how it goes.
      JSON=$out/gpu.json run gpu_bench.log 330 sh -c 'exec "$@" >"$JSON"' sh "$build/gpu_bench" --seconds 220 "$@" || failed=1
      ;;
  esac
  say "$step: done, $(($(date +%s) - began)) s since the start"
done
exit $failed
