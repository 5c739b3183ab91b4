//! Goal: one row for each program of docs/PROGRAMS.md that needs no more than a few lines of shell. The launched side
//! runs under `millstream run --require`, so nothing of it can fall back to the kernel unnoticed, and `millstream ss`
//! must show the listener of a server.
//!
//! All scripts run in the bed's directory, which has `file` (3,000,000 bytes), and know `$S`, the server's address,
//! `$C`, the client's, and `$D`, the directory. The client's side leaves what it received in `got`, which must equal
//! `want` where `before` makes such a file, else `file`.

use super::{MILLSTREAM, at, bed, kernel_server};
use bench::bed::{Bed, CLIENT_BASE, SERVER_ADDR, Server, sh};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One program on the stack, and its peer on the kernel.
struct Row {
    /// Programs that must be installed, and paths that must be there, with spaces between.
    needs: &'static str,
    /// The link of the launched side.
    link: &'static str,
    /// The script that runs first, by `sh -ec`.
    before: &'static str,
    /// Where the server listens.
    port: u16,
    server: &'static str,
    client: &'static str,
}

/// Which side is on the stack.
#[derive(Clone, Copy, PartialEq)]
enum Launched {
    Server,
    Client,
}

fn variables(bed: &Bed, server: &str) -> [String; 4] {
    let path = std::env::var("PATH").unwrap_or_default();
    [
        format!("S={server}"),
        format!("C={CLIENT_BASE}"),
        format!("D={}", bed.dir.display()),
        format!("PATH={path}:/usr/sbin:/sbin:/usr/games"),
    ]
}

/// A script in the bed's directory, as arguments of `env`.
fn script(bed: &Bed, server: &str, launched: Option<&str>, text: &str) -> Vec<String> {
    let mut all = vec!["-C".to_owned(), at(bed, "")];
    all.extend(variables(bed, server));
    if let Some(link) = launched {
        all.extend([MILLSTREAM, "run", "--require", "--link", link, "--"].map(String::from));
    }
    all.extend(["sh", "-ec", text].map(String::from));
    all
}

fn borrowed(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// Where the server's output goes.
const OUTPUT: &str = "output.log";

/// Prints, if the test fails, what the server said, its logs, and where each of its threads is.
struct Witness<'a> {
    bed: &'a Bed,
    ns: &'a str,
}

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let script =
            "ps -L -o pid,ppid,lwp,user,stat,time,wchan:24,args -p \"$(ip netns pids $1 | paste -sd,)\"
            find $2 -type f -path \"$2*log*\" -size -1000k -exec tail -n 40 -v {} + | cut -c 1-400";
        match sh("sh", &["-c", script, "sh", self.ns, &at(self.bed, "")]) {
            Ok(told) => eprintln!("{told}"),
            Err(e) => eprintln!("{e}"),
        }
    }
}

