//! The rows: suites of other projects, and how each is run.

use super::output::Format;

/// A suite of another project. `.ci/suites` fetches it into a folder of its name.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Shell command that runs one part, in the suite's folder. `$PART` is the part, `$W` an empty folder.
    pub(super) command: &'static str,
    pub(super) format: Format,
    pub(super) parts: &'static [Part],
}

pub(super) struct Part {
    pub(super) name: &'static str,
    /// Longest time of one run, in seconds.
    pub(super) limit: u64,
    /// Part of the short form.
    pub(super) short: bool,
}

const fn part(name: &'static str, limit: u64) -> Part {
    Part { name, limit, short: false }
}

const fn short(name: &'static str, limit: u64) -> Part {
    Part { name, limit, short: true }
}

/// VSOCK has no other end in a virtual machine, and waits for one for ever.
const CPYTHON: &str = "cd $W; PYTHONHOME=$S/root/usr exec $S/root/usr/bin/python3.11 -m test -v -u network \
     -i 'ThreadedVSOCK*' $LEFT_OUT $PART";

/// Variable LEFT_OUT of the short form: slow classes of CPython's test_socket.
pub(super) const LEFT_OUT: &str = "-i GeneralModuleTests -i SendfileUsing*";

/// Processes that a test leaves running would keep its port, so each test has a process namespace.
const LIBUV: &str = "cd $W; cp -r $S/src/test .; export UV_RUN_AS_ROOT=1 UV_TEST_TIMEOUT_MULTIPLIER=4
     for t in $($S/build/uv_run_tests --list); do
         unshare --pid --fork --kill-child --mount-proc $S/build/uv_run_tests $t
     done";

/// Tests of one program in order: what one prints stays with its name.
const RUST: &str = "cd $W; for program in $S/bin/*; do
         echo program ${program##*/}
         $program --test-threads 1
     done";

const PHP: &str = "cd $S/src; d=ext/$PART/tests; [ -d $d ] || d=ext/standard/tests/$PART
     cp -r --parents run-tests.php $d ext/ftp/tests sapi/cli/tests $W; cd $W
     export TEST_PHP_EXECUTABLE=$(which php) NO_INTERACTION=1 SKIP_ONLINE_TESTS=1
     exec php run-tests.php -q --no-color --set-timeout 30 $d";

const NETTY: &str = "cd $W; exec java -jar $S/jars/junit-platform-console-standalone-*.jar execute --disable-banner \
     --disable-ansi-colors --details testfeed --include-classname '.*' \
     -cp $(ls $S/jars/*.jar | grep -v /junit | tr '\\n' :) --select-package io.netty.testsuite.transport";

pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "cpython",
        about: "CPython's tests, package libpython3.11-testsuite",
        command: CPYTHON,
        format: Format::Unittest,
        parts: &[
            short("test_select", 60),
            short("test_selectors", 120),
            short("test_socketserver", 120),
            short("test_socket", 300),
            part("test_epoll", 60),
            part("test_poll", 60),
            part("test_asyncore", 120),
            part("test_asynchat", 120),
            part("test_httplib", 120),
            part("test_httpservers", 120),
            part("test_urllib2_localnet", 120),
            part("test_wsgiref", 120),
            part("test_ftplib", 120),
            part("test_smtplib", 120),
            part("test_smtpd", 120),
            part("test_poplib", 120),
            part("test_imaplib", 180),
            part("test_nntplib", 120),
            part("test_telnetlib", 120),
            part("test_xmlrpc", 180),
            part("test_docxmlrpc", 120),
            part("test_ssl", 300),
            part("test_logging", 300),
            part("test_asyncio", 600),
            part("test_multiprocessing_fork", 600),
            part("test_multiprocessing_spawn", 600),
            part("test_multiprocessing_forkserver", 600),
        ],
    },
    Suite {
        name: "libevent",
        about: "libevent's regress, source package libevent, one process for each test",
        command: "cd $W; exec $S/src/test/regress $PART/..",
        format: Format::Tinytest,
        parts: &[
            part("main", 300),
            part("evbuffer", 120),
            part("bufferevent", 300),
            part("http", 300),
            part("dns", 300),
            part("rpc", 120),
            part("listener", 120),
            part("util", 120),
            part("thread", 120),
        ],
    },
    Suite {
        name: "libuv",
        about: "libuv's tests, source package libuv1, one process for each test",
        command: LIBUV,
        format: Format::Tap,
        parts: &[part("all", 600)],
    },
    Suite {
        name: "perl",
        about: "tests of modules in source package perl, with the system's perl",
        command: "cp -r $S/src/*/$PART $W; cd $W/$PART; exec prove -v t",
        format: Format::Prove,
        parts: &[part("IO-Socket-IP", 120), part("IO", 120), part("Socket", 60), part("libnet", 120)],
    },
    Suite {
        name: "tokio",
        about: "those of tokio's tests that use sockets, crate tokio",
        command: RUST,
        format: Format::Libtest,
        parts: &[part("all", 600)],
    },
    Suite {
        name: "mio",
        about: "mio's tests, from its repository",
        command: RUST,
        format: Format::Libtest,
        parts: &[part("all", 600)],
    },
    Suite {
        name: "php",
        about: "tests of PHP's extensions, source package php8.2, with the system's php",
        command: PHP,
        format: Format::Phpt,
        parts: &[
            part("sockets", 300),
            part("streams", 300),
            part("network", 300),
            part("http", 300),
            part("openssl", 600),
        ],
    },
    Suite {
        name: "netty",
        about: "netty's tests of transports, artifact io.netty:netty-testsuite, with the system's java",
        command: NETTY,
        format: Format::Testfeed,
        parts: &[part("all", 900)],
    },
];
