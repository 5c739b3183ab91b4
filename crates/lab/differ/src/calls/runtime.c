/*
 * Runs programs of socket calls and prints their results, one line a step. The same on the kernel and under the
 * launcher. `f` are descriptors of the program, `p` those of the peer: sockets of the kernel in the namespace argv[1],
 * used by the system calls themselves, past the C library.
 *
 * No step waits for a time. After each step a byte goes from the peer to the program and back over a connection of
 * their own, until the link's counters say that nothing else was on it, and three times at most; never after a step
 * that sends nothing. The link keeps its order, so all that either end had sent by then has been seen by the other.
 * A call that may block runs in a thread of its own. Each step ends when every such call has returned or is asleep: in
 * a system call that waits for an event, with a round trip before. A call that a step wakes is told behind that step.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <linux/sockios.h>
#include <unistd.h>

#define SLOTS 8
#define ARGS 10
#define MARK_PORT 19999
#define MUCH 20000

struct step {
    const char *name;
    long a[ARGS];
};

/* A call of the program: its text, and the thread that makes it. */
struct task {
    char out[3000];
    int at, number;
    const struct step *step;
    void (*run)(struct task *, const long *);
    volatile int tid, has_work, started, done;
    /* Of /proc, the system call that the thread is in, and its state. */
    int call, state;
    pthread_t thread;
    pthread_cond_t work;
};

enum { WORKERS = 4 };
static struct task workers[WORKERS], plain;
static int f[SLOTS], p[SLOTS], mark[2] = { -1, -1 }, home, away, base, in_child, on_stack;
static int own[256], owned, theirs[64], ends, counters[2] = { -1, -1 };
/* Packets on the link when the last round trip was over; -1 where the kernel does not say. */
static long counted;
/* The link's counters do not tell all: a connection to itself, or one that a thread relays for a child. */
static int is_hidden;
static volatile int now_at, handled;
static __thread int pipes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Zeros that fill a connection, and room for what arrives: no program sends what another one has received. */
static char *edge, room[70000];
static const char zeros[sizeof room];

static long round_trip(void);

static long raw(long number, long a, long b, long c, long d, long e, long g)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = g;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    if (result < 0) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
#define RAW(name, ...) RAW_(name, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RAW_(name, a, b, c, d, e, g, ...) \
    raw(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(g))

static void say(struct task *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int room = (int)sizeof t->out - t->at, n = vsnprintf(t->out + t->at, (size_t)room, format, list);
    va_end(list);
    t->at += n < room ? n : room - 1;
}

static const char *error(void)
{
    const char *name = strerrorname_np(errno);
    return name ? name : "?";
}

/*
 * Has the peer data that its window takes, and nothing under way? Its kernel sends by itself, and may put it off: no
 * packet tells of that.
 */
static int is_put_off(void)
{
    /* Of the kernel's struct tcp_info: tcpi_snd_mss, tcpi_unacked, tcpi_notsent_bytes and tcpi_snd_wnd. */
    enum { SND_MSS = 4, UNACKED = 6, NOTSENT = 36, SND_WND = 57 };
    /* States that send data. A connection that was reset still counts what it had not sent. */
    const unsigned sends = 1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_CLOSE_WAIT;
    for (int i = 0; i < SLOTS; i++) {
        uint32_t info[64] = { 0 };
        socklen_t len = sizeof info;
        if (p[i] < 0 || RAW(getsockopt, p[i], IPPROTO_TCP, TCP_INFO, info, &len) < 0 || len <= 4 * SND_WND)
            continue;
        uint32_t full = info[SND_MSS];
        if (sends >> *(unsigned char *)info & 1 && info[UNACKED] == 0 && info[NOTSENT] >= full && info[SND_WND] >= full)
            return 1;
    }
    return 0;
}

/* A round trip, unless one brought nothing and was alone on the link, or four brought nothing; errno stays. */
static int again(int *quiet)
{
    static long others;
    int e = errno;
    if ((*quiet >= 4 || (*quiet > 0 && others == 0)) && (*quiet >= 500 || !is_put_off()))
        return 0;
    others = round_trip();
    errno = e;
    ++*quiet;
    return 1;
}

/* A result, with the error if there is one. */
static long tell(struct task *t, long result)
{
    int e = errno;
    say(t, " %ld", result);
    errno = e;
    if (result < 0)
        say(t, " %s", error());
    return result;
}

static void on_signal(int number)
{
    if (number == SIGPIPE)
        pipes++;
    else
        handled++;
}

static void on_end(int number)
{
    char text[100];
    int n = snprintf(text, sizeof text, "%d: %s\n!\n", now_at, number == SIGALRM ? "hangs" : "crashes");
    if (!in_child) {
        fflush(stdout);
        RAW(write, 1, text, n);
    }
    RAW(exit_group, number == SIGALRM ? 5 : 6);
}

static void fail(const char *what)
{
    printf("%d: %s: %s\n!\n", now_at, what, error());
    fflush(stdout);
    RAW(exit_group, 4);
}

/* Packets that went over the link so far, in either direction; -1 where the kernel does not say. */
static long packets(void)
{
    long all = 0;
    for (int i = 0; i < 2; i++) {
        char text[32];
        long n = RAW(pread64, counters[i], text, sizeof text - 1, 0);
        if (n < 0)
            return -1;
        text[n] = 0;
        all += strtol(text, NULL, 10);
    }
    return all;
}

/* A stack that sends when the program waits does so here. */
static void turn(void)
{
    struct pollfd row = { .fd = mark[0], .events = POLLIN };
    if (on_stack)
        poll(&row, 1, 0);
}

/* Has nothing been on the link since the last round trip? */
static int is_quiet(void)
{
    if (is_hidden || counted < 0)
        return 0;
    turn();
    return packets() == counted;
}

