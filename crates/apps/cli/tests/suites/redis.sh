#!/bin/sh
# Redis' own test suite, as Debian's source package brings it, against the packaged redis-server: on the kernel, then
# under `millstream run`, over veth. The same tests must pass, one by one. Needs root, redis-server and tcl; ten minutes.
#
#   redis.sh MILLSTREAM [UNIT...]          the command that is launched with; units of the suite (all)
set -eu
millstream=$(realpath "$1")
shift
work=$(mktemp -d)
server=ms-suite-s-$$
client=ms-suite-c-$$
pid=

clean() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || :
    ip netns del "$server" 2>/dev/null || :
    ip netns del "$client" 2>/dev/null || :
    rm -rf "$work"
}
trap clean EXIT

# Lists of sources of this run's own: the system's say nothing of sources, and stay so.
sources() {
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    echo "deb-src [signed-by=$key] http://deb.debian.org/debian $release main" >"$work/sources.list"
    echo "deb-src [signed-by=$key] http://deb.debian.org/debian-security $release-security main" >>"$work/sources.list"
    own="-qq -o APT::Sandbox::User=root -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::SourceList=$work/sources.list"
    own="$own -o Dir::State::Lists=$work/lists -o Dir::Cache=$work/cache"
    # shellcheck disable=SC2086
    (cd "$work" && apt-get $own update && apt-get $own source --download-only redis && tar xzf redis_*.orig.tar.gz)
}

link() {
    ip netns add "$server"
    ip netns add "$client"
    ip link add ms0 netns "$server" type veth peer name ms1 netns "$client"
    for end in "$server ms0 10.77.0.1" "$client ms1 10.77.1.1"; do
        # shellcheck disable=SC2086
        set -- $end
        ip -n "$1" link set lo up
        ip -n "$1" addr add "$3/16" dev "$2"
        ip -n "$1" link set "$2" up
    done
}

# NAME UNITS... [with $launch before the server]: the tests that passed, into $work/NAME.
suite() {
    name=$1
    units=$2
    mkdir -p "$work/data"
    # shellcheck disable=SC2086
    ip netns exec "$server" $launch redis-server --port 6379 --bind 0.0.0.0 --protected-mode no --save '' \
        --dir "$work/data" --enable-debug-command yes >"$work/$name.server" 2>&1 &
    pid=$!
    sleep 2
    # What replicates, restarts or reconfigures the server is none of an external one's. The test that is left out fails
    # against a server on the kernel, too, and the suite ends with the first that fails.
    # shellcheck disable=SC2086
    (cd "$work"/redis-*/ && ip netns exec "$client" ./runtest --host 10.77.0.1 --port 6379 --clients 1 --no-latency \
        --tags "-needs:repl -needs:debug -needs:reset -slow -large-memory" \
        --skiptest "CONFIG SET rollback on apply error" $units) >"$work/$name.out" 2>&1 ||
        { tail -20 "$work/$name.out"; echo "$name: the suite failed"; exit 1; }
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || :
    pid=
    sed -n 's/^.*\[.*ok.*\]: \(.*\) ([0-9]* ms)$/\1/p' "$work/$name.out" | sort >"$work/$name"
    echo "$name: $(wc -l <"$work/$name") tests passed"
}

units=
for unit; do units="$units --single $unit"; done
sources
link
for program in redis-cli redis-benchmark redis-server; do ln -s "$(command -v $program)" "$work"/redis-*/src/; done
launch= suite kernel "$units"
launch="$millstream run --link xdp:ms0 --" suite launched "$units"
diff "$work/kernel" "$work/launched"
