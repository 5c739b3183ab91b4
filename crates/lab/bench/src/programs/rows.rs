//! The rows.

use super::{Link, Row, rates};

/// Writes haproxy's configuration: one thread, one front, and what that does.
macro_rules! haproxy {
    ($rest:literal) => {
        concat!(
            "cat >{dir}/haproxy.cfg <<END
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend f
    bind 0.0.0.0:80
",
            $rest,
            "END\n"
        )
    };
}

/// nginx as its own documentation tunes it, one worker without a master, on the ports 80 and 443.
macro_rules! nginx {
    () => {
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout {dir}/key -out {dir}/cert -subj /CN=x 2>/dev/null
        mkdir {dir}/temp; truncate -s 200M {dir}/big
        cat >{dir}/nginx.conf <<END
        user root; daemon off; master_process off; worker_processes 1; pid {dir}/pid; error_log stderr crit;
        events { worker_connections 65536; multi_accept on; }
        http {
            access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=100;
            client_body_temp_path {dir}/temp/a; proxy_temp_path {dir}/temp/b; fastcgi_temp_path {dir}/temp/c;
            uwsgi_temp_path {dir}/temp/d; scgi_temp_path {dir}/temp/e; default_type application/octet-stream;
            server { listen 80 backlog=4096; root {dir}; }
            server { listen 443 ssl; ssl_certificate {dir}/cert; ssl_certificate_key {dir}/key; root {dir}; }
        }
END
"
    };
}

/// wrk with 64 connections.
macro_rules! wrk {
    ($($more:literal)?) => {
        concat!("wrk -t1 -c64 -d{secs} ", $($more,)? " http://{server}/64")
    };
}

/// redis-benchmark with 50 connections.
macro_rules! redis {
    ($test:literal, $more:literal, $times:literal) => {
        concat!(
            "redis-cli -h {server} set key:__rand_int__ xxx >/dev/null && redis-benchmark -h {server} -c 50 --csv -t ",
            $test,
            " -n {secs}",
            $times,
            " ",
            $more
        )
    };
}

/// A data base, made and filled.
const POSTGRES: &str =
    "bin=$(echo /usr/lib/postgresql/*/bin); mkdir {dir}/pg; chown postgres {dir}/pg; cd {dir}
    as='setpriv --reuid=postgres --regid=postgres --init-groups'
    $as $bin/initdb -D {dir}/pg -A trust -E UTF8 --locale C --no-sync >{dir}/log
    echo 'host all all 10.77.0.0/16 trust' >>{dir}/pg/pg_hba.conf
    $as $bin/pg_ctl -D {dir}/pg -l {dir}/pg/log -w -o \"-k {dir}/pg -h ''\" start >{dir}/log
    pgbench -h {dir}/pg -U postgres -i -q postgres 2>{dir}/log
    $as $bin/pg_ctl -D {dir}/pg -w stop >{dir}/log
    ln -s $bin/postgres {dir}/postgres";

const NGINX: Row = Row {
    name: "",
    needs: &["nginx", "wrk", "openssl"],
    prepare: nginx!(),
    server: "{run} nginx -c {dir}/nginx.conf -e stderr",
    port: 80,
    client: wrk!(),
    rate: rates::wrk,
    unit: "requests",
    link: Link::Xdp,
};

const REDIS: Row = Row {
    needs: &["redis-server", "redis-benchmark"],
    prepare: "",
    server: "{run} redis-server --port 6379 --protected-mode no --save '' --appendonly no --dir {dir}",
    port: 6379,
    rate: rates::redis,
    ..NGINX
};

const MEMCACHED: Row = Row {
    needs: &["memcached"],
    prepare: "",
    server: "{run} memcached -u nobody -t 1 -c 2000 -l 0.0.0.0",
    port: 11_211,
    rate: rates::asker,
    ..NGINX
};

const PGBENCH: Row = Row {
    needs: &["pgbench", "setpriv"],
    prepare: POSTGRES,
    server: "{run as postgres} {dir}/postgres -D {dir}/pg -k {dir}/pg -h {server} -c fsync=off",
    port: 5432,
    rate: rates::pgbench,
    unit: "transactions",
    ..NGINX
};

const IPERF: Row = Row {
    needs: &["iperf3"],
    prepare: "",
    server: "{run} iperf3 -s",
    port: 5201,
    client: "iperf3 -J -t {secs} -c {server}",
    rate: rates::iperf3,
    unit: "MB",
    ..NGINX
};