/// Waits until a server listens on the port: on the stack, as `millstream ss` shows it, or on the kernel.
fn wait_until_served(bed: &Bed, ns: &str, server: &mut Server, launched: bool, port: u16) {
    for looks in 0.. {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", ns]).env("MILLSTREAM_RUN", &bed.dir);
        if launched {
            command.args([MILLSTREAM, "ss"])
        } else {
            command.args(["ss", "-Hltn"])
        };
        let output = command.output().expect("ss runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let end = format!(":{port}");
        let listens = |line: &str| {
            line.starts_with("LISTEN") && line.split_whitespace().any(|word| word.ends_with(&end))
        };
        if said.lines().any(listens) {
            return;
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let ended = server.ended().expect("its state");
        assert!(ended.is_none(), "the server has ended: {ended:?} {errors}");
        assert!(looks < 800, "nothing listens on port {port}: {said}{errors}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn serve(bed: &Bed, ns: &str, args: &[String]) -> Server {
    let script = format!("exec env \"$@\" >>{} 2>&1", at(bed, OUTPUT));
    bed.spawn(ns, Path::new("sh"), &[&["-c", &script, "sh"], &borrowed(args)[..]].concat())
        .expect("it starts")
}

fn check(row: &Row, which: Launched) {
    let Some((bed, _)) = bed(&row.needs.split(' ').collect::<Vec<_>>()) else { return };
    let serves = which == Launched::Server;
    let (server_ns, client_ns) = if serves { (&bed.server, &bed.client) } else { (&bed.client, &bed.server) };
    let address = if serves { SERVER_ADDR } else { CLIENT_BASE };
    let run = |ns: &str, launched: bool, text: &str| {
        let link = launched.then_some(row.link);
        bed.in_ns_within(ns, 60, "env", &borrowed(&script(&bed, address, link, text)))
    };
    run(server_ns, false, row.before).unwrap_or_else(|e| panic!("before: {e}"));
    let _behind =
        (row.server.contains("$C:8000") || row.before.contains("$C:8000") || row.client.contains("$C:8000"))
            .then(|| kernel_server(&bed));
    let mut server = serve(&bed, server_ns, &script(&bed, address, serves.then_some(row.link), row.server));
    let _witness = Witness { bed: &bed, ns: server_ns };
    wait_until_served(&bed, server_ns, &mut server, serves, row.port);
    run(client_ns, !serves, row.client).unwrap_or_else(|e| panic!("client: {e}"));
    let got = std::fs::read(at(&bed, "got")).expect("the client left what it received in `got`");
    let want = std::fs::read(at(&bed, "want")).or_else(|_| std::fs::read(at(&bed, "file")));
    let want = want.expect("a file to compare with");
    assert!(got == want, "{} bytes came that are not the {} that were sent", got.len(), want.len());
}

macro_rules! rows {
    ($($name:ident $which:ident on $port:literal needs $needs:literal $(over $link:literal)? $(before $before:tt)?
       server $server:tt client $client:tt)*) => {
        $(#[test] fn $name() {
            let row = Row {
                needs: $needs, link: [$($link,)? super::LINK][0], before: [$($before,)? ""][0], port: $port,
                server: $server, client: $client,
            };
            check(&row, Launched::$which);
        })*
    };
}

// Scripts of programs whose server and client each have a row.
const SSH_KEYS: &str = "ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f key; cp key.pub \
                allowed; mkdir -p /run/sshd";
const SSHD: &str = "exec $(which sshd) -D -e -p 22 -h $D/host -o AuthorizedKeysFile=$D/allowed -o UsePAM=no -o \
                StrictModes=no \
                -o PidFile=none -f /dev/null";
const SSH: &str = "ssh -F none -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o \
                LogLevel=ERROR root@$S cat $D/file >got";
/// With a folder of its own for temporary files: a server that starts removes those of others in /tmp.
const MARIADB_FILES: &str = "TMPDIR=$D mariadb-install-db --user=root --auth-root-authentication-method=normal \
                --datadir=$D/db >log 2>&1 || { cat log >&2; exit 1; }";
const MARIADBD: &str = "exec mariadbd --no-defaults --user=root --datadir=$D/db --socket=$D/sock --skip-grant-tables \
                --tmpdir=$D --port=3306 \
                --skip-networking=0 --bind-address=0.0.0.0 --max-allowed-packet=16M";
const MARIADB: &str = "q='mariadb --no-defaults -h '$S' -u root -N --raw --max-allowed-packet=16M'
                (echo 'create table t (b longblob);'; printf 'insert into t values (0x'; xxd -p file | tr -d \
                '\n'; echo ');') | $q test; $q -e 'select b from t' test | head -c 3000000 >got";
const DOVECOT_CONF: &str = "chmod a+rx .; mkdir -p mail/new mail/cur mail/tmp; base64 file >want
                { printf 'Subject: a\n\n'; cat want; } >mail/new/1; chown -R nobody mail
                openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -subj /CN=x 2>log
                printf 'protocols=imap\nbase_dir=%s/run\nstate_dir=%s/run\nlog_path=/dev/stderr\n\
                ssl_cert=<%s/cert\nssl_key=<%s/key\nmail_location=maildir:%s/mail\npassdb {\n driver=static\n \
                args=password=b\n}\nuserdb {\n driver=static\n args=uid=nobody gid=nogroup home=%s\n}\n\
                disable_plaintext_auth=no\n' $D $D $D $D $D $D >conf";
const VSFTPD_CONF: &str =
    "mkdir -p empty root/up; cp file root; chown ftp root/up; head -c 10000000 /dev/urandom >ten
printf 'listen=YES\nanonymous_enable=YES\nwrite_enable=YES\nanon_upload_enable=YES\nanon_umask=022\n\
connect_from_port_20=YES\nanon_root=%s/root\nsecure_chroot_dir=%s/empty\nbackground=NO\n' \
$D $D >conf";
/// Data connections both ways, which the server takes and makes.
const FTP: &str = "c='curl -sSf'; u=ftp://$S/up
                $c -T ten $u/a; $c -o got $u/a; cmp got ten; $c --disable-epsv -o got $u/a; cmp got ten
                $c -P - -T ten $u/b; $c -P - -o got $u/b; cmp got ten; $c --disable-eprt -P - -o got ftp://$S/file";
const VSFTPD: &str = "exec vsftpd $D/conf";

// Servers on the stack.
rows! {
    varnish Server on 80 needs "varnishd curl"
        server "exec varnishd -F -j none -n $D/v -a :80 -b $C:8000 -s malloc,32m"
        client "curl -sSf -o one http://$S/file; cmp one file; curl -sSf -o got http://$S/file"
    tinyproxy Server on 8888 needs "tinyproxy curl"
        before "printf 'Port 8888\nTimeout 20\nMaxClients 20\nAllow 10.77.0.0/16\n' >conf"
        server "exec tinyproxy -d -c conf"
        client "curl -sSf -x http://$S:8888 -o got http://$C:8000/file"
    mosquitto Server on 1883 needs "mosquitto mosquitto_sub"
        before "printf 'listener 1883\nallow_anonymous true\nuser root\n' >conf"
        server "exec mosquitto -c conf"
        client "mosquitto_pub -h $S -t a -r -q 1 -f file; mosquitto_sub -h $S -t a -C 1 -N >got"
    mariadb Server on 3306 needs "mariadbd mariadb mariadb-install-db xxd"
        before MARIADB_FILES
        server MARIADBD
        client MARIADB
    node_cluster Server on 80 needs "node curl"
        before "printf 'const c = require(\"cluster\"), f = require(\"fs\").readFileSync(\"file\")
if (c.isPrimary) { c.fork(); c.fork() } else require(\"http\").createServer((q, r) =>
    r.end(q.url == \"/file\" ? f : process.pid + \"\\\\n\")).listen(80, \"0.0.0.0\")' >a.js"
        server "exec node a.js"
        client "[ $(for i in 1 2 3 4 5 6; do curl -sSf http://$S/; done | sort -u | wc -l) = 2 ]
                for i in 1 2 3 4; do curl -sSf -o got http://$S/file; cmp got file; done"
    vsftpd Server on 21 needs "vsftpd curl"
        before VSFTPD_CONF
        server VSFTPD
        client FTP
    vsftpd_in_one_process Server on 21 needs "vsftpd curl"
        before VSFTPD_CONF
        server "echo one_process_model=YES >>conf; exec vsftpd $D/conf"
        client FTP
    openssh Server on 22 needs "sshd ssh ssh-keygen"
        before SSH_KEYS
        server SSHD
        client SSH
    erlang Server on 80 needs "erl curl /usr/share/doc/erlang-inets"
        server "exec erl -noinput -eval 'inets:start(), {ok, _} = inets:start(httpd, [{port, 80}, {server_name, \
                \"x\"},
                {server_root, \".\"}, {document_root, \".\"}, {bind_address, {0,0,0,0}}, {ipfamily, inet}])'"
        client "curl -sSf -o got http://$S/file"
    ruby_webrick Server on 80 needs "ruby curl /usr/share/doc/ruby-webrick"
        server "exec ruby -rwebrick -e 'WEBrick::HTTPServer.new(Port: 80, DocumentRoot: \".\", AccessLog: \
                []).start'"
        client "curl -sSf -o got http://$S/file"
    ruby_puma_with_two_workers Server on 80 needs "puma curl"
        before "echo 'run lambda { |env| [200, {}, [File.binread(\"file\")]] }' >config.ru"
        server "exec puma -w 2 -t 2:2 -b tcp://0.0.0.0:80 config.ru"
        client "for i in 1 2 3 4; do curl -sSf -o got http://$S/; cmp got file; done"
    php_by_itself Server on 80 needs "php curl"
        server "exec php -S 0.0.0.0:80"
        client "curl -sSf -o got http://$S/file"
    php_fpm_behind_nginx Server on 80 needs "nginx php-fpm8.2 setpriv curl"
        before "printf \
                '[global]\nerror_log=%s/log\ndaemonize=no\n[a]\nuser=root\nlisten=127.0.0.1:9000\npm=static\n' $D >fpm
                echo pm.max_children=2 >>fpm
                printf 'user root;daemon off;pid %s/pid;events{}http{access_log off;client_body_temp_path \
                %s/b;proxy_temp_path %s/p;
fastcgi_temp_path %s/f;uwsgi_temp_path %s/u;scgi_temp_path %s/s;server{listen 80;location /{fastcgi_pass \
                127.0.0.1:9000;
fastcgi_param SCRIPT_FILENAME %s/a.php;fastcgi_param REQUEST_METHOD GET;}}}' $D $D $D $D $D $D $D >conf
                printf '<?php readfile(\"%s/file\");' $D >a.php"
        server "setpriv --pdeathsig TERM php-fpm8.2 -R -F -y fpm -p $D &
                until grep -q 'ready to handle connections' log; do sleep 0.05; done; exec nginx -c $D/conf -e stderr"
        client "for i in 1 2 3 4; do curl -sSf -o got http://$S/a; cmp got file; done"
    uvicorn_with_two_workers Server on 80 needs "uvicorn curl"
        before "printf 'async def app(scope, receive, send):\n await send({\"type\": \"http.response.start\", \
                \"status\": 200})
 await send({\"type\": \"http.response.body\", \"body\": open(\"file\", \"rb\").read()})\n' >a.py"
        server "exec uvicorn --lifespan off --workers 2 --host 0.0.0.0 --port 80 a:app"
        client "for i in 1 2 3 4; do curl -sSf -o got http://$S/; cmp got file; done"
    gunicorn_with_four_workers Server on 80 needs "gunicorn curl"
        before "printf 'def app(env, start):\n start(\"200 OK\", [])\n return [open(\"file\", \
                \"rb\").read()]\n' >a.py"
        server "exec gunicorn -w 4 -b 0.0.0.0:80 a:app"
        client "for i in 1 2 3 4 5 6 7 8; do curl -sSf -o got http://$S/; cmp got file; done"
    nghttpd_with_http2 Server on 80 needs "nghttpd nghttp"
        server "exec nghttpd --no-tls -d $D 80"
        client "nghttp http://$S/file >got"
    proftpd Server on 21 needs "proftpd curl openssl"
        before "printf 'a:%s:0:0::%s:/bin/sh\n' $(openssl passwd -1 b) $D >users; chmod 600 users
                printf 'ServerName x\nServerType standalone\nPort 21\nUser root\nGroup root\nPidFile \
                %s/pid\nScoreboardFile none\nDelayEngine off
UseReverseDNS off\nWtmpLog off\nUseFtpUsers off\nCapabilitiesEngine off\nRequireValidShell off\nRootLogin on\n\
                AuthOrder mod_auth_file.c\nAuthUserFile %s/users\n' $D $D >conf"
        server "exec proftpd -n -c $D/conf"
        client "curl -sSf -o got ftp://a:b@$S/file"
    dovecot_as_shipped Server on 993 needs "dovecot openssl curl"
        before DOVECOT_CONF
        server "exec dovecot -F -c $D/conf"
        client "for i in 1 2 3; do for u in imap imaps; do
                curl -ksSf $u'://'$S'/INBOX;MAILINDEX=1;SECTION=TEXT' -u a:b | tr -d \
                '\r' >got; cmp got want; done; done"
    dovecot_over_tls Server on 993 needs "dovecot openssl curl"
        before DOVECOT_CONF
        server "printf 'service imap-login {\n service_count=0\n process_min_avail=1\n}\n' >>conf
                exec dovecot -F -c $D/conf"
        client "for i in 1 2 3 4 5 6; do curl -ksSf 'imaps://'$S'/INBOX;MAILINDEX=1;SECTION=TEXT' -u a:b | tr -d \
                '\r' >got; cmp got want; done"
    dovecot_without_tls Server on 143 needs "dovecot openssl curl"
        before DOVECOT_CONF
        server "printf 'ssl=no\nservice imap-login {\n service_count=0\n process_min_avail=1\n}\n' >>conf
                exec dovecot -F -c $D/conf"
        client "for i in 1 2 3 4 5 6; do curl -sSf 'imap://'$S'/INBOX;MAILINDEX=1;SECTION=TEXT' -u a:b | tr -d '\r' \
                >got; cmp got want; done"
    proftpd_anonymous Server on 21 needs "proftpd curl"
        before "mkdir -p root/up; cp file root; chown ftp root/up; head -c 10000000 /dev/urandom >ten
                printf 'ServerName x\nServerType standalone\nPort 21\nUser root\nGroup root\nPidFile \
                %s/pid\nScoreboardFile none\nDelayEngine off
UseReverseDNS off\nWtmpLog off\nUseFtpUsers off\nRequireValidShell off\nAllowOverwrite on\n\
                <Anonymous %s/root>\nUser ftp\nGroup nogroup\nUserAlias anonymous ftp\n\
                RequireValidShell off\n</Anonymous>\n' $D $D >conf"
        server "exec proftpd -n -c $D/conf"
        client FTP
    pure_ftpd Server on 21 needs "pure-ftpd vsftpd curl"
        over "xdp:ms0"
        before "mkdir -p root/up; cp file root; chown ftp root/up; head -c 10000000 /dev/urandom >ten"
        server "exec unshare -m sh -c \"mount --bind $D/root ~ftp; exec pure-ftpd -4 -e -H -S 21 -g $D/pid\""
        client FTP
    unbound_over_tcp Server on 53 needs "unbound dig"
        before "seq -f 10.%.0f 100 | sed 's/.*/local-data: \"a.x. A &.1.1\"/' | { printf 'server:\n interface: \
                0.0.0.0\n do-daemonize: no\n chroot: \"\"
 username: \"\"\n pidfile: \"\"\n use-syslog: no\n access-control: 10.77.0.0/16 allow\n local-zone: x. \
                static\n'; cat; } >conf
                seq -f 10.%.0f.1.1 100 | sort >want"
        server "exec unbound -d -c $D/conf"
        client "dig +tcp +short @$S a.x A | sort >got"
    named_over_tcp Server on 53 needs "named dig"
        over "xdp:ms0"
        before "chmod a+rx .; mkdir home; chown bind home
                { printf '$TTL 60\n@ SOA a b 1 60 60 60 60\n@ NS a\n'; seq -f 'a A 10.%.0f.1.1' 100; } >zone
                printf 'options { directory \"%s/home\"; listen-on { any; }; listen-on-v6 { none; }; pid-file none;
 session-keyfile none; recursion no; }; controls { };\nzone \"x\" { type primary; file \"%s/zone\"; };\n' $D $D >conf
                seq -f 10.%.0f.1.1 100 | sort >want"
        server "exec named -f -u bind -c $D/conf"
        client "dig +tcp +short @$S a.x A | sort >got"
    nsd_over_tcp Server on 53 needs "nsd dig"
        over "xdp:ms0"
        before "chmod a+rx .; mkdir d; chown nobody d
                { printf '$TTL 60\n@ SOA a b 1 60 60 60 60\n@ NS a\n'; seq -f 'a A 10.%.0f.1.1' 100; } >zone
                printf 'server:\n server-count: 2\n ip-address: 0.0.0.0\n username: nobody\n zonesdir: \"%s\"\n \
                pidfile: \"\"\n database: \"\"\n xfrdfile: \"\"\n xfrdir: \"%s/d\"\n zonelistfile: \"%s/d/z\"\n\
                remote-control:\n control-enable: no\nzone:\n name: x\n zonefile: zone\n' $D $D $D >conf
                seq -f 10.%.0f.1.1 100 | sort >want"
        server "exec nsd -d -c $D/conf"
        client "until dig +tcp +short +tries=1 +time=1 @$S a.x A >got; do sleep 0.1; done
                for i in 1 2 3 4 5 6 7 8; do dig +tcp +short @$S a.x A | sort >got; cmp got want; done"
    dnsmasq_over_tcp Server on 53 needs "dnsmasq dig"
        before "seq -f '10.%.0f.1.1 a.x' 100 >hosts; seq -f 10.%.0f.1.1 100 | sort >want"
        server "exec dnsmasq -k -C /dev/null --no-resolv --no-hosts --addn-hosts=$D/hosts --user=root --pid-file="
        client "for i in 1 2 3 4; do dig +tcp +short @$S a.x A | sort >got; cmp got want; done"
    haproxy_with_master_and_worker Server on 80 needs "haproxy curl"
        before "printf 'defaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s
frontend f\n bind 0.0.0.0:80\n default_backend b\nbackend b\n server s %s:8000\n' $C >conf; : $C:8000"
        server "exec haproxy -W -db -f $D/conf"
        client "for i in 1 2 3 4; do curl -sSf -o got http://$S/file; cmp got file; done"
    samba Server on 445 needs "smbd smbclient"
        before "mkdir s; printf '[global]\nmap to guest=Bad User\nguest account=root\ndisable netbios=yes\n\
                smb ports=445\nload printers=no\nlog file=%s/log\n' $D >conf; : >none
                for i in private state cache lock pid; do echo \"$i directory=$D/s\"; done >>conf
                printf 'ncalrpc dir=%s/s/n\n[a]\npath=%s\nguest ok=yes\nread only=no\n' $D $D >>conf"
        server "exec smbd -F -s $D/conf"
        client "smbclient -s none -N //$S/a -c 'put file up; get up got' >log2"
    h2o_with_two_threads Server on 80 needs "h2o curl"
        before "printf 'user: root\nlisten: 80\nnum-threads: 2\nhosts:\n  default:\n    paths:\n      /:\n        \
                file.dir: %s\n' $D >conf"
        server "exec h2o -c $D/conf"
        client "for i in 1 2 3 4; do curl -sSf -o got http://$S/file; cmp got file; done"
    microsocks Server on 1080 needs "microsocks curl"
        server "exec microsocks -p 1080"
        client "for i in 1 2 3; do curl -sSf --socks5 $S:1080 -o got http://$C:8000/file; cmp got file; done"
    inetd Server on 7 needs "inetd ncat"
        before "echo \"7 stream tcp nowait root /bin/cat cat $D/file\" >conf"
        server "exec inetd -i $D/conf"
        client "for i in 1 2 3; do ncat --recv-only $S 7 </dev/null >got; cmp got file; done"
    squid Server on 3128 needs "squid curl"
        over "xdp:ms0"
        before "chmod a+rx .; mkdir log; chown proxy log
                printf 'http_port 3128\nhttp_access allow all\npid_filename none\ncache_log %s/log/cache\naccess_log \
                none\ncache_effective_user proxy\nvisible_hostname x\nnetdb_filename \
                none\npinger_enable off\nshutdown_lifetime 0 seconds\n' $D >conf"
        server "exec squid -N -f $D/conf"
        client "curl -sSf -x http://$S:3128 -o got http://$C:8000/file"
    stunnel Server on 443 needs "stunnel4 openssl curl"
        before "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -subj /CN=x 2>log
                printf 'foreground=yes\npid=\n[a]\naccept=443\nconnect=%s:8000\ncert=%s/cert\nkey=%s/key\n' $C \
                $D $D >conf; : $C:8000"
        server "exec stunnel4 $D/conf"
        client "curl -ksSf -o got https://$S/file"
    hitch Server on 443 needs "hitch openssl curl"
        before "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -subj /CN=x 2>log; cat key cert \
                >pem; : $C:8000"
        server "exec hitch --user=root --backend=[$C]:8000 --frontend=[*]:443 -n 2 $D/pem"
        client "for i in 1 2 3 4; do curl -ksSf -o got https://$S/file; cmp got file; done"
    socat_with_a_child_for_each Server on 7 needs "socat"
        server "exec socat -t 20 TCP-LISTEN:7,fork,reuseaddr EXEC:cat"
        client "socat -t 20 - TCP:$S:7 <file >got"
    webfsd Server on 80 needs "webfsd curl"
        server "exec webfsd -F -p 80 -r $D"
        client "curl -sSf -o got http://$S/file"
    mini_httpd Server on 80 needs "mini_httpd curl"
        server "exec mini_httpd -D -p 80 -d $D -u root -i $D/pid"
        client "curl -sSf -o got http://$S/file"
    tornado Server on 80 needs "/usr/lib/python3/dist-packages/tornado curl"
        server "exec /usr/bin/python3 -c 'import tornado.web as w, tornado.ioloop as l
w.Application([(\"/(.*)\", w.StaticFileHandler, {\"path\": \".\"})]).listen(80); l.IOLoop.current().start()'"
        client "curl -sSf -o got http://$S/file"
    aiohttp Server on 80 needs "/usr/lib/python3/dist-packages/aiohttp curl"
        server "exec /usr/bin/python3 -c 'from aiohttp import web
a = web.Application(); a.router.add_static(\"/\", \".\"); web.run_app(a, port=80, print=None)'"
        client "curl -sSf -o got http://$S/file"
    waitress Server on 80 needs "/usr/lib/python3/dist-packages/waitress curl"
        server "exec /usr/bin/python3 -c 'import waitress
def app(env, start): start(\"200 OK\", []); return [open(\"file\", \"rb\").read()]
waitress.serve(app, listen=\"0.0.0.0:80\")'"
        client "curl -sSf -o got http://$S/file"
    cherrypy Server on 80 needs "/usr/lib/python3/dist-packages/cherrypy curl"
        server "exec /usr/bin/python3 -c 'import cherrypy as c, os
c.config.update({\"server.socket_host\": \"0.0.0.0\", \"server.socket_port\": 80})
c.quickstart(None, \"/\", {\"/\": {\"tools.staticdir.on\": True, \"tools.staticdir.dir\": os.getcwd()}})'"
        client "curl -sSf -o got http://$S/file"
    twisted Server on 80 needs "twistd3 curl"
        server "exec twistd3 -n --pidfile= web --path . --listen tcp:80"
        client "curl -sSf -o got http://$S/file"
    perl_http_daemon Server on 80 needs "curl /usr/share/perl5/HTTP/Daemon.pm"
        server "exec perl -MHTTP::Daemon -e '$d = HTTP::Daemon->new(LocalAddr => \"0.0.0.0\", LocalPort => 80) \
                or die;
while ($c = $d->accept) { while ($r = $c->get_request) { $c->send_file_response(\"file\") } undef $c }'"
        client "curl -sSf -o got http://$S/"
    perl_starman_with_two_workers Server on 80 needs "starman curl"
        before "echo 'sub { open my $f, \"<:raw\", \"file\"; [200, [], $f] }' >app.psgi"
        server "exec starman --workers 2 --listen :80 app.psgi"
        client "for i in 1 2 3 4; do curl -sSf -o got http://$S/; cmp got file; done"
    uwsgi_with_two_workers Server on 80 needs "uwsgi curl /usr/share/doc/uwsgi-plugin-python3"
        before "printf 'def application(env, start):\n start(\"200 OK\", [])\n return [open(\"file\", \
                \"rb\").read()]\n' >a.py"
        server "exec uwsgi --plugin python3 --http-socket 0.0.0.0:80 --master -p 2 --wsgi-file a.py --die-on-term"
        client "for i in 1 2 3 4; do curl -sSf -o got http://$S/; cmp got file; done"
    openldap Server on 389 needs "slapd ldapsearch slapadd"
        before "mkdir db; printf 'include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload \
                back_mdb\npidfile %s/pid\ndatabase mdb
directory %s/db\nsuffix \"o=x\"\nsizelimit unlimited\n' $D $D >conf
                { printf 'dn: o=x\nobjectClass: organization\no: x\n\n'
                  seq 5000 | sed 's/.*/dn: cn=n&,o=x\\nobjectClass: device\\ncn: n&\\n/'; } >ldif
                slapadd -q -f conf -l ldif; seq 5000 | sed 's/^/n/' | sort >want"
        server "exec slapd -d 0 -f conf -h ldap://0.0.0.0/"
        client "ldapsearch -x -LLL -H ldap://$S -b o=x '(objectClass=device)' cn | sed -n 's/^cn: //p' | sort >got"
    beanstalkd Server on 11300 needs "beanstalkd python3"
        server "exec beanstalkd -l 0.0.0.0 -p 11300 -z 4000000"
        client "python3 -c 'import socket, sys
b = open(\"file\", \"rb\").read(); s = socket.create_connection((sys.argv[1], 11300)); f = s.makefile(\"rwb\")
f.write(b\"put 0 0 9 %d\\r\\n\" % len(b) + b + b\"\\r\\n\"); f.flush(); f.readline()
f.write(b\"reserve\\r\\n\"); f.flush(); n = int(f.readline().split()[2]); open(\"got\", \
                \"wb\").write(f.read(n))' $S"
    svnserve Server on 3690 needs "svnserve svn svnadmin"
        before "svnadmin create repo; svn import -q -m one file file://$D/repo/file"
        server "exec svnserve -d --foreground --listen-port 3690 -r $D"
        client "svn cat svn://$S/repo/file >got"
    mercurial Server on 8001 needs "hg"
        before "hg init repo; cp file repo; hg -R repo add -q repo/file; hg -R repo commit -q -m one -u x"
        server "exec hg serve -R repo -a 0.0.0.0 -p 8001"
        client "hg clone -q http://$S:8001/ copy; cp copy/file got"
    privoxy Server on 8118 needs "privoxy curl"
        before "printf 'listen-address 0.0.0.0:8118\nlogdir %s\n' $D >conf"
        server "exec privoxy --no-daemon conf"
        client "curl -sSf -x http://$S:8118 -o got http://$C:8000/file"
    nutcracker_before_redis Server on 22121 needs "nutcracker redis-server redis-cli"
        before "printf 'a:\n listen: 0.0.0.0:22121\n redis: true\n hash: fnv1a_64\n servers:\n - \
                127.0.0.1:6379:1\n' >conf"
        server "setpriv --pdeathsig TERM redis-server --port 6379 --save '' >log &
                until grep -q 'Ready to accept connections' log; do sleep 0.05; done; exec nutcracker -c conf"
        client "redis-cli -h $S -p 22121 -x set a <file >log2; redis-cli -h $S -p 22121 get a | head -c 3000000 \
                >got"
    nbdkit Server on 10809 needs "nbdkit nbdcopy"
        before "head -c 2097152 file >want"
        server "exec nbdkit -f -p 10809 file want"
        client "nbdcopy nbd://$S got"
    dropbear Server on 22 needs "dropbear dropbearkey dbclient"
        before "dropbearkey -t ed25519 -f host >log 2>&1; dropbearkey -t ed25519 -f key | grep ^ssh >allowed"
        server "mkdir .ssh; cp allowed .ssh/authorized_keys; chmod -R go-rwx .; chown -R root:root .
                exec unshare -m sh -c \"mount --bind $D /root; exec dropbear -F -E -p 22 -r $D/host\""
        client "dbclient -y -y -i key root@$S cat $D/file >got"
    ncat_that_keeps_listening Server on 7 needs "ncat"
        before "cat file file file >want"
        server "exec ncat -lk --recv-only -p 7 >kept"
        client "for i in 1 2 3; do ncat --send-only $S 7 <file
                until [ $(wc -c <kept) -ge $((3000000 * i)) ]; do sleep 0.05; done; done; cp kept got"
    ncat_that_runs_a_command Server on 7 needs "ncat"
        server "exec ncat -lk --send-only -p 7 -c \"cat $D/file\""
        client "for i in 1 2 3; do ncat --recv-only $S 7 </dev/null >got; cmp got file; done"
    exim4_smtp Server on 25 needs "exim4 python3"
        before "mkdir spool box; chmod 777 spool box; base64 file | head -c 2000000 >want
                printf 'exim_user=root\nexim_group=root\nspool_directory=%s/spool\nlog_file_path=%s/log_%%s\n\
                pid_file_path=%s/pid\nprimary_hostname=x\nlocal_interfaces=0.0.0.0\ndomainlist local=*\n\
                acl_smtp_rcpt=accept\nacl_smtp_data=accept\nnever_users=\nhost_lookup=\nrfc1413_hosts=\n\
                message_size_limit=8M\nkeep_environment=\n
begin routers\na:\n driver=accept\n transport=f\nbegin transports\nf:\n driver=appendfile\n file=%s/box/mail\n\
                user=nobody\n group=nogroup\n create_file=anywhere\n' $D $D $D $D >conf"
        server "exec exim4 -bdf -q1h -C $D/conf"
        client "python3 -c 'import smtplib, sys
s = smtplib.SMTP(sys.argv[1]); s.sendmail(\"a@x\", [\"b@x\"], b\"Subject: a\\n\\n\" + open(\"want\", \
                \"rb\").read())
s.quit()' $S
                until [ $(wc -c 2>none <box/mail || echo 0) -gt 2000000 ]; do sleep 0.05; done
                sed '1,/^$/d' box/mail | head -c $(wc -c <want) >got"
}

// Clients on the stack.
rows! {
    aria2 Client on 80 needs "aria2c nginx"
        before "printf 'user root;daemon off;pid %s/pid;events{}http{access_log off;client_body_temp_path \
                %s/b;proxy_temp_path %s/p;
fastcgi_temp_path %s/f;uwsgi_temp_path %s/u;scgi_temp_path %s/s;server{listen 80;root %s;}}' $D $D $D $D $D $D \
                $D >conf"
        server "exec nginx -c $D/conf -e stderr"
        client "aria2c -q -x 4 -s 4 -k 1M -o got http://$S/file"
    grpc_of_python Client on 50051 needs "/usr/lib/python3/dist-packages/grpc"
        server "exec /usr/bin/python3 -c 'import grpc, concurrent.futures as f
class H(grpc.GenericRpcHandler):
    def service(self, d): return grpc.unary_unary_rpc_method_handler(lambda q, c: open(\"file\", \"rb\").read())
s = grpc.server(f.ThreadPoolExecutor(4)); s.add_generic_rpc_handlers((H(),))
s.add_insecure_port(\"0.0.0.0:50051\"); s.start(); s.wait_for_termination()'"
        client "/usr/bin/python3 -c 'import grpc, os
c = grpc.insecure_channel(os.environ[\"S\"] + \":50051\")
for i in range(4): open(\"got\", \"wb\").write(c.unary_unary(\"/a/b\")(b\"x\", timeout=20))'"
    java_of_urls Client on 80 needs "java javac python3"
        before "printf 'import java.net.*; import java.nio.file.*; public class A { public static void main(String[] a)
throws Exception { try (var in = new URL(\"http://\" + System.getenv(\"S\") + \"/file\").openStream()) {
Files.copy(in, Path.of(\"got\")); } } }' >A.java"
        server "exec python3 -m http.server 80"
        client "java A.java"
    lftp Client on 21 needs "lftp vsftpd"
        before VSFTPD_CONF
        server VSFTPD
        client "lftp -c \"open $S; get file -o got\""
    ssh Client on 22 needs "sshd ssh ssh-keygen"
        before SSH_KEYS
        server SSHD
        client SSH
    rsync_client Client on 873 needs "rsync"
        before "printf '[files]\npath = %s\nuse chroot = no\nuid = root\ngid = root\n' $D >conf"
        server "exec rsync --daemon --no-detach --port 873 --config conf"
        client "rsync rsync://$S/files/file got"
    git_client Client on 9418 needs "git"
        before "git init -q work; cd work; cp ../file .; git add file
                git -c user.name=a -c user.email=a@b.c commit -qm one; cd ..; git clone -q --bare work bare"
        server "exec git daemon --base-path=$D --export-all --reuseaddr"
        client "git clone -q git://$S/bare copy; cp copy/file got"
    mariadb_client Client on 3306 needs "mariadbd mariadb mariadb-install-db xxd"
        before MARIADB_FILES
        server MARIADBD
        client MARIADB
}
