/*
 * millstream.h: a user-level TCP stack for C programs. docs/C.md is the guide.
 *
 * The first argument is the context: one core's stack, with connections, ports and descriptors of its own. Calls are
 * those of Linux by name, arguments, structures and errors: -1 (or NULL) and errno when they fail. Besides, any call
 * gives EFAULT without a context, ECHILD in a process forked after it was opened, EIO for a fault in the stack.
 *
 * Threads: any number may call on the same context, one at a time gets on; a program that scales gives each thread a
 * context of its own. Signal handlers must not call, and do not end a call that waits: write to a pipe (ms_pipe) from
 * an ordinary thread instead.
 *
 * This file is made from the library's source (cargo xtask headers).
 */
#ifndef MILLSTREAM_H
#define MILLSTREAM_H

#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One core's stack. */
struct ms_ctx;

/** Memory that connections refer to instead of copying it. */
struct ms_buffer;

/** A congestion control policy: millstream_cc.h. */
struct millstream_cc;

/* Of sys/socket.h, where _GNU_SOURCE is defined. */
struct mmsghdr;

/* The name of ms_buffer_bytes() until the next version. */
#define ms_buffer_octets ms_buffer_bytes

/** Callback of ms_borrow(), called once for each piece of received data; a nonzero return ends the calls. */
typedef int ms_look(void *arg, const void *bytes, size_t len);

/* --- Opening and closing --- */

/**
 * Opens a stack of one core.
 *
 * `settings` holds names and values in turn and a NULL at the end:
 * `{"link", "tap:mst0", "address", "10.0.0.1/24", NULL}`. `millstream settings` lists the names; "config" names a
 * TOML file with more of them. The file comes first, then the environment (`MILLSTREAM_LINK`, ...), then the
 * list: the later wins. NULL takes the environment alone.
 *
 * NULL with EINVAL for a setting that cannot be, EPERM or EACCES for a missing privilege, ENODEV for a link that
 * cannot be opened otherwise; ms_error() says what to do.
 */
struct ms_ctx *ms_open(const char *const *settings);

/**
 * Opens a stack of `cores` cores, each with its own queue of the link, connections and ports, and puts a context
 * for each into `into`. Give each to its own thread. Listeners of several cores share a port with SO_REUSEPORT.
 */
int ms_open_cores(const char *const *settings, struct ms_ctx **into, int cores);

/**
 * Closes all descriptors of a context, waits `timeout_ms` at most until the peers have what was sent, and frees
 * it: nothing may use it afterwards, or be inside a call at the time. -1 with EAGAIN if there was something left.
 */
int ms_close_ctx(struct ms_ctx *ctx, int timeout_ms);

/** One sentence on this thread's last failure that had one to say; never NULL. Valid until the next one. */
const char *ms_error(void);

/** The library's version. */
const char *ms_version(void);

/* --- Sockets: socket(2), bind(2), listen(2), accept(2), connect(2), shutdown(2) and their names --- */

/**
 * socket(2) for TCP: AF_INET or AF_INET6; SOCK_STREAM, with SOCK_NONBLOCK and SOCK_CLOEXEC if you like; protocol
 * 0, IPPROTO_TCP, or IPPROTO_MPTCP, which is taken as TCP: so it is with any peer without Multipath TCP. The
 * descriptor is this context's, not the kernel's, and starts at 0.
 */
int ms_socket(struct ms_ctx *ctx, int domain, int type, int protocol);

/** bind(2). */
int ms_bind(struct ms_ctx *ctx, int fd, const struct sockaddr *addr, socklen_t len);

/** listen(2). */
int ms_listen(struct ms_ctx *ctx, int fd, int backlog);

/** accept(2): `addr` may be NULL. Waits unless the listener is non-blocking; the new socket is blocking. */
int ms_accept(struct ms_ctx *ctx, int fd, struct sockaddr *addr, socklen_t *len);

/** accept4(2): with SOCK_NONBLOCK and SOCK_CLOEXEC. */
int ms_accept4(struct ms_ctx *ctx, int fd, struct sockaddr *addr, socklen_t *len, int flags);

/** connect(2). AF_UNSPEC takes a connection apart: the socket may connect or listen again. */
int ms_connect(struct ms_ctx *ctx, int fd, const struct sockaddr *addr, socklen_t len);

/** shutdown(2). */
int ms_shutdown(struct ms_ctx *ctx, int fd, int how);

/** getsockname(2). */
int ms_getsockname(struct ms_ctx *ctx, int fd, struct sockaddr *addr, socklen_t *len);

/** getpeername(2). */
int ms_getpeername(struct ms_ctx *ctx, int fd, struct sockaddr *addr, socklen_t *len);

/* --- Bytes: read(2), write(2), recv(2), send(2) and their kin --- */

/** read(2), from a socket or a pipe. */
ssize_t ms_read(struct ms_ctx *ctx, int fd, void *to, size_t len);

/** write(2), to a socket or a pipe. A blocking socket takes everything. There is no SIGPIPE: EPIPE is all. */
ssize_t ms_write(struct ms_ctx *ctx, int fd, const void *from, size_t len);