const DOWNLOAD: Row = Row { client: "iperf3 -J -R -t {secs} -c {server}", ..IPERF };

const ECHO: Row = Row {
    prepare: "",
    port: 7,
    client: "{dir}/asker {server} 7 50 {secs} 64 01234567890123456789012345678901234567890123456789012345678901^",
    rate: rates::asker,
    ..NGINX
};

/// A program of ours that asks nginx on the kernel.
const ASKS: Row = Row { server: "nginx -c {dir}/nginx.conf -e stderr", ..NGINX };

/// Every row.
pub const ALL: &[Row] = &[
    Row { name: "nginx, keep-alive", ..NGINX },
    Row { name: "nginx, short connections", client: wrk!("-H 'Connection: close'"), ..NGINX },
    Row { name: "nginx with TLS, keep-alive", client: "wrk -t1 -c64 -d{secs} https://{server}/64", ..NGINX },
    Row {
        name: "nginx, 200 MB",
        client: "curl -s -w '%{speed_download}\\n' -o /dev/null http://{server}/big -o /dev/null http://{server}/big",
        rate: rates::curl,
        unit: "MB",
        ..NGINX
    },
    Row {
        name: "lighttpd, keep-alive",
        needs: &["lighttpd", "wrk"],
        prepare: "echo 'server.document-root=\"{dir}\"
            server.port=80
            server.max-keep-alive-requests=100000000' >{dir}/lighttpd.conf",
        server: "{run} lighttpd -D -f {dir}/lighttpd.conf",
        ..NGINX
    },
    Row {
        name: "haproxy, its own answers",
        needs: &["haproxy", "wrk"],
        prepare: haproxy!(
            "    http-request return status 200 content-type text/plain string 0123456789012345678901234567890123456789
"
        ),
        server: "{run} haproxy -db -f {dir}/haproxy.cfg",
        ..NGINX
    },
    Row {
        name: "haproxy before nginx on the kernel",
        needs: &["haproxy", "nginx", "wrk", "openssl"],
        prepare: concat!(
            nginx!(),
            haproxy!(
                "    default_backend b
backend b
    server s {client}:80
"
            )
        ),
        server: "{run} haproxy -db -f {dir}/haproxy.cfg",
        client: concat!(
            "nginx -c {dir}/nginx.conf -e stderr & trap \"kill $!\" EXIT; sleep 0.5; ",
            wrk!()
        ),
        ..NGINX
    },
    Row { name: "redis SET", client: redis!("set", "", "00000"), ..REDIS },
    Row { name: "redis GET", client: redis!("get", "", "00000"), ..REDIS },
    Row { name: "redis SET, 16 in a pipeline", client: redis!("set", "-P 16", "000000"), ..REDIS },
    Row { name: "redis GET, 16 in a pipeline", client: redis!("get", "-P 16", "000000"), ..REDIS },
    Row {
        name: "redis, short connections",
        // Its own advice: else the client's ports are used up after 60,000.
        client: concat!("sysctl -qw net.ipv4.tcp_tw_reuse=1 && ", redis!("get", "-k 0", "0000")),
        ..REDIS
    },
    Row {
        name: "redis-benchmark, GET",
        server: "redis-server --port 6379 --protected-mode no --save '' --appendonly no --dir {dir}",
        client: "{run} redis-benchmark -h {client} -c 50 --csv -t get -n {secs}00000",
        ..REDIS
    },
    Row {
        name: "memcached, set",
        client: "{dir}/asker {server} 11211 50 {secs} 8 \
            'set a 0 0 64^0123456789012345678901234567890123456789012345678901234567890123^'",
        ..MEMCACHED
    },
    Row {
        name: "memcached, get",
        client: "{dir}/asker {server} 11211 1 0.01 8 \
            'set a 0 0 64^0123456789012345678901234567890123456789012345678901234567890123^' >/dev/null && \
            {dir}/asker {server} 11211 50 {secs} 85 'get a^'",
        ..MEMCACHED
    },
    Row {
        name: "PostgreSQL, select",
        client: "pgbench -h {server} -U postgres -c 8 -n -T {secs} -S postgres",
        ..PGBENCH
    },
    Row {
        name: "PostgreSQL, select, prepared",
        client: "pgbench -h {server} -U postgres -c 8 -n -T {secs} -S -M prepared postgres",
        ..PGBENCH
    },
    Row {
        name: "PostgreSQL, as TPC-B",
        client: "pgbench -h {server} -U postgres -c 8 -n -T {secs} postgres",
        ..PGBENCH
    },
    Row {
        name: "PostgreSQL, a connection for each",
        client: "pgbench -h {server} -U postgres -c 8 -n -T {secs} -S -C postgres",
        ..PGBENCH
    },
    Row { name: "iperf3 upload, xdp", ..IPERF },
    Row { name: "iperf3 download, xdp", ..DOWNLOAD },
    Row { name: "iperf3 upload, packet", link: Link::Packet, ..IPERF },
    Row { name: "iperf3 download, packet", link: Link::Packet, ..DOWNLOAD },
    Row { name: "iperf3 upload, tap", link: Link::Tap, ..IPERF },
    Row { name: "iperf3 download, tap", link: Link::Tap, ..DOWNLOAD },
    Row {
        name: "python3 http.server",
        needs: &["python3", "wrk"],
        prepare: "",
        server: "{run} python3 -m http.server -d {dir} 80",
        client: "wrk -t1 -c8 -d{secs} http://{server}/64",
        ..NGINX
    },
    Row { name: "python3 asyncio, echo", needs: &["python3"], server: "{run} python3 {peers}/echo.py", ..ECHO },
    Row {
        name: "node, http",
        needs: &["node", "wrk"],
        prepare: "",
        server: "{run} node -e 'require(\"http\").createServer((q, r) => r.end(\"x\".repeat(64))).listen(80)'",
        ..NGINX
    },
    Row { name: "java NIO, echo", needs: &["java", "javac"], server: "{run} java {peers}/Echo.java", ..ECHO },
    Row {
        name: "openssl s_server, handshakes",
        needs: &["openssl"],
        server: "{run} openssl s_server -accept 443 -key {dir}/key -cert {dir}/cert -www -quiet",
        port: 443,
        client: "openssl s_time -connect {server}:443 -new -time {secs}",
        rate: rates::s_time,
        unit: "connections",
        ..NGINX
    },
    Row {
        name: "rsync daemon, 200 MB",
        needs: &["rsync"],
        prepare: "truncate -s 200M {dir}/big; cat >{dir}/rsyncd.conf <<END
[files]
path = {dir}
use chroot = no
uid = root
gid = root
END
",
        server: "{run} rsync --daemon --no-detach --port 873 --config {dir}/rsyncd.conf",
        port: 873,
        client: "n=0; while [ $n -lt 3 ]; do rsync -IW rsync://{server}/files/big {dir}/copy || exit; n=$((n + 1)); done
            echo $((n * 200))",
        rate: rates::counted,
        unit: "MB",
        ..NGINX
    },
    Row {
        name: "git daemon, clones",
        needs: &["git"],
        prepare: "cd {dir}; git init -q work; cd work; head -c 20000000 /dev/urandom >file; git add file
            git -c user.name=a -c user.email=a@b.c commit -qm one; git clone -q --bare . ../bare",
        server: "{run} git daemon --base-path={dir} --export-all --reuseaddr",
        port: 9418,
        client: "n=0; while [ $n -lt 3 ]; do rm -rf {dir}/clone; git clone -q git://{server}/bare {dir}/clone || exit
            n=$((n + 1)); done; echo $n",
        rate: rates::counted,
        unit: "clones",
        ..NGINX
    },
    Row {
        name: "curl, 200 MB",
        needs: &["curl", "nginx", "openssl"],
        client: "u=http://{client}/big; {run} curl -s -w '%{speed_download}\\n' -o /dev/null $u -o /dev/null $u",
        rate: rates::curl,
        unit: "MB",
        ..ASKS
    },
    Row {
        name: "wget, 200 MB",
        needs: &["wget", "nginx", "openssl"],
        client: "u=http://{client}/big; {run} wget -q -O /dev/null $u $u $u $u && echo 800",
        rate: rates::counted,
        unit: "MB",
        ..ASKS
    },
    Row {
        name: "ab, keep-alive",
        needs: &["ab", "nginx", "openssl"],
        client: "{run} ab -q -k -n {secs}0000 -c 32 http://{client}/64",
        rate: rates::ab,
        ..ASKS
    },
    Row { name: "wrk, keep-alive", client: "{run} wrk -t1 -c64 -d{secs} http://{client}/64", ..ASKS },
];