/* Sends a byte to the program and back. Returns how many other packets went over the link meanwhile. */
static long round_trip(void)
{
    char c = 'm';
    int on = 1;
    if (in_child)
        return 0;
    long before = packets();
    for (int k = 0; k < SLOTS; k++)
        if (p[k] >= 0)
            RAW(setsockopt, p[k], IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    RAW(sendto, mark[1], &c, 1, MSG_NOSIGNAL);
    for (int i = 0;; i++) {
        long n = recv(mark[0], &c, 1, MSG_DONTWAIT);
        if (n == 1)
            break;
        if (n == 0 || (errno != EAGAIN && errno != EINTR) || i > 3000)
            fail("the control connection ended");
        struct pollfd row = { .fd = mark[0], .events = POLLIN };
        poll(&row, 1, 1);
    }
    if (send(mark[0], &c, 1, MSG_NOSIGNAL) != 1)
        fail("the control connection ended");
    turn();
    if (RAW(recvfrom, mark[1], &c, 1, MSG_DONTWAIT) != 1) {
        struct pollfd row = { .fd = mark[1], .events = POLLIN };
        if (RAW(poll, &row, 1, 3000) != 1 || RAW(recvfrom, mark[1], &c, 1) != 1)
            fail("the control connection ended");
    }
    counted = packets();
    /* The byte, its echo and the peer's acknowledgment are its own. */
    return is_hidden || counted < 0 ? 1 : counted - before > 3 ? counted - before - 3 : 0;
}

/* Fills in an address; its length. `kind` as in the list of the generator. */
static socklen_t address(struct sockaddr_storage *to, long kind, long port, const void **at)
{
    static const char *const V4[] = { "10.77.1.1", "0.0.0.0", "10.77.0.1", "127.0.0.1" };
    static const char *const V6[] = { "fd77::2", "::", "fd77::1", "::1" };
    static const char *const MAPPED[] = { "::ffff:10.77.1.1", "::ffff:0.0.0.0", "::ffff:10.77.0.1",
                                          "::ffff:127.0.0.1" };
    memset(to, 0, sizeof *to);
    *at = to;
    in_port_t number = htons((uint16_t)(port < 0 ? 0 : base + port));
    if (kind < 4) {
        struct sockaddr_in *a = (struct sockaddr_in *)to;
        a->sin_family = AF_INET, a->sin_port = number;
        inet_pton(AF_INET, V4[kind], &a->sin_addr);
        return sizeof *a;
    }
    if (kind < 12) {
        struct sockaddr_in6 *a = (struct sockaddr_in6 *)to;
        a->sin6_family = AF_INET6, a->sin6_port = number;
        inet_pton(AF_INET6, kind < 8 ? V6[kind - 4] : MAPPED[kind - 8], &a->sin6_addr);
        return sizeof *a;
    }
    to->ss_family = kind == 12 ? AF_UNSPEC : AF_UNIX;
    if (kind == 14)
        *at = NULL;
    if (kind == 15)
        *at = edge + 4096;
    return sizeof(struct sockaddr_in);
}

static void show_address(struct task *t, const struct sockaddr_storage *a, socklen_t len)
{
    char text[64] = "";
    int port = 0;
    if (a->ss_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
        port = ntohs(v4->sin_port);
    } else if (a->ss_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
        inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
        port = ntohs(v6->sin6_port);
    }
    if (port >= base && port < base + 8)
        say(t, " [%s]:P+%d", text, port - base);
    else
        say(t, " [%s]:%s", text, port ? "some" : "0");
}

static void *pointer(long kind, void *good, long len)
{
    switch (kind) {
    case 1: return NULL;
    case 2: return (void *)8;
    case 3: return (void *)(1UL << 63);
    case 4: return edge + 4096;
    case 5: return edge + 4096 - (len > 4 ? 4 : len);
    default: return good;
    }
}

static uint32_t sum(const char *at, long len)
{
    uint32_t all = 2166136261u;
    for (long i = 0; i < len; i++)
        all = (all ^ (unsigned char)at[i]) * 16777619u;
    return all;
}

static void fill(char *to, long len, long seed)
{
    for (long i = 0; i < len; i++)
        to[i] = (char)((i + seed) * 2654435761u >> 13);
}

static int keep(int fd)
{
    if (fd >= 0 && owned < 256)
        own[owned++] = fd;
    return fd;
}

static void s_socket(struct task *t, const long *a)
{
    int fd = keep(socket((int)a[1], (int)a[2], (int)a[3]));
    tell(t, fd < 0 ? -1 : 0);
    f[a[0]] = fd;
}

static long cut(socklen_t whole, long how)
{
    static const int LENGTHS[] = { 0, 1, 2, 7, 15, 16, 17, 28, 129 };
    return how < 0 ? (long)whole : how > 8 ? -1 : LENGTHS[how];
}

static void s_bind(struct task *t, const long *a)
{
    struct sockaddr_storage addr;
    const void *at;
    socklen_t len = address(&addr, a[1], a[2], &at);
    tell(t, bind(f[a[0]], at, (socklen_t)cut(len, a[3])));
}

static void s_listen(struct task *t, const long *a)
{
    tell(t, listen(f[a[0]], (int)a[1]));
}

static void s_connect(struct task *t, const long *a)
{
    struct sockaddr_storage addr;
    const void *at;
    socklen_t len = address(&addr, a[1], a[2], &at);
    is_hidden |= a[1] % 4 != 0;
    tell(t, connect(f[a[0]], at, (socklen_t)cut(len, a[3])));
}

static void s_accept(struct task *t, const long *a)
{
    static const int FLAGS[] = { 0, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK, 1 };
    struct sockaddr_storage addr = { 0 };
    socklen_t len = a[3] == 2 ? 3 : a[3] == 3 ? (socklen_t)-1 : sizeof addr;
    void *at = a[3] == 0 ? NULL : a[3] == 5 ? (void *)(edge + 4096) : &addr;
    socklen_t *length = a[3] == 0 || a[3] == 4 ? NULL : &len;
    int fd = a[2] == 0 ? accept(f[a[0]], at, length) : accept4(f[a[0]], at, length, FLAGS[a[2] - 1]);
    tell(t, keep(fd) < 0 ? -1 : 0);
    if (fd >= 0) {
        f[a[1]] = fd;
        say(t, " len %d", length ? (int)len : 0);
        if (a[3] == 1)
            show_address(t, &addr, len);
    }
}

static void pipe_signals(struct task *t, int before)
{
    if (pipes != before)
        say(t, " SIGPIPE %d", pipes - before);
}

static void s_send(struct task *t, const long *a)
{
    int fd = f[a[0]], flags = (int)a[2], before = pipes;
    long len = a[1], n;
    char from[9000], control[64] = { 0 };
    fill(from, len, t->number * 977);
    void *at = pointer(a[4], from, len);
    if (a[4] == 5)
        memcpy(at, from, 4);
    struct iovec two[2] = { { at, (size_t)(len / 2) }, { (char *)at + len / 2, (size_t)(len - len / 2) } };
    struct sockaddr_storage addr;
    const void *to;
    struct msghdr m = { .msg_iov = two, .msg_iovlen = 2 };
    switch (a[3]) {
    case 0: n = send(fd, at, (size_t)len, flags); break;
    case 1: n = write(fd, at, (size_t)len); break;
    case 2: n = writev(fd, two, 2); break;
    case 3: {
        socklen_t size = address(&addr, 0, 1, &to);
        n = sendto(fd, at, (size_t)len, flags, to, size);
        break;
    }
    case 4: n = sendmsg(fd, &m, flags); break;
    case 5: {
        struct mmsghdr many[2] = { { .msg_hdr = m }, { .msg_hdr = m } };
        n = sendmmsg(fd, many, 2, flags);
        if (n > 0)
            say(t, " lens %u %u", many[0].msg_len, n > 1 ? many[1].msg_len : 0);
        break;
    }
    case 6:
        m.msg_control = control, m.msg_controllen = 5;
        n = sendmsg(fd, &m, flags);
        break;
    case 7: {
        static struct iovec many[1025];
        n = writev(fd, many, len & 1 ? 1025 : -1);
        break;
    }
    case 8: {
        int file = memfd_create("data", 0);
        off_t from_at = 1;
        if (write(file, from, (size_t)len) < 0)
            fail("memfd");
        n = sendfile(fd, file, &from_at, (size_t)len);
        int e = errno;
        say(t, " at %ld", (long)from_at);
        close(file);
        errno = e;
        break;
    }
    default: m.msg_iovlen = 0, n = sendmsg(fd, &m, flags);
    }
    tell(t, n);
    pipe_signals(t, before);
}

static void s_recv(struct task *t, const long *a)
{
    int fd = f[a[0]], flags = (int)a[2], before = pipes;
    long len = a[1], n;
    char to[9000], control[512];
    struct sockaddr_storage from = { 0 };
    socklen_t size = sizeof from;
    memset(to, 0x5a, sizeof to);
    void *at = pointer(a[4], to, len);
    struct iovec two[2] = { { at, (size_t)(len / 2) }, { (char *)at + len / 2, (size_t)(len - len / 2) } };
    struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = two, .msg_iovlen = 2,
                        .msg_control = control, .msg_controllen = sizeof control, .msg_flags = 0x5a };
    if (in_child) {
        struct pollfd row = { .fd = fd, .events = POLLIN };
        poll(&row, 1, 60);
        flags |= MSG_DONTWAIT;
    }
    switch (a[3]) {
    case 0: n = recv(fd, at, (size_t)len, flags); break;
    case 1: n = read(fd, at, (size_t)len); break;
    case 2: n = readv(fd, two, 2); break;
    case 3:
        n = recvfrom(fd, at, (size_t)len, flags, (struct sockaddr *)&from, &size);
        if (n >= 0)
            say(t, " from %d", (int)size);
        break;
    case 5: {
        struct mmsghdr many[2] = { { .msg_hdr = m }, { .msg_hdr = m } };
        /* Over behind the first message, or never. */
        struct timespec limit = { len & 1 ? 0 : 1000, 0 };
        n = recvmmsg(fd, many, 2, (unsigned)flags | MSG_WAITFORONE, &limit);
        if (n > 0)
            say(t, " lens %u", many[0].msg_len);
        break;
    }
    case 6: m.msg_iovlen = 0, n = recvmsg(fd, &m, flags); break;
    case 7: {
        static struct iovec many[1025];
        n = readv(fd, many, len & 1 ? 1025 : -1);
        break;
    }
    default:
        n = recvmsg(fd, &m, flags);
        if (n >= 0) {
            say(t, " flags %#x name %d", (unsigned)m.msg_flags, (int)m.msg_namelen);
            for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
                say(t, " cmsg %d:%d", c->cmsg_level, c->cmsg_type);
        }
    }
    tell(t, n);
    if (n > 0 && a[4] == 0 && a[3] != 5)
        say(t, " sum %08x", sum(to, n < len ? n : len));
    pipe_signals(t, before);
}

