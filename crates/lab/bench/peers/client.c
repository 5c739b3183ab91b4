/* An ordinary client on the kernel: closed loop over epoll, one process.
 *
 *   client short ADDR PORT IN_FLIGHT SECONDS SRC_BASE SRC_COUNT   one request per connection, "Connection: close"
 *   client keep  ADDR PORT IN_FLIGHT SECONDS SRC_BASE SRC_COUNT   requests over connections that stay
 *   client put   ADDR PORT FLOWS     SECONDS SRC_BASE SRC_COUNT   sends one endless body, as fast as it can
 *   client get   ADDR PORT FLOWS     SECONDS SRC_BASE SRC_COUNT   takes one endless body, as fast as it can
 *   client hold  ADDR PORT COUNT     SECONDS SRC_BASE SRC_COUNT   opens COUNT connections and keeps them idle
 *
 * Source addresses go round SRC_BASE .. SRC_BASE+SRC_COUNT-1, so that ports do not run out.
 * Prints one JSON object: requests, errors, octets, seconds, CPU of this process, latency percentiles. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
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

static struct sockaddr_in server, source;
static unsigned src_base, src_count, src_next;
static int ep;
static char request[256];
static size_t request_len;
static unsigned long long done, errors, octets, histogram[BUCKETS];
static struct conn { unsigned long long start; unsigned got; unsigned want; } conns[FD_MAX];

static unsigned long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

static unsigned bucket(unsigned long long ns) {
    if (ns < SUB) return (unsigned)ns;
    unsigned top = 63 - (unsigned)__builtin_clzll(ns);
    return (top - 5) * SUB + (unsigned)((ns >> (top - 6)) & (SUB - 1));
}

static double value_us(unsigned b) {
    if (b < SUB) return b / 1000.0;
    unsigned top = b / SUB + 5;
    return (double)((1ull << top) + ((unsigned long long)(b % SUB) << (top - 6))) / 1000.0;
}

static double percentile(double p) {
    unsigned long long goal = (unsigned long long)((double)done * p), seen = 0;
    for (unsigned b = 0; b < BUCKETS; b++)
        if ((seen += histogram[b]) > goal) return value_us(b);
    return 0;
}

static void open_one(unsigned events) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0 || fd >= FD_MAX) { perror("socket"); exit(1); }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (src_count) {
        source.sin_addr.s_addr = htonl(src_base + src_next++ % src_count);
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&source, sizeof source)) { perror("bind"); exit(1); }
    }
    conns[fd] = (struct conn){.start = now_ns()};
    if (connect(fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) {
        errors++;
        close(fd);
        return;
    }
    struct epoll_event ev = {.events = events, .data.fd = fd};
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
}

/* Octets of the whole answer, once its head has arrived. */
static unsigned wanted(const char *buf, size_t len) {
    const char *end = memmem(buf, len, "\r\n\r\n", 4), *field = memmem(buf, len, "ontent-Length: ", 15);
    if (!field) field = memmem(buf, len, "ontent-length: ", 15);
    return end && field ? (unsigned)(end + 4 - buf) + (unsigned)atoi(field + 15) : 0;
}

int main(int argc, char **argv) {
    if (argc < 8) {
        fprintf(stderr, "usage: client short|keep|put|get|hold ADDR PORT N SECONDS SRC_BASE SRC_COUNT\n");
        return 2;
    }
    int is_short = !strcmp(argv[1], "short"), is_put = !strcmp(argv[1], "put"), is_get = !strcmp(argv[1], "get"), is_hold = !strcmp(argv[1], "hold");
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[3]))};
    inet_pton(AF_INET, argv[2], &server.sin_addr);
    int in_flight = atoi(argv[4]);
    double seconds = atof(argv[5]);
    struct in_addr base;
    inet_pton(AF_INET, argv[6], &base);
    src_base = ntohl(base.s_addr);
    src_count = (unsigned)atoi(argv[7]);
    source.sin_family = AF_INET;
    request_len = (size_t)sprintf(request, "GET /64 HTTP/1.1\r\nHost: %s\r\n%s\r\n", argv[2],
                                  is_short ? "Connection: close\r\n" : "");
    if (is_put) request_len = (size_t)sprintf(request, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000000\r\n\r\n");
    if (is_get) request_len = (size_t)sprintf(request, "GET /1000000000000000 HTTP/1.1\r\nHost: x\r\n\r\n");
    ep = epoll_create1(0);
    static char buf[1 << 20];
    memset(buf, 'y', sizeof buf);
    unsigned long long begin = now_ns(), end = begin + (unsigned long long)(seconds * 1e9), now = begin;
    int opened = 0, established = 0;
    struct epoll_event events[EVENTS];
    while ((now = now_ns()) < end) {
        /* A listen queue takes what it takes: open at most 256 ahead of what is established. */
        while (opened < in_flight && opened - established < 256) {
            open_one(EPOLLOUT);
            opened++;
        }
        int n = epoll_wait(ep, events, EVENTS, 20);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            struct conn *c = &conns[fd];
            if (events[i].events & (EPOLLERR | EPOLLHUP) && !(events[i].events & EPOLLIN)) {
                errors++;
                close(fd);
                open_one(EPOLLOUT);
                continue;
            }
            if (events[i].events & EPOLLOUT) {
                if (is_put && c->want) {
                    ssize_t w = write(fd, buf, sizeof buf);
                    if (w > 0) octets += (unsigned long long)w;
                    continue;
                }
                established++;
                if (is_put) {
                    c->want = 1;
                    if (write(fd, request, request_len) != (ssize_t)request_len) errors++;
                    continue;
                }
                struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
                epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev);
                if (is_hold) { done++; continue; }
                if (!is_short) c->start = now_ns();
                if (write(fd, request, request_len) != (ssize_t)request_len) errors++;
                continue;
            }
            ssize_t got = read(fd, buf, sizeof buf);
            if (got < 0 && errno == EAGAIN) continue;
            if (got > 0 && is_get) {
                octets += (unsigned long long)got;
                continue;
            }
            if (got > 0) {
                octets += (unsigned long long)got;
                if (!c->want) c->want = wanted(buf, (size_t)got);
                c->got += (unsigned)got;
            }
            int whole = c->want && c->got >= c->want;
            if (got > 0 && !whole) continue;
            if (got > 0 && is_short) continue; /* the end of the connection is part of the transaction */
            if (!whole) {
                errors++;
                close(fd);
                open_one(EPOLLOUT);
                continue;
            }
            unsigned long long t = now_ns();
            histogram[bucket(t - c->start)]++;
            done++;
            if (is_short) {
                close(fd);
                open_one(EPOLLOUT);
            } else {
                *c = (struct conn){.start = t};
                if (write(fd, request, request_len) != (ssize_t)request_len) errors++;
            }
        }
    }
    double took = (double)(now_ns() - begin) / 1e9;
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("{\"requests\":%llu,\"errors\":%llu,\"octets\":%llu,\"seconds\":%.6f,\"cpu_us\":%lld,"
           "\"p50_us\":%.2f,\"p99_us\":%.2f,\"p999_us\":%.2f}\n",
           done, errors, octets, took,
           (long long)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec + use.ru_stime.tv_usec,
           percentile(0.5), percentile(0.99), percentile(0.999));
    return 0;
}
