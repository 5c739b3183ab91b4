/* An ordinary client on the kernel over epoll, one process.
 *
 *   client short  ADDR PORT N SECONDS SRC_BASE SRC_COUNT [SIZE [EACH]]   EACH requests (1) a connection, N at a time;
 *                                                                       the last says "Connection: close"
 *   client keep   ADDR PORT N SECONDS SRC_BASE SRC_COUNT [SIZE]   requests over connections that stay
 *   client accept ADDR PORT N SECONDS SRC_BASE SRC_COUNT          opens connections and closes them, N at a time
 *   client open   ADDR PORT N SECONDS SRC_BASE SRC_COUNT SIZE RATE   RATE requests a second over N connections, due at
 *                             random (Poisson) whether or not answers keep up; latency counts from when each was due
 *   client put    ADDR PORT N SECONDS SRC_BASE SRC_COUNT   N flows, each sends one endless body as fast as it can
 *   client get    ADDR PORT N SECONDS SRC_BASE SRC_COUNT   N flows, each takes one endless body as fast as it can
 *   client hold   ADDR PORT N SECONDS SRC_BASE SRC_COUNT   opens N connections and keeps them idle
 *
 * Where N is more than the process may have descriptors, several threads with tables of descriptors of their own share the
 * connections.
 * Answers have SIZE bytes (64). Source addresses go round SRC_BASE .. SRC_BASE+SRC_COUNT-1, so that ports do not run out.
 * Prints "ready" when it begins to measure, then one JSON object: requests, errors, bytes, seconds, CPU of this process, latency percentiles. What happens
 * before the load is there (`open`, and `keep` with many connections) is not measured. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif
#define EVENTS 256
#define FD_MAX 1200000
/* Latency buckets: 64 per power of two of nanoseconds. */
#define SUB 64
#define BUCKETS (64 * SUB)
/* Requests that are due and have no connection yet, at most. */
#define DUE (1u << 20)

typedef unsigned long long u64;

static enum { SHORT, KEEP, ACCEPT, OPEN, PUT, GET, HOLD } mode;
static const char *const modes[] = {"short", "keep", "accept", "open", "put", "get", "hold"};
static struct sockaddr_in server;
static unsigned src_base, src_count, each = 1;
/* Requests a second of one thread. */
static double rate;
/* Everything from here on belongs to one thread, but for what is asked. */
static __thread struct sockaddr_in source;
static __thread unsigned src_next;
static __thread int ep;
/* What is asked on a connection that stays, and on one that ends. */
static char stay[256], last[256];
static size_t stay_len, last_len;
static __thread struct counts { u64 done, errors, bytes, histogram[BUCKETS]; } seen;
static __thread int opened, established;
/* All are there, and those that stay are asked on. */
static __thread int asking;
#define BUF (1u << 20)
static __thread char *buf;

static __thread struct conn {
    u64 start, got, want;
    unsigned left; /* requests until it ends; 0: it stays */
    enum { CONNECTING, BUSY, IDLE } state;
} *conns;

/* Open loop: when the next is due (0: nothing is yet), those that wait for a connection, and connections that wait for them. */
static __thread u64 next_due, *due;
static __thread unsigned due_head, due_tail, idle_count;
static __thread int *idle;

static u64 now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

static unsigned bucket(u64 ns) {
    if (ns < SUB) return (unsigned)ns;
    unsigned top = 63 - (unsigned)__builtin_clzll(ns);
    return (top - 5) * SUB + (unsigned)((ns >> (top - 6)) & (SUB - 1));
}

static double value_us(unsigned b) {
    if (b < SUB) return b / 1000.0;
    unsigned top = b / SUB + 5;
    return (double)((1ull << top) + ((u64)(b % SUB) << (top - 6))) / 1000.0;
}