/*
 * Sends until nothing more goes, whatever buffers grow meanwhile. How much a cork would hold back depends on how much
 * goes, so it ends before.
 */
static void s_stuff(struct task *t, const long *a)
{
    long n = 0, all = 0;
    int before = pipes;
    int quiet = 0, off = 0, held = 0;
    ioctl(f[a[0]], 0x894b, &held);
    setsockopt(f[a[0]], IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    /* What the peer says of what was held back is there before the rest. */
    while (held > 0 && again(&quiet))
        ;
    quiet = 0;
    do
        while ((n = send(f[a[0]], zeros, sizeof zeros, MSG_DONTWAIT)) > 0)
            quiet = 0, all += n;
    while (again(&quiet) && all < 50000000);
    say(t, " %s", all > MUCH ? "much" : all ? "some" : "nothing");
    tell(t, n < 0 ? -1 : 0);
    say(t, "%s", pipes != before ? " SIGPIPE" : "");
}

static void s_drain(struct task *t, const long *a)
{
    long n = 0, all = 0;
    int quiet = 0;
    do
        while ((n = recv(f[a[0]], room, sizeof room, MSG_DONTWAIT)) > 0)
            quiet = 0, all += n;
    while (again(&quiet));
    int e = errno;
    if (all > MUCH)
        say(t, " much");
    else
        say(t, " %ld", all);
    errno = e;
    tell(t, n);
}

static void s_shutdown(struct task *t, const long *a)
{
    tell(t, shutdown(f[a[0]], (int)a[1]));
}

static void forget(int fd)
{
    for (int i = 0; i < owned; i++)
        if (own[i] == fd)
            own[i] = -1;
    for (int i = 0; i < SLOTS; i++)
        if (f[i] == fd)
            f[i] = -1;
}

static void s_close(struct task *t, const long *a)
{
    int fd = f[a[0]];
    forget(fd);
    tell(t, close(fd));
}

static void s_dup(struct task *t, const long *a)
{
    int from = f[a[0]], to = f[a[1]], fd;
    switch (a[2]) {
    case 1: fd = dup2(from, to); break;
    case 2: fd = dup3(from, to, O_CLOEXEC); break;
    case 3: fd = keep(fcntl(from, F_DUPFD, 3)); break;
    case 4: fd = keep(fcntl(from, F_DUPFD_CLOEXEC, 100)); break;
    default: fd = keep(dup(from));
    }
    tell(t, fd < 0 ? -1 : 0);
    if (fd >= 0)
        f[a[1]] = fd;
}

static void hex(struct task *t, const unsigned char *at, long len)
{
    say(t, "0x");
    for (long i = 0; i < len && i < 40; i++)
        say(t, "%02x", at[i]);
}

/* `show`: 1 the value, 0 its length alone. */
static void s_getopt(struct task *t, const long *a)
{
    unsigned char value[600];
    socklen_t len = (socklen_t)a[3];
    memset(value, 0xee, sizeof value);
    long n = getsockopt(f[a[0]], (int)a[1], (int)a[2], pointer(a[5], value, a[3]), a[5] == 6 ? NULL : &len);
    tell(t, n);
    if (n < 0)
        return;
    say(t, " len %d ", (int)len);
    /* A process has another number on each side. */
    int own = getpid(), same = 1;
    size_t of_pid = len < sizeof own ? len : sizeof own;
    if (a[1] == SOL_SOCKET && a[2] == SO_PEERCRED && !memcmp(value, &own, of_pid))
        memcpy(value, &same, of_pid);
    if (a[4] && a[5] == 0 && len <= sizeof value)
        hex(t, value, len);
}

static void s_setopt(struct task *t, const long *a)
{
    long value[6] = { a[4], a[5] };
    tell(t, setsockopt(f[a[0]], (int)a[1], (int)a[2], pointer(a[6], value, a[3]), (socklen_t)a[3]));
}

static void s_name(struct task *t, const long *a)
{
    struct sockaddr_storage addr = { 0 };
    socklen_t len = a[2] == 1 ? 5 : a[2] == 2 ? 0 : a[2] == 3 ? (socklen_t)-1 : sizeof addr;
    void *at = a[2] == 4 ? NULL : a[2] == 5 ? (void *)(edge + 4096) : &addr;
    socklen_t *length = a[2] == 6 ? NULL : &len;
    long n = a[1] ? getpeername(f[a[0]], at, length) : getsockname(f[a[0]], at, length);
    tell(t, n);
    if (n == 0) {
        say(t, " len %d", (int)len);
        if (a[2] == 0)
            show_address(t, &addr, len);
    }
}

static void s_ioctl(struct task *t, const long *a)
{
    int value = (int)a[2];
    long n = ioctl(f[a[0]], (unsigned long)a[1], pointer(a[3], &value, 4));
    tell(t, n);
    if (n >= 0 && a[1] != FIONBIO && a[1] != FIOASYNC) {
        if (value > MUCH)
            say(t, " much");
        else
            say(t, " %d", value);
    }
}

static void s_fcntl(struct task *t, const long *a)
{
    long n = fcntl(f[a[0]], (int)a[1], a[2]);
    tell(t, n);
}

static void s_poll(struct task *t, const long *a)
{
    struct pollfd rows[4];
    nfds_t n = (nfds_t)a[1];
    for (nfds_t i = 0; i < n; i++)
        rows[i] = (struct pollfd){ .fd = a[2 + 2 * i] < 0 ? 999 : f[a[2 + 2 * i]], .events = (short)a[3 + 2 * i] };
    struct timespec limit = { 0, a[0] * 1000000 };
    long got = a[0] > 0 && a[0] & 1 ? ppoll(rows, n, &limit, NULL) : poll(rows, n, (int)a[0]);
    tell(t, got);
    for (nfds_t i = 0; i < n; i++)
        say(t, " %#x", rows[i].revents);
}

/* Rows: a slot, and 1 to read, 2 to write, 4 for what is exceptional. */
static void s_select(struct task *t, const long *a)
{
    fd_set sets[3];
    int most = 0, n = (int)a[1];
    for (int k = 0; k < 3; k++)
        FD_ZERO(&sets[k]);
    for (int i = 0; i < n; i++) {
        /* A number beyond the table of descriptors would be passed over; this one is not open. */
        int fd = f[a[2 + 2 * i]] < 0 ? 63 : f[a[2 + 2 * i]];
        if (fd >= most)
            most = fd + 1;
        for (int k = 0; k < 3; k++)
            if (a[3 + 2 * i] & 1 << k)
                FD_SET(fd, &sets[k]);
    }
    struct timeval limit = { 0, a[0] * 1000 };
    struct timespec fine = { 0, a[0] * 1000000 };
    long got = a[0] & 1 && a[0] > 0 ? pselect(most, &sets[0], &sets[1], &sets[2], &fine, NULL)
                                    : select(most, &sets[0], &sets[1], &sets[2], a[0] < 0 ? NULL : &limit);
    tell(t, got);
    for (int i = 0; i < n && got >= 0; i++) {
        int fd = f[a[2 + 2 * i]], is = 0;
        for (int k = 0; k < 3 && fd >= 0; k++)
            is |= FD_ISSET(fd, &sets[k]) ? 1 << k : 0;
        say(t, " %d", is);
    }
}

static void s_epoll(struct task *t, const long *a)
{
    int fd = keep(a[1] < 0 ? epoll_create((int)(a[1] + 1)) : epoll_create1((int)a[1]));
    tell(t, fd < 0 ? -1 : 0);
    f[a[0]] = fd;
}

static void s_ctl(struct task *t, const long *a)
{
    struct epoll_event event = { .events = (uint32_t)a[3], .data.u32 = (uint32_t)a[2] };
    tell(t, epoll_ctl(f[a[0]], (int)a[1], f[a[2]], a[4] ? NULL : &event));
}

/* Events of one slot may be of several descriptors, which it had one after the other. Their order means nothing. */
static void show_events(struct task *t, struct epoll_event *all, long n)
{
    for (long i = 1; i < n; i++)
        for (long k = i; k > 0 && all[k - 1].events < all[k].events; k--) {
            struct epoll_event other = all[k];
            all[k] = all[k - 1], all[k - 1] = other;
        }
    for (int slot = 0; slot < SLOTS; slot++)
        for (long i = 0; i < n; i++)
            if (all[i].data.u32 == (uint32_t)slot)
                say(t, " %d:%#x", slot, all[i].events);
}

static void s_wait(struct task *t, const long *a)
{
    struct epoll_event all[16];
    struct timespec limit = { 0, a[2] * 1000000 };
    long n;
    memset(all, 0xff, sizeof all);
    void *at = pointer(a[4], all, 0);
    if (a[3] == 1)
        n = epoll_pwait(f[a[0]], at, (int)a[1], (int)a[2], NULL);
    else if (a[3] == 2)
        n = syscall(SYS_epoll_pwait2, f[a[0]], at, (int)a[1], a[2] < 0 ? NULL : &limit, NULL, 8);
    else
        n = epoll_wait(f[a[0]], at, (int)a[1], (int)a[2]);
    tell(t, n);
    if (a[4] == 0)
        show_events(t, all, n);
}

/* All that many waits with little room tell. */
static void s_union(struct task *t, const long *a)
{
    struct epoll_event all[SLOTS], some[4];
    memset(all, 0, sizeof all);
    for (int i = 0; i < 60; i++) {
        long n = epoll_wait(f[a[0]], some, (int)a[1], 0);
        if (n < 0) {
            tell(t, n);
            return;
        }
        for (long k = 0; k < n; k++)
            all[some[k].data.u32 % SLOTS].events |= some[k].events;
    }
    for (int slot = 0; slot < SLOTS; slot++)
        if (all[slot].events)
            say(t, " %d:%#x", slot, all[slot].events);
}

static void s_pipe(struct task *t, const long *a)
{
    int two[2] = { -1, -1 };
    tell(t, pipe2(two, (int)a[2]));
    f[a[0]] = keep(two[0]), f[a[1]] = keep(two[1]);
}

static void s_pair(struct task *t, const long *a)
{
    int two[2] = { -1, -1 };
    tell(t, socketpair(AF_UNIX, (int)a[2], 0, two));
    f[a[0]] = keep(two[0]), f[a[1]] = keep(two[1]);
}

static void s_eventfd(struct task *t, const long *a)
{
    int fd = keep(eventfd((unsigned)a[1], (int)a[2]));
    tell(t, fd < 0 ? -1 : 0);
    f[a[0]] = fd;
}

/* Descriptors of the peer are closed with the program, whatever its slots hold by then. */
static int keep_peer(int fd)
{
    if (fd >= 0 && ends < 64)
        theirs[ends++] = fd;
    return fd;
}

static int peer_socket(long family)
{
    int on = 1;
    RAW(setns, away, CLONE_NEWNET);
    int fd = (int)RAW(socket, family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    RAW(setns, home, CLONE_NEWNET);
    RAW(setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    RAW(setsockopt, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return keep_peer(fd);
}

static void peer_end(int *fd, int with_reset)
{
    struct linger now = { 1, 0 };
    if (*fd < 0)
        return;
    if (with_reset)
        RAW(setsockopt, *fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    RAW(close, *fd);
    for (int i = 0; i < ends; i++)
        if (theirs[i] == *fd)
            theirs[i] = -1;
    *fd = -1;
}

static void s_plisten(struct task *t, const long *a)
{
    struct sockaddr_storage addr;
    const void *at;
    int fd = peer_socket(AF_INET6), size = (int)a[3];
    if (size)
        RAW(setsockopt, fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    socklen_t len = address(&addr, 5, a[1], &at);
    p[a[0]] = fd;
    long n = RAW(bind, fd, at, len);
    tell(t, n < 0 ? n : RAW(listen, fd, a[2]));
}

static void s_paccept(struct task *t, const long *a)
{
    int on = 1, fd = (int)RAW(accept4, p[a[0]], 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC);
    tell(t, fd < 0 ? -1 : 0);
    if (fd >= 0) {
        RAW(setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        p[a[1]] = keep_peer(fd);
    }
}

static void s_pconnect(struct task *t, const long *a)
{
    struct sockaddr_storage addr;
    const void *at;
    socklen_t len = address(&addr, a[1], a[2], &at);
    int fd = peer_socket(addr.ss_family), value = 0;
    p[a[0]] = fd;
    long n = RAW(connect, fd, at, len);
    if (n < 0 && errno == EINPROGRESS) {
        struct pollfd row = { .fd = fd, .events = POLLOUT };
        round_trip();
        n = RAW(poll, &row, 1, 0);
        if (n == 0) {
            say(t, " pending");
            return;
        }
        len = sizeof value;
        RAW(getsockopt, fd, SOL_SOCKET, SO_ERROR, &value, &len);
        errno = value;
        n = value ? -1 : 0;
    }
    tell(t, n);
}

static void s_psend(struct task *t, const long *a)
{
    char from[9000];
    fill(from, a[1], t->number * 31);
    tell(t, RAW(sendto, p[a[0]], from, a[1], MSG_NOSIGNAL | a[2]));
}

static void s_pstuff(struct task *t, const long *a)
{
    long n = 0, all = 0;
    int quiet = 0;
    do
        while ((n = RAW(sendto, p[a[0]], zeros, sizeof zeros, MSG_NOSIGNAL)) > 0)
            quiet = 0, all += n;
    while (again(&quiet) && all < 50000000);
    say(t, " %s", all > MUCH ? "much" : all ? "some" : "nothing");
    tell(t, n < 0 ? -1 : 0);
}

static void s_precv(struct task *t, const long *a)
{
    long n = 0, all = 0;
    uint32_t check = 0;
    int quiet = 0;
    do
        while ((n = RAW(recvfrom, p[a[0]], room, sizeof room)) > 0) {
            quiet = 0, all += n;
            for (long i = 0; i < n; i++)
                check = check * 31 + (unsigned char)room[i];
        }
    while (again(&quiet));
    int e = errno;
    if (all > MUCH)
        say(t, " much");
    else
        say(t, " %ld sum %08x", all, check);
    errno = e;
    tell(t, n);
}

static void s_pshut(struct task *t, const long *a)
{
    tell(t, RAW(shutdown, p[a[0]], a[1]));
}

static void s_pclose(struct task *t, const long *a)
{
    peer_end(&p[a[0]], (int)a[1]);
    say(t, " done");
}

static void s_kill(struct task *t, const long *a)
{
    (void)a;
    for (int i = 0; i < WORKERS; i++)
        if (workers[i].has_work && !workers[i].done) {
            pthread_kill(workers[i].thread, SIGUSR1);
            say(t, " sent");
        }
}

static void s_restart(struct task *t, const long *a)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = a[0] ? SA_RESTART : 0 };
    tell(t, sigaction(SIGUSR1, &action, NULL));
}

static void s_nothing(struct task *t, const long *a)
{
    (void)t, (void)a;
}

static int is_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_NONBLOCK);
}

/* Does the last close wait for the peer? */
static int lingers(int fd)
{
    struct linger time = { 0, 0 };
    socklen_t len = sizeof time;
    return getsockopt(fd, SOL_SOCKET, SO_LINGER, &time, &len) == 0 && time.l_onoff && time.l_linger;
}

/* May this call block? */
static int may_block(const struct step *s)
{
    const char *name = s->name;
    if (!strcmp(name, "poll") || !strcmp(name, "select"))
        return s->a[0] < 0;
    if (!strcmp(name, "wait"))
        return s->a[2] < 0;
    if (!strcmp(name, "connect") || !strcmp(name, "accept") || !strcmp(name, "send") || !strcmp(name, "recv"))
        return is_blocking(f[s->a[0]]);
    if (!strcmp(name, "close"))
        return lingers(f[s->a[0]]);
    return 0;
}

static const struct {
    const char *name;
    void (*run)(struct task *, const long *);
} STEPS[] = {
    { "socket", s_socket },   { "bind", s_bind },         { "listen", s_listen },     { "connect", s_connect },
    { "accept", s_accept },   { "send", s_send },         { "recv", s_recv },         { "stuff", s_stuff },
    { "drain", s_drain },     { "shutdown", s_shutdown }, { "close", s_close },       { "dup", s_dup },
    { "getopt", s_getopt },   { "setopt", s_setopt },     { "name", s_name },         { "ioctl", s_ioctl },
    { "fcntl", s_fcntl },     { "poll", s_poll },         { "select", s_select },     { "epoll", s_epoll },
    { "ctl", s_ctl },         { "wait", s_wait },         { "union", s_union },       { "pipe", s_pipe },
    { "pair", s_pair },       { "eventfd", s_eventfd },   { "plisten", s_plisten },   { "paccept", s_paccept },
    { "pconnect", s_pconnect }, { "psend", s_psend },     { "pstuff", s_pstuff },     { "precv", s_precv },
    { "pshut", s_pshut },     { "pclose", s_pclose },     { "kill", s_kill },         { "restart", s_restart },
    { "join", s_nothing },    { "child", s_nothing },
};

static void (*function(const char *name))(struct task *, const long *)
{
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++)
        if (!strcmp(STEPS[i].name, name))
            return STEPS[i].run;
    fprintf(stderr, "no step %s\n", name);
    exit(2);
}

static void *worker(void *at)
{
    struct task *t = at;
    t->tid = (int)RAW(gettid, 0);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!t->has_work || t->done)
            pthread_cond_wait(&t->work, &lock);
        pthread_mutex_unlock(&lock);
        t->started = 1;
        t->run(t, t->step->a);
        __atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Opens a file for good, at a number that no program gets. */
static int open_beside(const char *path)
{
    int fd = (int)RAW(open, path, O_RDONLY | O_CLOEXEC);
    int high = fd < 0 ? -1 : (int)RAW(fcntl, fd, F_DUPFD_CLOEXEC, 600);
    if (high < 0)
        return fd;
    RAW(close, fd);
    return high;
}

enum { BUSY, NAPS, SLEEPS };

/* Reads a file of /proc about a thread. */
static void read_of(struct task *t, int *fd, const char *name, char *text, size_t room)
{
    char path[64];
    if (*fd < 0) {
        snprintf(path, sizeof path, "/proc/self/task/%d/%s", t->tid, name);
        *fd = open_beside(path);
    }
    long n = RAW(pread64, *fd, text, room - 1, 0);
    if (n < 0)
        fail(name);
    text[n] = 0;
}

/*
 * What a call in a thread does. A nap ends by itself, and a futex is also a lock that is about to be free. A thread
 * that no signal wakes waits for a lock of the kernel's, such as that of all interfaces, and not for an event yet.
 */
static int state_of(struct task *t)
{
    char text[400];
    if (!t->started)
        return BUSY;
    read_of(t, &t->call, "syscall", text, sizeof text);
    if (text[0] < '0' || text[0] > '9')
        return BUSY;
    long call = strtol(text, NULL, 10);
    if (call == SYS_nanosleep || call == SYS_clock_nanosleep || call == SYS_futex)
        return NAPS;
    read_of(t, &t->state, "stat", text, sizeof text);
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'S' ? SLEEPS : BUSY;
}

static int has_ended(struct task *t)
{
    return __atomic_load_n(&t->done, __ATOMIC_ACQUIRE);
}

/* Most round trips after a step where no call sleeps. */
static int trips(const char *name)
{
    static const char *const NONE[] = { "socket",  "bind",  "getopt", "name",  "fcntl",  "ioctl",
                                        "epoll",   "ctl",   "pipe",   "pair",  "eventfd", "plisten",
                                        "drain",   "stuff", "precv",  "pstuff", "restart" };
    static const char *const ONE[] = { "recv", "poll", "select", "wait", "union" };
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++)
        if (!strcmp(name, NONE[i]))
            return 0;
    for (size_t i = 0; i < sizeof ONE / sizeof *ONE; i++)
        if (!strcmp(name, ONE[i]))
            return 1;
    return 3;
}

/* The state of the calls in threads, which run first if they can; SLEEPS if there is none. */
static int look(int *some)
{
    int all = BUSY;
    for (int tries = 0; tries < 20 && all == BUSY; tries++) {
        if (tries > 0)
            sched_yield();
        all = SLEEPS, *some = 0;
        for (int i = 0; i < WORKERS; i++) {
            if (!workers[i].has_work || has_ended(&workers[i]))
                continue;
            int state = state_of(&workers[i]);
            all = state < all ? state : all;
            *some = 1;
        }
    }
    return all;
}

/*
 * Waits until each call in a thread has ended or sleeps, and nothing is on the link: an exchange of packets that the
 * step began, such as a handshake, is over by then. The program's time limit ends a wait that does not end.
 */
static void settle(const char *name)
{
    int some, most = trips(name);
    if (look(&some) == SLEEPS && (most == 0 || is_quiet()))
        return;
    for (int quiet = 0;;) {
        long others = round_trip();
        int state = look(&some);
        if (state == BUSY) {
            quiet = 0;
            continue;
        }
        /* A thread of the stack's may nap for as long as two round trips take. */
        int limit = some ? on_stack ? 8 : 3 : most;
        int enough = some && on_stack ? 2 : 1;
        if (++quiet >= limit || (quiet >= enough && others == 0 && state == SLEEPS && packets() == counted))
            return;
    }
}

/* Tells calls that have ended meanwhile, in the order of their steps. */
static void tell_woken(void)
{
    for (;;) {
        struct task *first = NULL;
        for (int i = 0; i < WORKERS; i++) {
            struct task *t = &workers[i];
            if (t->has_work && has_ended(t) && (!first || t->number < first->number))
                first = t;
        }
        if (!first)
            return;
        printf("%d woke:%s\n", first->number, first->out);
        first->has_work = 0;
    }
}

/* Tells the calls that sleep. */
static void join(const char *asleep)
{
    for (int after = -1;;) {
        struct task *first = NULL;
        for (int i = 0; i < WORKERS; i++) {
            struct task *t = &workers[i];
            if (t->has_work && t->number > after && (!first || t->number < first->number))
                first = t;
        }
        if (!first)
            return;
        printf("%d %s\n", first->number, asleep);
        after = first->number;
    }
}

/* A connection whose peer is the other end must not be the kernel's under the launcher. */
static void check_place(struct task *t, int fd)
{
    struct sockaddr_storage addr = { 0 };
    int type = 0;
    socklen_t len = sizeof type;
    RAW(getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len);
    len = sizeof addr;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&addr;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&addr;
    if (!on_stack || type != SOCK_STREAM || RAW(getpeername, fd, &addr, &len) < 0)
        return;
    const unsigned char *b = v6->sin6_addr.s6_addr;
    int is_peer = addr.ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) == 0x0a4d0101
                                            : (b[0] == 0xfd && b[15] == 2) || (b[10] == 0xff && b[14] == 1);
    if (is_peer)
        say(t, " ON THE KERNEL");
}

