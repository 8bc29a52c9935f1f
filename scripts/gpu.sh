#!/bin/sh
# Builds, tests and benchmarks the CUDA backend on a machine with an NVIDIA GPU, without Node: builds with cmake and
# ninja or make, runs the native tests on the GPU, runs them again under compute-sanitizer if it is installed, and runs
# the benchmark.
#
#   scripts/gpu.sh [build] [tests] [sanitize] [bench] [-- options of gpu_bench]
#
# Without arguments all steps run, in this order. The next step runs even if one fails; the exit code is 1 if any
# failed. MONOLITH_OUT: folder for gpu.json and the logs (default build/gpu/out). MONOLITH_GPU_BUILD: build folder.
# MONOLITH_BUILD_SECONDS: time limit of the build per call (default 3000). An unfinished build exits with status 75, and
# the next call continues it.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=${MONOLITH_GPU_BUILD:-$root/build/gpu}
out=${MONOLITH_OUT:-$build/out}
steps=
while [ $# -gt 0 ]; do
  case $1 in
    build | tests | sanitize | bench) steps="$steps $1"; shift ;;
    --) shift; break ;;
    *) echo "gpu.sh: unknown argument \"$1\"; expected build, tests, sanitize or bench" >&2; exit 2 ;;
  esac
done
[ -n "$steps" ] || steps='build tests sanitize bench'
mkdir -p "$out" || exit 1
failed=0

say() { echo "gpu.sh: $*" >&2; }

# run LOG SECONDS COMMAND...: shows and saves the command's output; succeeds if the command succeeds within the time
# limit.
run() {
  log=$out/$1; limit=$2; shift 2
  { timeout "$limit" "$@" 2>&1; echo $? >"$log.code"; } | tee "$log" >&2
  code=$(cat "$log.code"); rm -f "$log.code"
  [ "$code" = 0 ] || say "$(basename "$log") exited with $code (124: stopped after $limit s)"
  [ "$code" = 0 ]
}

began=$(date +%s)

# Check for a GPU before minutes of building.
if [ "$steps" != ' build' ] && ! ls /dev/nvidia* >/dev/null 2>&1 && ! [ -e /dev/dxg ] &&
  ! command -v nvidia-smi >/dev/null && ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so'; then
  say 'no NVIDIA GPU or driver found; only "scripts/gpu.sh build" works without one'
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
            { say "build not finished ($(grep -o '^\[ *[0-9/%]*\]' "$out/build.log" | tail -n 1) in this call); run it again to continue"; exit 75; }
          say 'the build failed; these targets need nvcc'
          exit 1
        }
      ;;
    tests)
      run tests_gpu.log 200 "$build/tests_gpu" || failed=1
      # If all tests were skipped, no usable GPU was found. That is a failure here.
      if grep -q '# SKIP' "$out/tests_gpu.log" && ! grep '^ok ' "$out/tests_gpu.log" | grep -qv '# SKIP'; then
        say "all tests were skipped $(grep -m 1 -o '# SKIP .*' "$out/tests_gpu.log")"
        exit 1
      fi
      # Tests of whole models are skipped without the golden vectors.
      run tests_engine_gpu.log 200 "$build/tests_engine_gpu" || failed=1
      ;;
    sanitize)
      sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
      if [ -x "$sanitizer" ]; then
        # Both tools are slow: run them up to the time limit, which is not a failure.
        run memcheck.log 120 "$sanitizer" --tool memcheck --error-exitcode 3 "$build/tests_gpu" || [ "$code" = 124 ] || failed=1
        run racecheck.log 60 "$sanitizer" --tool racecheck --error-exitcode 3 "$build/tests_gpu" || [ "$code" = 124 ] || failed=1
      else
        say 'compute-sanitizer is not installed; skipped'
      fi
      ;;
    bench)
      # JSON goes to a file, progress lines to the log.
      JSON=$out/gpu.json run gpu_bench.log 330 sh -c 'exec "$@" >"$JSON"' sh "$build/gpu_bench" --seconds 220 "$@" || failed=1
      ;;
  esac
  say "$step: done, $(($(date +%s) - began)) s since the start"
done
exit $failed