/** readv(2). */
ssize_t ms_readv(struct ms_ctx *ctx, int fd, const struct iovec *vectors, int count);

/** writev(2): nothing of another call comes between the parts. */
ssize_t ms_writev(struct ms_ctx *ctx, int fd, const struct iovec *vectors, int count);

/** recv(2) with MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_TRUNC; MSG_OOB is EINVAL. */
ssize_t ms_recv(struct ms_ctx *ctx, int fd, void *to, size_t len, int flags);

/** send(2) with MSG_DONTWAIT, MSG_MORE, MSG_EOR, MSG_ZEROCOPY, MSG_FASTOPEN; there is no SIGPIPE. */
ssize_t ms_send(struct ms_ctx *ctx, int fd, const void *from, size_t len, int flags);

/** recvfrom(2): a TCP socket names no peer, so `*addr_len` becomes 0. */
ssize_t ms_recvfrom(struct ms_ctx *ctx, int fd, void *to, size_t len, int flags,
                    struct sockaddr *addr, socklen_t *addr_len);

/**
 * sendto(2): the address counts with MSG_FASTOPEN, which connects to it with data in the SYN; else it is ignored,
 * as on Linux.
 */
ssize_t ms_sendto(struct ms_ctx *ctx, int fd, const void *from, size_t len, int flags,
                  const struct sockaddr *addr, socklen_t addr_len);

/* --- recvmsg(2), sendmsg(2) and several of them at once --- */

/**
 * recvmsg(2): TCP_CM_INQ and times of arrival where they were asked for; with MSG_ERRQUEUE, completions of
 * MSG_ZEROCOPY and times of sending. Times are on the clock of ms_clock().
 */
ssize_t ms_recvmsg(struct ms_ctx *ctx, int fd, struct msghdr *message, int flags);

/** sendmsg(2). Control messages that mean something to Linux's TCP are EOPNOTSUPP. */
ssize_t ms_sendmsg(struct ms_ctx *ctx, int fd, const struct msghdr *message, int flags);

/**
 * recvmmsg(2): several times ms_recvmsg, with MSG_WAITFORONE if you like. The time-out is looked at between the
 * messages, as on Linux, and what is left of it is put there. A pending error comes before data. One behind the
 * first message is the next call's.
 */
int ms_recvmmsg(struct ms_ctx *ctx, int fd, struct mmsghdr *list, unsigned int count, int flags,
                struct timespec *timeout);

/** sendmmsg(2): several times ms_sendmsg, 1,024 of them at most. Where one fails behind others, errno says why. */
int ms_sendmmsg(struct ms_ctx *ctx, int fd, struct mmsghdr *list, unsigned int count, int flags);

/* --- Descriptors: close(2), dup(2), pipe(2), and what fcntl(2) and ioctl(2) do for sockets --- */

/**
 * close(2). What was written still leaves, unless SO_LINGER says otherwise: keep the context open until it has,
 * or close it with ms_close_ctx, which waits.
 */
int ms_close(struct ms_ctx *ctx, int fd);

/** dup(2). */
int ms_dup(struct ms_ctx *ctx, int fd);

/** pipe2(2): a pipe between threads of this context, for epoll and poll beside sockets. O_NONBLOCK and O_CLOEXEC. */
int ms_pipe2(struct ms_ctx *ctx, int *ends, int flags);

/** pipe(2). */
int ms_pipe(struct ms_ctx *ctx, int *ends);

/**
 * fcntl(2) with F_GETFL and F_SETFL (O_NONBLOCK), F_GETFD and F_SETFD (FD_CLOEXEC, which always holds), F_DUPFD
 * and F_DUPFD_CLOEXEC (from 0 on); `arg` is an int and always given. EINVAL for others.
 */
int ms_fcntl(struct ms_ctx *ctx, int fd, int command, int arg);

/** ioctl(2) with FIONREAD (SIOCINQ), SIOCOUTQ, SIOCOUTQNSD and FIONBIO; ENOTTY for others. */
int ms_ioctl(struct ms_ctx *ctx, int fd, unsigned long request, int *value);

/* --- Socket options --- */

/**
 * setsockopt(2), with Linux's numbers and structures; docs/C.md lists them. ENOPROTOOPT for what this stack does
 * not know: nothing succeeds without an effect.
 */
int ms_setsockopt(struct ms_ctx *ctx, int fd, int level, int name, const void *value,
                  socklen_t len);

/** getsockopt(2), with Linux's numbers and structures. */
int ms_getsockopt(struct ms_ctx *ctx, int fd, int level, int name, void *value, socklen_t *len);

/* --- Congestion control of the program's own --- */

/**
 * Offers a policy of the program's own, as millstream_cc.h describes it, on all cores that were opened together:
 * sockets choose it with TCP_CONGESTION, and "net.inet.tcp.cc.NAME" in the tree of names tunes it, withdraws it
 * ("quiesced") and counts its users. No shared library, and no millstream_cc_policy(), is needed.
 *
 * The table is copied. Its hooks are called until the policy has been unregistered from every context and the last
 * connection that has it is closed, from whichever thread turns the stack; they must not call this library.
 * EINVAL for a table that is not what the header says (ms_error() tells why), EEXIST where there is a policy of
 * that name, EBUSY where there are too many or init() refuses.
 */