static void run_plain(const struct step *s, int number)
{
    now_at = number;
    plain.at = 0, plain.out[0] = 0, plain.number = number, plain.step = s;
    function(s->name)(&plain, s->a);
}

/* The next `count` steps in a child that was made in one of several ways. */
static void run_child(const struct step *s, int number, int count, long how)
{
    int two[2];
    char text[8000];
    is_hidden = 1;
    if (pipe(two) < 0)
        fail("pipe");
    fflush(stdout);
    struct { uint64_t flags, pidfd, child, parent, exit_signal, more[3]; } wants = { .exit_signal = SIGCHLD };
    pid_t pid = how == 1 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
                : how == 2 ? (pid_t)syscall(SYS_clone3, &wants, sizeof wants)
                : how == 3 ? (pid_t)_Fork()
                           : fork();
    if (pid == 0) {
        in_child = 1;
        alarm(3);
        for (int i = 0; i < count; i++) {
            run_plain(&s[i], number + i);
            int n = snprintf(text, sizeof text, "%d child:%s\n", number + i, plain.out);
            RAW(write, two[1], text, n);
        }
        _exit(0);
    }
    if (pid < 0) {
        printf("%d child: %s\n", number, error());
        return;
    }
    RAW(close, two[1]);
    int all = 0, status = 0;
    for (int i = 0; i < 500; i++) {
        struct pollfd row = { .fd = two[0], .events = POLLIN };
        round_trip();
        if (RAW(poll, &row, 1, 10) < 1)
            continue;
        long n = RAW(read, two[0], text + all, sizeof text - 1 - (size_t)all);
        if (n <= 0)
            break;
        all += (int)n;
    }
    text[all] = 0;
    RAW(close, two[0]);
    RAW(kill, pid, SIGKILL);
    RAW(wait4, pid, &status, 0, 0);
    /* The thread that had relayed for the child hears of its end when it runs. */
    if (on_stack)
        usleep(1000);
    printf("%s", text);
}

