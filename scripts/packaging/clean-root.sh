#!/usr/bin/env bash
# scripts/packaging/clean-root.sh [FOLDER]: installs the packages of build/package (npm run package) in a Debian 12
# system that has Node.js but no compiler, and reports the time until a model's first response. Needs root, debootstrap
# and the network. The system in FOLDER (default: build/clean-root) is created once and kept; the installed packages are
# not kept. MONOLITH_CLEAN_NODE: path of another node binary. MONOLITH_CLEAN_MIRROR: Debian mirror for debootstrap.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
base=${1:-$here/build/clean-root}
node=$(realpath "${MONOLITH_CLEAN_NODE:-$(command -v node)}")
npm=$(dirname "$(realpath "$(command -v npm)")")/..
key=sk-clean-root-0123456789

[ -x "$base/usr/bin/apt" ] || debootstrap --variant=minbase bookworm "$base" ${MONOLITH_CLEAN_MIRROR:+"$MONOLITH_CLEAN_MIRROR"}
for tool in cc c++ gcc g++ clang cmake make ninja python3; do
  if [ -e "$base/usr/bin/$tool" ]; then echo "the root file system contains $tool; remove the folder and run again"; exit 1; fi
done
install -D -m 755 "$node" "$base/usr/local/bin/node"
mkdir -p "$base/usr/local/lib/node_modules"
rm -rf "$base/usr/local/lib/node_modules/npm" "$base/home/user"
cp -rL "$npm" "$base/usr/local/lib/node_modules/npm"
for name in npm npx; do
  printf '#!/bin/sh\nexec node /usr/local/lib/node_modules/npm/bin/%s-cli.js "$@"\n' "$name" > "$base/usr/local/bin/$name"
  chmod 755 "$base/usr/local/bin/$name"
done
install -D -m 644 "${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt}" "$base/etc/ssl/certs/ca-certificates.crt"
cp /etc/resolv.conf /etc/hosts "$base/etc/"
mkdir -p "$base/home/user"
cp "$here"/build/package/*.tgz "$base/home/user/"
chown -R 1000:1000 "$base/home/user"
[ -c "$base/dev/null" ] || mknod -m 666 "$base/dev/null" c 1 3
[ -c "$base/dev/urandom" ] || mknod -m 666 "$base/dev/urandom" c 1 9

# An unprivileged user in its own mount and PID namespaces, so that all its processes end with this script.
unshare --mount --pid --fork --kill-child bash -s -- "$base" "$key" <<'EOF'
set -euo pipefail
base=$1 key=$2
mount -t proc proc "$base/proc"
inside() {
  chroot --userspec=1000:1000 "$base" /usr/bin/env -i HOME=/home/user PATH=/usr/local/bin:/usr/bin:/bin \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt MONOLITH_API_KEY="$key" sh -c "cd /home/user && $1"
}
ms() { date +%s%3N; }
echo "$(inside 'node --version'), npm $(inside 'npm --version'), $(. "$base/etc/os-release" && echo "$PRETTY_NAME")"
from=$(ms)
inside 'npm i --no-audit --no-fund ./*.tgz'
installed=$(ms)
echo "npm i: $(( installed - from )) ms; $(du -sm "$base/home/user/node_modules" | cut -f1) MiB"
inside 'exec npx monolith-server --port 18080' > "$base/home/user/log" 2>&1 &
cat > "$base/home/user/ask.mjs" <<'JS'
const response = await fetch('http://127.0.0.1:18080/v1/chat/completions', {
  method: 'POST', headers: { authorization: `Bearer ${process.env.MONOLITH_API_KEY}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'tycho-1.0', max_tokens: 16, messages: [{ role: 'user', content: 'Hello!' }] }),
});
const text = await response.text();
if (response.status !== 200) throw new Error(text);
console.log(JSON.parse(text).choices[0].message.content);
JS
for _ in $(seq 300); do
  if answer=$(inside "node ask.mjs" 2> "$base/home/user/ask.log"); then break; fi
  sleep 0.2
done
answered=$(ms)
if [ -z "${answer:-}" ]; then cat "$base/home/user/log" "$base/home/user/ask.log"; exit 1; fi
echo "npx monolith-server: first response after $(( answered - installed )) ms: $answer"
echo "npx monolith --version: $(inside 'npx monolith --version')"
echo "total: $(( answered - from )) ms"
EOF
