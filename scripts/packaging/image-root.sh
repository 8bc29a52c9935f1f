#!/usr/bin/env bash
# scripts/packaging/image-root.sh APP [FOLDER]: creates the files of the Containerfile's image without a container
# engine: Node.js, the libraries that it needs, and APP (a folder with node_modules/monolith-server, such as the one
# that clean-root.sh creates). Prints their size, then runs a server from these files, read-only, as user 65532. Needs
# root. MONOLITH_CLEAN_NODE: path of another node binary.
set -euo pipefail
app=$1
image=${2:-$(mktemp -d)}
node=$(realpath "${MONOLITH_CLEAN_NODE:-$(command -v node)}")
modules=$("$node" -p process.versions.modules) cpu=$("$node" -p process.arch)

mkdir -p "$image"/{usr/local/bin,app,data,tmp,proc,dev,etc/ssl/certs,lib64}
install -m 755 "$node" "$image/usr/local/bin/node"
cp -r "$app/node_modules" "$image/app/"
rm -rf "$image"/app/node_modules/monolith-server/{native,docs}
find "$image"/app/node_modules/monolith-server-linux-* -name "uws_*.node" ! -name "uws_linux_${cpu}_${modules}.node" -delete
find "$image/app/node_modules/@lmdb" -name '*.node' ! -name node.napi.glibc.node -delete
find "$image/app/node_modules" -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete
rm -rf "$image"/app/node_modules/@opentelemetry/*/build/esnext "$image/app/node_modules/lmdb/dependencies"
{ ldd "$node"; find "$image/app" -name '*.node' -exec ldd {} + 2>/dev/null || true; } | grep -oE '/[^ ]+\.so[^ ]*' | grep -v "^$image" | sort -u |
  while read -r library; do if [ -f "$library" ]; then install -D "$library" "$image$library"; fi; done
cp /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/"
chown 65532:65532 "$image/data"
echo "image files: $(du -sm "$image" | cut -f1) MiB"

unshare --mount --pid --fork --kill-child bash -s -- "$image" <<'EOF'
set -euo pipefail
image=$1
mount --bind "$image" "$image"
mount -o remount,bind,ro "$image"
mount -t tmpfs -o mode=1777 tmpfs "$image/tmp"
mount -t tmpfs -o uid=65532,gid=65532,mode=0700 tmpfs "$image/data"
mount -t proc proc "$image/proc"
mount --rbind /dev "$image/dev"
inside() { env -i PATH="$PATH" HOME=/data MONOLITH_DATA_DIR=/data MONOLITH_PORT=18081 MONOLITH_API_KEY=sk-image-0123456789abcdef chroot --userspec=65532:65532 "$image" /usr/local/bin/node "$@"; }
inside /app/node_modules/monolith-server/scripts/packaging/command.mjs serve > "/tmp/image-root.$$" 2>&1 &
for _ in $(seq 150); do
  if answer=$(inside -e "fetch('http://127.0.0.1:18081/v1/chat/completions', { method: 'POST', headers: { authorization: 'Bearer ' + process.env.MONOLITH_API_KEY, 'content-type': 'application/json' }, body: JSON.stringify({ model: 'tycho-1.0', max_tokens: 16, messages: [{ role: 'user', content: 'Hello!' }] }) }).then((r) => r.json()).then((r) => console.log(r.choices[0].message.content), () => process.exit(1))" 2> /dev/null); then break; fi
  sleep 0.2
done
[ -n "${answer:-}" ] || { cat "/tmp/image-root.$$"; exit 1; }
echo "served read-only as user 65532: $answer"
if inside -e "require('fs').writeFileSync('/app/x', '')" 2> /dev/null; then echo 'the root file system is writable'; exit 1; fi
EOF