static void reset_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    handled = 0;
}

/* Ends the calls that still sleep: by what their peers did, or by a signal. */
static void end_calls(void)
{
    for (int tries = 0;; tries++) {
        int some;
        look(&some);
        if (!some)
            break;
        if (tries == 400)
            fail("a call that no signal ends");
        if (tries == 1)
            reset_signals();
        for (int i = 0; i < WORKERS && tries > 0; i++)
            if (workers[i].has_work && !has_ended(&workers[i]))
                pthread_kill(workers[i].thread, SIGUSR1);
        round_trip();
        if (tries > 20)
            usleep(5000);
        else
            sched_yield();
    }
    for (int i = 0; i < WORKERS; i++)
        workers[i].has_work = 0;
}

static void clean_up(void)
{
    struct linger now = { 1, 0 };
    for (int i = 0; i < SLOTS; i++)
        p[i] = -1;
    for (int i = 0; i < ends; i++)
        peer_end(&theirs[i], 1);
    ends = 0;
    end_calls();
    for (int i = 0; i < owned; i++)
        if (own[i] >= 0) {
            setsockopt(own[i], SOL_SOCKET, SO_LINGER, &now, sizeof now);
            close(own[i]);
        }
    round_trip();
}

/*
 * Are a program's ports free? A connection that an earlier program closed stays in TIME-WAIT for a minute, and the
 * numbers come round before.
 */