int ms_cc_register(struct ms_ctx *ctx, const struct millstream_cc *policy);

/**
 * Takes a policy away on all cores: no new connection gets it. One that is the default, or that connections or
 * listeners use, stays (EBUSY), unless `force` is not 0: then these go on with "newreno" and the window that they
 * have. EPERM for newreno itself, ENOENT where there is no such policy.
 */
int ms_cc_unregister(struct ms_ctx *ctx, const char *name, int force);

/* --- Waiting for several descriptors: epoll(7) and poll(2) --- */

/** epoll_create(2): as many sets as you like; `size` must be positive and means nothing. */
int ms_epoll_create(struct ms_ctx *ctx, int size);

/** epoll_create1(2): EPOLL_CLOEXEC or 0. */
int ms_epoll_create1(struct ms_ctx *ctx, int flags);

/**
 * epoll_ctl(2): level, edge (EPOLLET) and one-shot; sockets, pipes and other sets of this context, not the
 * kernel's descriptors.
 */
int ms_epoll_ctl(struct ms_ctx *ctx, int epfd, int op, int fd, struct epoll_event *event);

/** epoll_wait(2): milliseconds, -1 for ever. A signal ends it (EINTR), and so can a pipe. */
int ms_epoll_wait(struct ms_ctx *ctx, int epfd, struct epoll_event *events, int max,
                  int timeout_ms);

/** poll(2), for descriptors of this context. */
int ms_poll(struct ms_ctx *ctx, struct pollfd *fds, nfds_t count, int timeout_ms);

/* --- Without a copy: received bytes where they lie, and memory that a connection refers to until the peer has it --- */

/**
 * Shows `look` at most `max` received bytes where they lie, piece by piece, until there are no more or it returns
 * nonzero; how many were shown. They stay until ms_consume() drops them, their place only until `look` returns.
 * Never waits: -1 with EAGAIN if there is nothing, 0 at the end. `look` must not call this library (EDEADLK).
 */
ssize_t ms_borrow(struct ms_ctx *ctx, int fd, size_t max, ms_look *look, void *arg);

/** Drops `len` bytes that ms_borrow() has shown. */
int ms_consume(struct ms_ctx *ctx, int fd, size_t len);

/**
 * send(2) of `len` bytes of a buffer from `offset` on, without a copy where the link can (docs/C.md): the
 * connection refers to the buffer until the peer has acknowledged them, and so long it stays busy.
 */
ssize_t ms_lend(struct ms_ctx *ctx, int fd, const struct ms_buffer *buffer, size_t offset,
                size_t len, int flags);

/** A buffer of `len` bytes, all zero, for ms_lend(). Any number of connections and contexts may be lent it. */
struct ms_buffer *ms_buffer_new(size_t len);

/**
 * The bytes of a buffer, to be written to; ask again after each ms_lend(). NULL with EBUSY while a connection
 * refers to them.
 */
void *ms_buffer_bytes(struct ms_buffer *buffer);

/** 1 while a connection refers to the buffer, else 0. */
int ms_buffer_busy(const struct ms_buffer *buffer);

/** Gives a buffer up; connections that refer to it still finish. */
int ms_buffer_free(struct ms_buffer *buffer);

/* --- Information about a running stack --- */

/**
 * Counters, table sizes and memory of the core as JSON, what `millstream stat --json` shows. Like snprintf(3): at
 * most `room` bytes with the NUL; returns the length of the whole text.
 */
int ms_stats(struct ms_ctx *ctx, char *into, size_t room);

/**
 * Every listener, connection and TIME-WAIT entry of the core as a JSON array, what `millstream ss` shows. Like
 * snprintf(3).
 */
int ms_connections(struct ms_ctx *ctx, char *into, size_t room);

/**
 * The value of a name of the run-time tree (docs/OBSERVING.md): "net.inet.tcp.cc.algorithm". Like snprintf(3).
 * ENOENT for a name that does not exist, EPERM for one that can only be written; ms_error() says more.
 */
int ms_sysctl_get(struct ms_ctx *ctx, const char *name, char *into, size_t room);

/**
 * Sets it, on all cores that were opened together. EINVAL for a value that cannot be, EPERM for a name that can
 * only be read, EBUSY for what is in use.
 */
int ms_sysctl_set(struct ms_ctx *ctx, const char *name, const char *value);

/**
 * The names below `prefix` ("" for all) as a JSON array: name, access ("r", "rw" or "w"), form, help. Like
 * snprintf(3).
 */
int ms_sysctl_list(struct ms_ctx *ctx, const char *prefix, char *into, size_t room);

/** The time on the clock of the stamps that ms_recvmsg() tells; all contexts of a process share it. */
int ms_clock(struct ms_ctx *ctx, struct timespec *now);

#ifdef __cplusplus
}
#endif

#endif /* MILLSTREAM_H */
