#!/usr/bin/env bash
# `make demo`: installs what is missing, builds, and lets ordinary clients talk to the kernel and to Millstream.
# Without root it does the same in a user namespace, over a tap device. Leaves nothing behind but the build.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:/usr/sbin:/sbin:$PATH"

have() { command -v "$1" >/dev/null 2>&1; }
packages=()
while read -r program package; do
    have "$program" || packages+=("$package")
done <<'TABLE'
wrk wrk
nginx nginx-light
ethtool ethtool
sysctl procps
curl curl
TABLE
if [ ${#packages[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && have apt-get; then
        echo "demo: installing ${packages[*]}"
        # A fresh machine must not end up with a running nginx only because of a demo.
        policy=/usr/sbin/policy-rc.d
        [ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && trap 'rm -f "$policy"' EXIT; }
        DEBIAN_FRONTEND=noninteractive apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
    else
        echo "demo: install these first: ${packages[*]}" >&2
        exit 1
    fi
fi

echo "demo: building; the first time takes eight minutes on two cores"
cargo build --release -p millstream -p millstream-preload -p millstream-bench
bench="${CARGO_TARGET_DIR:-target}/release/millstream-bench"
set -- demo --rounds "${ROUNDS:-3}" --seconds "${SECONDS_EACH:-3}" "$@"
if [ "$(id -u)" = 0 ] && [ "$(awk '{print $3}' /proc/self/uid_map | head -1)" = 4294967295 ]; then
    "$bench" "$@" >/dev/null
else
    echo "no root: the same over a tap device, in a user namespace"
    # /run becomes ours inside the namespace, so that network namespaces can have names.
    unshare --user --map-root-user --net --mount bash -c 'mount -t tmpfs none /run && mkdir /run/netns && exec "$0" "$@"' "$bench" "$@" >/dev/null
fi