static int are_free(int first)
{
    int all = 1;
    for (int i = 0; i < 8 && all; i++) {
        struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)(first + i)) };
        int fd = (int)RAW(socket, AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        all = RAW(bind, fd, &any, sizeof any) == 0;
        RAW(close, fd);
    }
    return all;
}

static int next_base(void)
{
    for (int tries = 0; tries < 5000; tries++) {
        base = base < 20000 || base > 58000 ? 20000 : base + 8;
        if (are_free(base))
            return base;
    }
    fail("no free ports");
    return 0;
}

static void run_program(const struct step *s, int count)
{
    alarm(15);
    for (int i = 0; i < SLOTS; i++)
        f[i] = p[i] = -1;
    owned = is_hidden = 0;
    base = next_base();
    reset_signals();
    for (int i = 0; i < count; i++) {
        struct task *t = NULL;
        if (!strcmp(s[i].name, "join")) {
            now_at = i;
            join("asleep");
            if (handled)
                printf("%d: handled\n", i);
            continue;
        }
        if (!strcmp(s[i].name, "child")) {
            int inside = (int)s[i].a[1] < count - i - 1 ? (int)s[i].a[1] : count - i - 1;
            run_child(&s[i + 1], i + 1, inside, s[i].a[0]);
            i += inside;
        } else if (may_block(&s[i])) {
            for (int k = 0; k < WORKERS && !t; k++)
                if (!workers[k].has_work)
                    t = &workers[k];
            if (!t) {
                printf("%d: all threads sleep\n", i);
                continue;
            }
            now_at = i;
            pthread_mutex_lock(&lock);
            t->at = 0, t->out[0] = 0, t->number = i, t->step = &s[i], t->run = function(s[i].name);
            t->started = t->done = 0, t->has_work = 1;
            pthread_cond_signal(&t->work);
            pthread_mutex_unlock(&lock);
        } else {
            run_plain(&s[i], i);
            t = &plain;
        }
        settle(s[i].name);
        if (t && t != &plain && !has_ended(t)) {
            printf("%d: asleep\n", i);
        } else if (t) {
            if (!strcmp(s[i].name, "connect"))
                check_place(t, f[s[i].a[0]]);
            if (!strcmp(s[i].name, "accept"))
                check_place(t, f[s[i].a[1]]);
            printf("%d:%s\n", i, t->out);
            t->has_work = 0;
        }
        tell_woken();
    }
    now_at = count;
    join("asleep at the end");
    clean_up();
    alarm(0);
}

