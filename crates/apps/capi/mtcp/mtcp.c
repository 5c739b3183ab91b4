/*
 * mTCP's calls over millstream.h. The stacks of all cores are opened together when the first context is created, from
 * what mtcp_init read and mtcp_setconf said.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "millstream.h"
#include "mtcp_epoll.h"

enum {
    CORES_MAX = 256,
    SETTINGS_MAX = 64,
    LINE_ROOM = 1024,
    /* Events of one call; more come with the next. */
    EVENTS_MAX = 1024,
    /* How long mtcp_destroy_context waits for the peers to have what was sent. */
    TIMEOUT_MS = 1000,
    /* How often a program that has registered a signal looks whether it came while it waits. */
    SIGNAL_MS = 50,
    /* So many sockets that were closed last keep their numbers for themselves. */
    RECENT = 8,
};

struct mtcp_context {
    int cpu;
    struct ms_ctx *ctx;
    /* Local addresses of connects that name none, in host order: mtcp_init_rss. */
    uint32_t base, addresses, next;
    /* Numbers that were closed last, one above each, in a ring; 0 for none. */
    int recent[RECENT];
    unsigned closed;
};

static const struct mtcp_conf USUAL = {
    .num_cores = 1,
    .max_concurrency = 10000,
    .max_num_buffers = 10000,
    .rcvbuf_size = 8192,
    .sndbuf_size = 8192,
    .tcp_timewait = 0,
    .tcp_timeout = 30,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mtcp_conf conf;
static int conf_known;
/* Names and values that go to ms_open_cores as they are. */
static char *settings[2 * SETTINGS_MAX];
static int setting_count;
/* Opened and not yet given to a thread; cores that are in use. */
static struct ms_ctx *waiting[CORES_MAX];
static int open_count;

static volatile sig_atomic_t signals_seen, signals_registered;
static mtcp_sighandler_t handlers[NSIG];

static struct mtcp_conf *now(void)
{
    if (!conf_known) {
        conf = USUAL;
        conf_known = 1;
    }
    return &conf;
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

static int add_setting(const char *name, const char *value)
{
    if (setting_count == SETTINGS_MAX)
        return refuse(ENOSPC);
    char *a = strdup(name), *b = strdup(value);
    if (!a || !b) {
        free(a);
        free(b);
        return refuse(ENOMEM);
    }
    settings[2 * setting_count] = a;
    settings[2 * setting_count + 1] = b;
    setting_count++;
    return 0;
}

static int has_setting(const char *name)
{
    for (int i = 0; i < setting_count; i++)
        if (!strcmp(settings[2 * i], name))
            return 1;
    return 0;
}

/* Keys of mTCP that say how its drivers run; there are none of those here. */
static int is_drivers(const char *key)
{
    static const char *const KEYS[] = { "io", "num_mem_ch", "core_mask", "multiprocess", "stat_print", "onvm_serv",
                                        "onvm_inst", "onvm_dest" };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (!strcmp(key, KEYS[i]))
            return 1;
    return 0;
}

static int take(const char *key, const char *value)
{
    static const struct {
        const char *key;
        size_t at;
        int least;
    } NUMBERS[] = {
        { "num_cores", offsetof(struct mtcp_conf, num_cores), 1 },
        { "max_concurrency", offsetof(struct mtcp_conf, max_concurrency), 1 },
        { "max_num_buffers", offsetof(struct mtcp_conf, max_num_buffers), 1 },
        { "rcvbuf", offsetof(struct mtcp_conf, rcvbuf_size), 64 },
        { "sndbuf", offsetof(struct mtcp_conf, sndbuf_size), 64 },
        { "tcp_timewait", offsetof(struct mtcp_conf, tcp_timewait), 0 },
        { "tcp_timeout", offsetof(struct mtcp_conf, tcp_timeout), -1 },
    };
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        if (strcmp(key, NUMBERS[i].key))
            continue;
        char *end;
        long number = strtol(value, &end, 10);
        if (*end || end == value || number < NUMBERS[i].least || number > 1 << 30)
            return refuse(EINVAL);
        memcpy((char *)now() + NUMBERS[i].at, &(int){ (int)number }, sizeof(int));
        return 0;
    }
    if (is_drivers(key))
        return 0;
    if (!strcmp(key, "port")) {
        char link[LINE_ROOM + 8];
        snprintf(link, sizeof link, "xdp:%s", value);
        return has_setting("link") ? 0 : add_setting("link", link);
    }
    return add_setting(key, value);
}

/* A name, and behind blanks or = its value; NULL if the line has none. */
static char *split(char *line, char **value)
{
    char *key = line + strspn(line, " \t"), *end = key + strcspn(key, " \t="), *from = end + strspn(end, " \t=");
    if (end == key || !*from)
        return NULL;
    *end = 0;
    for (char *last = from + strlen(from); last > from && isspace((unsigned char)last[-1]);)
        *--last = 0;
    *value = from;
    return key;
}

int mtcp_init(const char *config_file)
{
    pthread_mutex_lock(&lock);
    now();
    FILE *file = config_file ? fopen(config_file, "re") : NULL;
    int result = config_file && !file ? -1 : 0, number = 0;
    char line[LINE_ROOM];
    while (file && !result && fgets(line, sizeof line, file)) {
        char *value;
        number++;
        line[strcspn(line, "#\n")] = 0;
        if (!line[strspn(line, " \t\r")])
            continue;
        char *key = split(line, &value);
        if (!key || take(key, value) < 0) {
            fprintf(stderr, "millstream: %s:%d: this line cannot be used\n", config_file, number);
            result = refuse(EINVAL);
        }
    }
    if (file)
        fclose(file);
    pthread_mutex_unlock(&lock);
    return result;
}

void mtcp_destroy(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CORES_MAX; i++)
        if (waiting[i]) {
            ms_close_ctx(waiting[i], 0);
            waiting[i] = NULL;
            open_count--;
        }
    while (setting_count) {
        setting_count--;
        free(settings[2 * setting_count]);
        free(settings[2 * setting_count + 1]);
    }
    conf_known = 0;
    pthread_mutex_unlock(&lock);
}