static double percentile(const u64 *histogram, double p) {
    u64 all = 0, seen = 0;
    for (unsigned b = 0; b < BUCKETS; b++) all += histogram[b];
    u64 goal = (u64)((double)all * p);
    for (unsigned b = 0; b < BUCKETS; b++)
        if ((seen += histogram[b]) > goal) return value_us(b);
    return 0;
}

/* Between two requests that come by chance. */
static u64 gap_ns(void) {
    static __thread u64 seed = 88172645463325252ull;
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    double uniform = ((double)(seed >> 11) + 1) / 9007199254740993.0;
    return (u64)(-log(uniform) / rate * 1e9);
}

static void watch(int fd, int how, unsigned events) {
    struct epoll_event ev = {.events = events, .data.fd = fd};
    epoll_ctl(ep, how, fd, &ev);
}

static void open_one(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0 || fd >= FD_MAX) { perror("socket"); exit(1); }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (src_count) {
        source.sin_addr.s_addr = htonl(src_base + src_next++ % src_count);
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&source, sizeof source)) { perror("bind"); exit(1); }
    }
    conns[fd] = (struct conn){.start = now_ns(), .left = mode == SHORT ? each : 0};
    if (connect(fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) {
        seen.errors++;
        close(fd);
        return;
    }
    watch(fd, EPOLL_CTL_ADD, EPOLLOUT);
}

/* This one ended, well or not: another takes its place. */
static void replace(int fd) {
    close(fd);
    open_one();
}

static void failed(int fd) {
    seen.errors++;
    replace(fd);
}

static void ask(int fd, u64 since) {
    struct conn *c = &conns[fd];
    int ends = c->left == 1;
    c->start = since, c->got = c->want = 0, c->state = BUSY;
    ssize_t len = (ssize_t)(ends ? last_len : stay_len);
    if (write(fd, ends ? last : stay, (size_t)len) != len) seen.errors++;
}

/* Bytes of the whole answer, once its head has arrived. */
static u64 wanted(const char *head, size_t len) {
    const char *end = memmem(head, len, "\r\n\r\n", 4), *field = memmem(head, len, "ontent-Length: ", 15);
    if (!field) field = memmem(head, len, "ontent-length: ", 15);
    return end && field ? (u64)(end + 4 - head) + strtoull(field + 15, NULL, 10) : 0;
}

static void finish(u64 since, u64 t) {
    seen.histogram[bucket(t - since)]++;
    seen.done++;
}

static void rest(int fd) {
    conns[fd].state = IDLE;
    idle[idle_count++] = fd;
}

/* Requests that are due go to connections that have nothing to do. */
static void serve_due(u64 now) {
    for (; next_due <= now; next_due += gap_ns()) {
        if (due_tail - due_head == DUE) { seen.errors++; continue; }
        due[due_tail++ % DUE] = next_due;
    }
    while (due_head != due_tail && idle_count > 0) ask(idle[--idle_count], due[due_head++ % DUE]);
}

static void on_connected(int fd) {
    struct conn *c = &conns[fd];
    c->state = BUSY;
    established++;
    if (mode == PUT) {
        if (write(fd, stay, stay_len) != (ssize_t)stay_len) seen.errors++;
        return;
    }
    watch(fd, EPOLL_CTL_MOD, EPOLLIN);
    switch (mode) {
    case HOLD: seen.done++; return;
    case ACCEPT: shutdown(fd, SHUT_WR); return;
    case OPEN: rest(fd); return;
    case KEEP:
        /* Who asked at once would have the last wait for its turn behind all requests of all others. */
        if (asking) ask(fd, now_ns());
        else rest(fd);
        return;
    case SHORT: ask(fd, c->start); return;
    default: ask(fd, now_ns());
    }
}

static void on_writable(int fd) {
    ssize_t w = write(fd, buf, BUF);
    if (w > 0) seen.bytes += (u64)w;
}