static void begin(int argc, char **argv)
{
    char path[300];
    struct sockaddr_storage addr;
    const void *at;
    if (argc < 2) {
        fprintf(stderr, "usage: %s NAMESPACE-OF-THE-PEER [launched]\n", argv[0]);
        exit(2);
    }
    snprintf(path, sizeof path, "/var/run/netns/%s", argv[1]);
    on_stack = argc > 2;
    home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    away = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0 || away < 0) {
        perror(path);
        exit(1);
    }
    struct sigaction action = { .sa_handler = on_signal }, last = { .sa_handler = on_end };
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGIO, &action, NULL);
    sigaction(SIGSEGV, &last, NULL);
    sigaction(SIGBUS, &last, NULL);
    sigaction(SIGABRT, &last, NULL);
    sigaction(SIGALRM, &last, NULL);
    edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (edge == MAP_FAILED || mprotect(edge + 4096, 4096, PROT_NONE) < 0)
        fail("memory");
    for (int i = 0; i < SLOTS; i++)
        f[i] = p[i] = -1;
    for (int i = 0; i < WORKERS; i++) {
        workers[i].call = workers[i].state = -1;
        pthread_cond_init(&workers[i].work, NULL);
        if (pthread_create(&workers[i].thread, NULL, worker, &workers[i]))
            fail("threads");
    }
    counters[0] = open_beside("/sys/class/net/ms0/statistics/rx_packets");
    counters[1] = open_beside("/sys/class/net/ms0/statistics/tx_packets");
    base = MARK_PORT;
    int listener = peer_socket(AF_INET);
    socklen_t len = address(&addr, 1, 0, &at);
    if (RAW(bind, listener, at, len) < 0 || RAW(listen, listener, 1) < 0)
        fail("a listener at the peer");
    mark[0] = socket(AF_INET, SOCK_STREAM, 0);
    len = address(&addr, 0, 0, &at);
    if (connect(mark[0], at, len) < 0)
        fail("the control connection");
    struct pollfd row = { .fd = listener, .events = POLLIN };
    RAW(poll, &row, 1, 3000);
    mark[1] = (int)RAW(accept4, listener, 0, 0, SOCK_CLOEXEC);
    int on = 1;
    setsockopt(mark[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    RAW(setsockopt, mark[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    RAW(close, listener);
    /* The kernel stamps what arrives some time after the first socket that asks for it, so one has always asked. */
    RAW(setsockopt, RAW(socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on);
    /* The addresses of neighbours are found before the first program. */
    listener = peer_socket(AF_INET6);
    len = address(&addr, 5, 1, &at);
    int early = socket(AF_INET6, SOCK_STREAM, 0);
    if (RAW(bind, listener, at, len) < 0 || RAW(listen, listener, 1) < 0)
        fail("a listener at the peer");
    len = address(&addr, 4, 1, &at);
    if (connect(early, at, len) < 0)
        fail("a connection over IPv6");
    close(early);
    RAW(close, listener);
    ends = 0;
    base = 20000 + getpid() % 4000 * 8;
}