int mtcp_getconf(struct mtcp_conf *into)
{
    if (!into)
        return refuse(EINVAL);
    pthread_mutex_lock(&lock);
    *into = *now();
    pthread_mutex_unlock(&lock);
    return 0;
}

int mtcp_setconf(const struct mtcp_conf *from)
{
    if (!from || from->num_cores < 1 || from->num_cores > CORES_MAX)
        return refuse(EINVAL);
    pthread_mutex_lock(&lock);
    *now() = *from;
    pthread_mutex_unlock(&lock);
    return 0;
}

int mtcp_core_affinitize(int cpu)
{
    cpu_set_t set;
    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return refuse(EINVAL);
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

/* Opens all cores; called with the lock held. What is as mTCP's defaults is left to the stack's own. */
static int open_all(void)
{
    const char *list[2 * SETTINGS_MAX + 8];
    char connections[16], buffers[32], time_wait[16];
    int n = 0;
    if (conf.max_concurrency != USUAL.max_concurrency) {
        snprintf(connections, sizeof connections, "%d", conf.max_concurrency);
        list[n++] = "max_connections";
        list[n++] = connections;
    }
    if (conf.max_num_buffers != USUAL.max_num_buffers) {
        long long each = (long long)conf.rcvbuf_size + conf.sndbuf_size;
        snprintf(buffers, sizeof buffers, "%lld", conf.max_num_buffers * each);
        list[n++] = "buffers";
        list[n++] = buffers;
    }
    if (conf.tcp_timewait != USUAL.tcp_timewait) {
        snprintf(time_wait, sizeof time_wait, "%ds", conf.tcp_timewait);
        list[n++] = "time_wait";
        list[n++] = time_wait;
    }
    for (int i = 0; i < 2 * setting_count; i++)
        list[n++] = settings[i];
    list[n] = NULL;
    int cores = conf.num_cores > CORES_MAX ? CORES_MAX : conf.num_cores;
    if (ms_open_cores(list, waiting, cores) < 0) {
        int error = errno;
        fprintf(stderr, "millstream: %s\n", ms_error());
        return refuse(error);
    }
    open_count = cores;
    return 0;
}

mctx_t mtcp_create_context(int cpu)
{
    struct mtcp_context *mctx = NULL;
    pthread_mutex_lock(&lock);
    now();
    if (cpu < 0 || cpu >= conf.num_cores || cpu >= CORES_MAX)
        errno = EINVAL;
    else if ((open_count || !open_all()) && !waiting[cpu])
        errno = EBUSY;
    else if (waiting[cpu] && (mctx = calloc(1, sizeof *mctx))) {
        *mctx = (struct mtcp_context){ .cpu = cpu, .ctx = waiting[cpu] };
        waiting[cpu] = NULL;
    }
    pthread_mutex_unlock(&lock);
    return mctx;
}

void mtcp_destroy_context(mctx_t mctx)
{
    if (!mctx)
        return;
    ms_close_ctx(mctx->ctx, TIMEOUT_MS);
    free(mctx);
    pthread_mutex_lock(&lock);
    open_count--;
    pthread_mutex_unlock(&lock);
}

static void on_signal(int number)
{
    signals_seen++;
    if (handlers[number] && handlers[number] != SIG_IGN)
        handlers[number](number);
}

mtcp_sighandler_t mtcp_register_signal(int signum, mtcp_sighandler_t handler)
{
    if (signum < 1 || signum >= NSIG) {
        errno = EINVAL;
        return SIG_ERR;
    }
    mtcp_sighandler_t before = handlers[signum];
    struct sigaction action = { .sa_handler = handler == SIG_DFL || handler == SIG_IGN ? handler : on_signal };
    handlers[signum] = handler;
    if (sigaction(signum, &action, NULL) < 0) {
        handlers[signum] = before;
        return SIG_ERR;
    }
    signals_registered = 1;
    return before;
}

/* The context behind a handle; NULL, which every call answers with EFAULT, behind none. */
static struct ms_ctx *of(mctx_t mctx)
{
    return mctx ? mctx->ctx : NULL;
}

int mtcp_pipe(mctx_t mctx, int pipeid[2])
{
    return ms_pipe(of(mctx), pipeid);
}

int mtcp_getsockopt(mctx_t mctx, int sockid, int level, int optname, void *optval, socklen_t *optlen)
{
    return ms_getsockopt(of(mctx), sockid, level, optname, optval, optlen);
}

int mtcp_setsockopt(mctx_t mctx, int sockid, int level, int optname, const void *optval, socklen_t optlen)
{
    return ms_setsockopt(of(mctx), sockid, level, optname, optval, optlen);
}

int mtcp_setsock_nonblock(mctx_t mctx, int sockid)
{
    return ms_fcntl(of(mctx), sockid, F_SETFL, O_NONBLOCK);
}

int mtcp_socket_ioctl(mctx_t mctx, int sockid, int request, void *argp)
{
    return ms_ioctl(of(mctx), sockid, (unsigned int)request, argp);
}

static int set(struct ms_ctx *ctx, int fd, int level, int name, int value)
{
    return ms_setsockopt(ctx, fd, level, name, &value, sizeof value);
}

/*
 * Gives a new socket a number that was not closed a moment ago. mTCP hands numbers out in turn, where Linux takes the
 * lowest: its programs look at what they keep of a socket after they have closed it and opened another, and at events
 * of the same call.
 */
static int numbered(mctx_t mctx, int fd)
{
    struct ms_ctx *ctx = of(mctx);
    int passed[RECENT], n = 0;
    while (fd >= 0 && n < RECENT) {
        int is_recent = 0;
        for (int i = 0; i < RECENT; i++)
            is_recent |= mctx->recent[i] == fd + 1;
        int next = is_recent ? ms_dup(ctx, fd) : -1;
        if (next < 0)
            break;
        passed[n++] = fd;
        fd = next;
    }
    while (n > 0)
        ms_close(ctx, passed[--n]);
    return fd;
}

int mtcp_socket(mctx_t mctx, int domain, int type, int protocol)
{
    struct ms_ctx *ctx = of(mctx);
    int fd = numbered(mctx, ms_socket(ctx, domain, type, protocol)), failed = 0;
    if (fd < 0)
        return -1;
    struct mtcp_conf wanted;
    mtcp_getconf(&wanted);
    failed |= set(ctx, fd, SOL_SOCKET, SO_REUSEADDR, 1);
    /* Threads of mTCP listen on the same port, each in its context. */
    if (wanted.num_cores > 1)
        failed |= set(ctx, fd, SOL_SOCKET, SO_REUSEPORT, 1);
    /* The stack doubles them, as Linux does. */
    if (wanted.rcvbuf_size != USUAL.rcvbuf_size)
        failed |= set(ctx, fd, SOL_SOCKET, SO_RCVBUF, wanted.rcvbuf_size / 2);
    if (wanted.sndbuf_size != USUAL.sndbuf_size)
        failed |= set(ctx, fd, SOL_SOCKET, SO_SNDBUF, wanted.sndbuf_size / 2);
    if (wanted.tcp_timeout != USUAL.tcp_timeout && wanted.tcp_timeout > 0)
        failed |= set(ctx, fd, IPPROTO_TCP, TCP_USER_TIMEOUT, wanted.tcp_timeout * 1000);
    if (failed) {
        int error = errno;
        ms_close(ctx, fd);
        return refuse(error);
    }
    return fd;
}

int mtcp_bind(mctx_t mctx, int sockid, const struct sockaddr *addr, socklen_t addrlen)
{
    return ms_bind(of(mctx), sockid, addr, addrlen);
}

int mtcp_listen(mctx_t mctx, int sockid, int backlog)
{
    return ms_listen(of(mctx), sockid, backlog);
}

int mtcp_accept(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen)
{
    return numbered(mctx, ms_accept(of(mctx), sockid, addr, addrlen));
}

/* Which ports lead to which core the stack knows by itself; what is left are the addresses to connect from. */
int mtcp_init_rss(mctx_t mctx, in_addr_t saddr_base, int num_addr, in_addr_t daddr, in_addr_t dport)
{
    (void)daddr;
    (void)dport;
    if (!mctx || num_addr < 1)
        return refuse(EINVAL);
    mctx->base = ntohl(saddr_base);
    mctx->addresses = saddr_base == INADDR_ANY ? 0 : (uint32_t)num_addr;
    mctx->next = 0;
    return 0;
}

int mtcp_connect(mctx_t mctx, int sockid, const struct sockaddr *addr, socklen_t addrlen)
{
    struct sockaddr_in local;
    socklen_t len = sizeof local;
    if (mctx && mctx->addresses && ms_getsockname(mctx->ctx, sockid, (struct sockaddr *)&local, &len) == 0 &&
        local.sin_family == AF_INET && !local.sin_port && local.sin_addr.s_addr == INADDR_ANY) {
        local.sin_addr.s_addr = htonl(mctx->base + mctx->next++ % mctx->addresses);
        if (ms_bind(mctx->ctx, sockid, (struct sockaddr *)&local, sizeof local) < 0)
            return -1;
    }
    return ms_connect(of(mctx), sockid, addr, addrlen);
}

int mtcp_close(mctx_t mctx, int sockid)
{
    int done = ms_close(of(mctx), sockid);
    if (done == 0)
        mctx->recent[mctx->closed++ % RECENT] = sockid + 1;
    return done;
}

int mtcp_shutdown(mctx_t mctx, int sockid, int sock_how)
{
    return ms_shutdown(of(mctx), sockid, sock_how);
}

int mtcp_getsockname(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen)
{
    return ms_getsockname(of(mctx), sockid, addr, addrlen);
}

int mtcp_getpeername(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen)
{
    return ms_getpeername(of(mctx), sockid, addr, addrlen);
}

ssize_t mtcp_read(mctx_t mctx, int sockid, char *buf, size_t len)
{
    return ms_read(of(mctx), sockid, buf, len);
}

ssize_t mtcp_recv(mctx_t mctx, int sockid, char *buf, size_t len, int flags)
{
    return ms_recv(of(mctx), sockid, buf, len, flags);
}

int mtcp_readv(mctx_t mctx, int sockid, const struct iovec *iov, int numIOV)
{
    return (int)ms_readv(of(mctx), sockid, iov, numIOV);
}

ssize_t mtcp_write(mctx_t mctx, int sockid, const char *buf, size_t len)
{
    return ms_write(of(mctx), sockid, buf, len);
}

int mtcp_writev(mctx_t mctx, int sockid, const struct iovec *iov, int numIOV)
{
    return (int)ms_writev(of(mctx), sockid, iov, numIOV);
}

int mtcp_epoll_create(mctx_t mctx, int size)
{
    return ms_epoll_create(of(mctx), size);
}

int mtcp_epoll_create1(mctx_t mctx, int flags)
{
    return ms_epoll_create1(of(mctx), flags);
}

int mtcp_epoll_ctl(mctx_t mctx, int epid, int op, int sockid, struct mtcp_epoll_event *event)
{
    struct epoll_event own = { 0 };
    if (event)
        own = (struct epoll_event){ .events = event->events, .data.u64 = event->data.u64 };
    return ms_epoll_ctl(of(mctx), epid, op, sockid, event ? &own : NULL);
}

int mtcp_epoll_wait(mctx_t mctx, int epid, struct mtcp_epoll_event *events, int maxevents, int timeout)
{
    struct epoll_event found[EVENTS_MAX];
    int before = signals_seen, n, max = maxevents > EVENTS_MAX ? EVENTS_MAX : maxevents;
    if (!events)
        return refuse(EFAULT);
    for (;;) {
        int slice = signals_registered && (timeout < 0 || timeout > SIGNAL_MS) ? SIGNAL_MS : timeout;
        n = ms_epoll_wait(of(mctx), epid, found, max, slice);
        if (n != 0)
            break;
        if (signals_seen != before)
            return refuse(EINTR);
        if (slice == timeout)
            return 0;
        if (timeout > 0)
            timeout -= slice;
    }
    for (int i = 0; i < n; i++) {
        events[i].events = found[i].events;
        events[i].data.u64 = found[i].data.u64;
    }
    return n;
}

char *EventToString(uint32_t event)
{
    static const struct {
        uint32_t event;
        const char *name;
    } NAMES[] = {
        { MTCP_EPOLLNONE, "NONE" },     { MTCP_EPOLLIN, "IN" },         { MTCP_EPOLLPRI, "PRI" },
        { MTCP_EPOLLOUT, "OUT" },       { MTCP_EPOLLRDNORM, "RDNORM" }, { MTCP_EPOLLRDBAND, "RDBAND" },
        { MTCP_EPOLLWRNORM, "WRNORM" }, { MTCP_EPOLLWRBAND, "WRBAND" }, { MTCP_EPOLLMSG, "MSG" },
        { MTCP_EPOLLERR, "ERR" },       { MTCP_EPOLLHUP, "HUP" },       { MTCP_EPOLLRDHUP, "RDHUP" },
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].event == event)
            return (char *)NAMES[i].name;
    return (char *)"?";
}
