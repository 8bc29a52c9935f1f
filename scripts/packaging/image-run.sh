#!/usr/bin/env bash
# scripts/packaging/image-run.sh [ENGINE]: builds the Containerfile's image from build/package (npm run package) with
# podman or docker and tests it: prints its size, runs it with a read-only root and no capabilities, sends a request to
# the smallest model over a published port, stops it, and starts it again with the same volume. MONOLITH_IMAGE_BUILD:
# extra arguments for the build, such as networks and certificates.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
engine=${1:-$(command -v podman || command -v docker || true)}
[ -n "$engine" ] || { echo 'neither podman nor docker is installed'; exit 1; }
name=monolith-image-run-$$ port=${MONOLITH_IMAGE_PORT:-18082} key=sk-image-0123456789abcdef
format=(); case $engine in *podman) format=(--format docker) ;; esac
trap '"$engine" rm -f "$name" > /dev/null 2>&1 || true; "$engine" volume rm -f "$name" > /dev/null 2>&1 || true' EXIT

# shellcheck disable=SC2086  # MONOLITH_IMAGE_BUILD is several arguments
"$engine" build "${format[@]}" ${MONOLITH_IMAGE_BUILD:-} -f scripts/packaging/Containerfile -t "$name" build/package > "/tmp/$name.log" 2>&1 ||
  { tail -n 20 "/tmp/$name.log"; exit 1; }
size=$("$engine" image inspect --format '{{.Size}}' "$name")
echo "image: $(( size / 1000000 )) MB, user $("$engine" image inspect --format '{{.Config.User}}' "$name")"

serve() {
  "$engine" run -d --name "$name" --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
    -p "127.0.0.1:$port:8080" -v "$name:/data" -e MONOLITH_API_KEY="$key" "$name" > /dev/null
}
ask() {
  curl -sf "http://127.0.0.1:$port/v1/chat/completions" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \
    -d '{"model":"tycho-1.0","max_tokens":16,"store":true,"messages":[{"role":"user","content":"Hello!"}]}'
}
answer() {
  for _ in $(seq 150); do if ask; then return; fi; sleep 0.2; done
  "$engine" logs "$name" | tail -n 20 >&2
  return 1
}
serve
echo "answered: $(answer | head -c 200)"
# A program inside the container makes this check. If the container cannot start a program, the test fails instead of
# passing unchecked.
"$engine" exec "$name" /usr/local/bin/node -e "
  const { existsSync, writeFileSync } = require('fs');
  const refused = (path) => { try { writeFileSync(path, ''); return 'written'; } catch (error) { return error.code; } };
  if (refused('/app/x') !== 'EROFS' || refused('/data/x') !== 'written') throw new Error('/app: ' + refused('/app/x') + ', /data: ' + refused('/data/x'));
  if (existsSync('/bin/sh') || process.getuid() !== 65532) throw new Error('a shell, or user ' + process.getuid());
  fetch('http://127.0.0.1:8080/healthz').then((r) => { if (!r.ok) throw new Error('/healthz: ' + r.status); console.log('inside: read-only except /data, no shell, healthy'); });"
"$engine" stop -t 30 "$name" > /dev/null
status=$("$engine" inspect --format '{{.State.ExitCode}}' "$name")
[ "$status" = 0 ] || { echo "exit status $status, expected 0"; exit 1; }
"$engine" rm "$name" > /dev/null
serve
answer > /dev/null
echo 'exit status 0; a second start on the same volume responds'
"$engine" rmi -f "$name" > /dev/null 2>&1 || true