static void on_readable(int fd) {
    struct conn *c = &conns[fd];
    ssize_t got = read(fd, buf, BUF);
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0) {
        seen.bytes += (u64)got;
        if (mode == GET) return;
        if (!c->want) c->want = wanted(buf, (size_t)got);
        c->got += (u64)got;
    }
    int whole = c->want && c->got >= c->want;
    /* The end of the connection is part of its last transaction. */
    if (got > 0 && (!whole || c->left == 1)) return;
    u64 t = now_ns();
    if (mode == ACCEPT && got == 0) {
        finish(c->start, t);
        replace(fd);
    } else if (!whole || (got <= 0 && c->left != 1)) {
        failed(fd);
    } else {
        finish(c->start, t);
        if (c->left == 1) replace(fd);
        else if (mode == OPEN) rest(fd);
        else {
            if (c->left) c->left--;
            ask(fd, t);
        }
    }
}

static void handle(struct epoll_event *event) {
    int fd = event->data.fd;
    if (event->events & (EPOLLERR | EPOLLHUP) && !(event->events & EPOLLIN)) failed(fd);
    else if (conns[fd].state == CONNECTING) on_connected(fd);
    else if (event->events & EPOLLOUT) on_writable(fd);
    else on_readable(fd);
}

static void turn(int in_flight, u64 end) {
    struct epoll_event events[EVENTS];
    /* A listen queue takes what it takes: open at most 256 ahead of what is established. */
    for (; opened < in_flight && opened - established < 256; opened++) open_one();
    int resting = mode == KEEP && asking && idle_count > 0;
    for (int i = 0; resting && i < EVENTS && idle_count > 0; i++) ask(idle[--idle_count], now_ns());
    u64 now = now_ns(), until = now + (resting ? 0 : 20000000ull);
    if (next_due && next_due < until) until = next_due;
    if (end && end < until) until = end;
    u64 wait = until > now ? until - now : 0;
    struct timespec time = {(time_t)(wait / 1000000000ull), (long)(wait % 1000000000ull)};
    int n = epoll_pwait2(ep, events, EVENTS, &time, NULL);
    for (int i = 0; i < n; i++) handle(&events[i]);
    if (next_due) serve_due(now_ns());
}

