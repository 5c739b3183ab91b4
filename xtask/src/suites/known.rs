//! Differences between the kernel and the stack that are known, each with its cause.

/// A test that has another result on the stack than on the kernel.
pub(super) struct Known {
    /// SUITE/PART.
    pub(super) row: &'static str,
    pub(super) test: &'static str,
    pub(super) cause: &'static str,
    /// It differs in every run; otherwise the threads' order decides.
    pub(super) always: bool,
}

const URGENT: &str = "there is no urgent data";
const PASSED: &str = "connections and listeners cannot be passed to another process (SCM_RIGHTS)";
const OPENING: &str =
    "the stack is opened when it is first needed, and that takes descriptors: with none left it fails";
const LATER: &str =
    "a packet of the stack's loopback arrives with a later turn of the stack, and on Linux within the call";

const fn known(row: &'static str, test: &'static str, cause: &'static str) -> Known {
    Known { row, test, cause, always: true }
}

const fn sometimes(row: &'static str, test: &'static str, cause: &'static str) -> Known {
    Known { row, test, cause, always: false }
}

pub(super) const KNOWN: &[Known] = &[
    sometimes("cpython/test_asynchat", "test.test_asynchat.TestAsynchat.test_close_when_done", LATER),
    sometimes(
        "cpython/test_asynchat",
        "test.test_asynchat.TestAsynchat_WithPoll.test_close_when_done",
        LATER,
    ),
    known("cpython/test_asyncore", "test.test_asyncore.TestAPI_UseIPv4Poll.test_handle_expt", URGENT),
    known("cpython/test_asyncore", "test.test_asyncore.TestAPI_UseIPv4Select.test_handle_expt", URGENT),
    known("cpython/test_asyncore", "test.test_asyncore.TestAPI_UseIPv6Poll.test_handle_expt", URGENT),
    known("cpython/test_asyncore", "test.test_asyncore.TestAPI_UseIPv6Select.test_handle_expt", URGENT),
    known("cpython/test_ftplib", "test.test_ftplib.TestFTPClass.test_abort", URGENT),
    sometimes(
        "cpython/test_ssl",
        "test.test_ssl.TestPreHandshakeClose.test_preauth_data_to_tls_server",
        LATER,
    ),
    known("libevent/dns", "dns/bufferevent_connect_hostname_emfile", OPENING),
    known("libuv/all", "emfile", OPENING),
    known("libuv/all", "ipc_listen_after_write", PASSED),
    known("libuv/all", "ipc_listen_before_write", PASSED),
    known("libuv/all", "ipc_tcp_connection", PASSED),
    known("libuv/all", "poll_oob", URGENT),
    known("libuv/all", "tcp_oob", URGENT),
    sometimes("libuv/all", "tcp_try_write_error", LATER),
    known("tokio/all", "io_async_fd priority_event_on_oob_data", URGENT),
    known("php/sockets", "ext/sockets/tests/socket_meminfo", "SO_MEMINFO is ENOPROTOOPT"),
    known("mio/all", "tcp_stream priority_event_on_oob_data", URGENT),
];