static u64 cpu_us(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (u64)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + (u64)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* What one thread does, and what came of it. */
struct share { int number, connections; u64 end; struct counts counts; unsigned waiting; };

static double seconds;
/* All have their connections; all know when the end is. */
static pthread_barrier_t all;
static u64 timeout, begin, used;

static void *work(void *arg) {
    struct share *share = arg;
    /* Descriptors of its own, as many as the limit says once more. */
    if (share->number && unshare(CLONE_FILES)) { perror("unshare"); exit(1); }
    ep = epoll_create1(0);
    source.sin_family = AF_INET;
    conns = calloc(FD_MAX, sizeof *conns), idle = calloc(FD_MAX, sizeof *idle), due = calloc(DUE, sizeof *due);
    buf = malloc(BUF);
    if (!conns || !idle || !due || !buf) { perror("memory"); exit(1); }
    memset(buf, 'y', BUF);
    prctl(PR_SET_TIMERSLACK, 1);
    if (mode == OPEN || mode == KEEP)
        while (established < share->connections && now_ns() < timeout) turn(share->connections, 0);
    pthread_barrier_wait(&all);
    asking = 1;
    while (mode == KEEP && idle_count > 0) turn(share->connections, 0);
    pthread_barrier_wait(&all);
    if (share->number == 0) {
        puts("ready");
        fflush(stdout);
        begin = now_ns(), used = cpu_us();
    }
    memset(&seen, 0, sizeof seen);
    pthread_barrier_wait(&all);
    if (mode == OPEN) next_due = begin + gap_ns();
    u64 end = begin + (u64)(seconds * 1e9);
    while (now_ns() < end) turn(share->connections, end);
    share->end = now_ns(), share->counts = seen, share->waiting = due_tail - due_head;
    return NULL;
}

int main(int argc, char **argv) {
    /* A hundred thousand connections want as many descriptors. */
    struct rlimit many = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_NOFILE, &many);
    int known = 0;
    for (int m = SHORT; m <= HOLD && argc > 1; m++)
        if (!strcmp(argv[1], modes[m])) mode = m, known = 1;
    if (argc < 8 || !known) {
        fprintf(stderr, "usage: client short|keep|accept|open|put|get|hold ADDR PORT N SECONDS SRC_BASE SRC_COUNT [...]\n");
        return 2;
    }
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[3]))};
    inet_pton(AF_INET, argv[2], &server.sin_addr);
    int in_flight = atoi(argv[4]);
    seconds = atof(argv[5]);
    struct in_addr base;
    inet_pton(AF_INET, argv[6], &base);
    src_base = ntohl(base.s_addr), src_count = (unsigned)atoi(argv[7]);
    const char *size = argc > 8 ? argv[8] : "64";
    if (argc > 9 && mode == SHORT) each = (unsigned)atoi(argv[9]);
    stay_len = (size_t)snprintf(stay, sizeof stay, "GET /%s HTTP/1.1\r\nHost: %s\r\n\r\n", size, argv[2]);
    last_len = (size_t)snprintf(last, sizeof last, "GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", size, argv[2]);
    if (mode == PUT) stay_len = (size_t)sprintf(stay, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000000\r\n\r\n");
    if (mode == GET) stay_len = (size_t)sprintf(stay, "GET /1000000000000000 HTTP/1.1\r\nHost: x\r\n\r\n");
    /* Some descriptors are not connections: those that were there, and the epoll set. */
    getrlimit(RLIMIT_NOFILE, &many);
    int room = (int)(many.rlim_cur < FD_MAX ? many.rlim_cur : FD_MAX) - 64;
    int threads = room > 0 && in_flight > room ? (in_flight + room - 1) / room : 1;
    if (mode == OPEN && (argc < 10 || (rate = atof(argv[9]) / threads) <= 0)) {
        fprintf(stderr, "client: open wants a size and a rate\n");
        return 2;
    }
    /* All connections first, where opening them is not what is measured; a minute is enough for any number. */
    timeout = now_ns() + 60000000000ull;
    struct share *shares = calloc((size_t)threads, sizeof *shares);
    pthread_t *others = calloc((size_t)threads, sizeof *others);
    if (!shares || !others || pthread_barrier_init(&all, NULL, (unsigned)threads)) { perror("threads"); return 1; }
    for (int i = 0; i < threads; i++) {
        shares[i].number = i;
        shares[i].connections = in_flight / threads + (i < in_flight % threads);
        if (i && pthread_create(&others[i], NULL, work, &shares[i])) { perror("thread"); return 1; }
    }
    work(&shares[0]);
    struct counts sum = {0};
    unsigned waiting = 0;
    u64 end = 0;
    for (int i = 0; i < threads; i++) {
        if (i) pthread_join(others[i], NULL);
        const struct counts *c = &shares[i].counts;
        sum.done += c->done, sum.errors += c->errors, sum.bytes += c->bytes, waiting += shares[i].waiting;
        for (unsigned b = 0; b < BUCKETS; b++) sum.histogram[b] += c->histogram[b];
        if (shares[i].end > end) end = shares[i].end;
    }
    printf("{\"requests\":%llu,\"errors\":%llu,\"bytes\":%llu,\"seconds\":%.6f,\"cpu_us\":%llu,"
           "\"p50_us\":%.2f,\"p99_us\":%.2f,\"p999_us\":%.2f,\"waiting\":%u}\n",
           sum.done, sum.errors, sum.bytes, (double)(end - begin) / 1e9, cpu_us() - used, percentile(sum.histogram, 0.5),
           percentile(sum.histogram, 0.99), percentile(sum.histogram, 0.999), waiting);
    return 0;
}
