/* The tuned kernel's side: a minimal epoll HTTP server, one process per core, SO_REUSEPORT, backlog 65535.
 *
 *   server ADDR PORT BODY_BYTES [serve|sink|source [CONNECTIONS]]
 *
 * Answers every request (up to the empty line) with a 200 and BODY_BYTES bytes, or as many as its path says (/4096);
 * obeys "Connection: close".
 * `sink` reads and discards until the peer closes; `source` answers a request with bytes without end.
 * Where CONNECTIONS at a time are more than the process may have descriptors, several threads with tables of descriptors
 * of their own share the port.
 * Prints "ready" once it listens and its own CPU time in microseconds when it is told to end (SIGTERM). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 256
#define FD_MAX 1200000
#define ENDLESS 1000000000000000ull

static volatile sig_atomic_t ending;

static void on_term(int sig) {
    (void)sig;
    ending = 1;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* What is still to be sent, per descriptor, and whether that is the end. */
static __thread struct { unsigned long long left; int closing; } *answers;
#define BUF (1u << 20)
static __thread char *buf, *in;
static __thread int ep;

static void watch(int fd, int how, unsigned events) {
    struct epoll_event ev = {.events = events, .data.fd = fd};
    epoll_ctl(ep, how, fd, &ev);
}

/* Sends what finds room, at most a megabyte: others have their turn. */
static void go_on(int fd) {
    size_t some = answers[fd].left < BUF ? (size_t)answers[fd].left : BUF;
    ssize_t w = write(fd, buf, some);
    if (w < 0 && errno == EAGAIN) return;
    if (w < 0) { close(fd); return; }
    answers[fd].left -= (unsigned long long)w;
    if (answers[fd].left > 0) return;
    if (answers[fd].closing) close(fd);
    else watch(fd, EPOLL_CTL_MOD, EPOLLIN);
}

/* The head and the beginning of the body, made anew only when another size is asked for. */
static __thread struct made { unsigned long long body; size_t head, len; char text[256 + 65536]; } made[2];

static void make(struct made *m, unsigned long long body, int closing) {
    m->body = body;
    m->head = (size_t)sprintf(m->text, "HTTP/1.1 200 OK\r\nServer: kernel\r\nContent-Length: %llu\r\n%s\r\n", body,
                              closing ? "Connection: close\r\n" : "");
    size_t with = body < 65536 ? (size_t)body : 65536;
    memset(m->text + m->head, 'x', with);
    m->len = m->head + with;
}

/* One write for an answer that is not long. */
static void answer(int fd, unsigned long long body, int closing) {
    struct made *m = &made[closing];
    if (m->len == 0 || m->body != body) make(m, body, closing);
    ssize_t w = write(fd, m->text, m->len);
    if (w < 0 && errno != EAGAIN) { close(fd); return; }
    answers[fd].left = m->head + body - (unsigned long long)(w < 0 ? 0 : w);
    answers[fd].closing = closing;
    if (answers[fd].left > 0) watch(fd, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    else if (closing) close(fd);
}

/* How much the path asks for. */
static unsigned long long wanted(const char *request, unsigned long long otherwise) {
    if (memcmp(request, "GET /", 5) || request[5] < '0' || request[5] > '9') return otherwise;
    return strtoull(request + 5, NULL, 10);
}

static int must_close(const char *request, size_t len) {
    return memmem(request, len, "onnection: close", 16) != NULL;
}

static struct sockaddr_in addr;
static size_t body;
static int sink, source;
static unsigned long long taken;

static void *serve(void *arg) {
    /* Descriptors of its own, as many as the limit says once more. */
    if (arg && unshare(CLONE_FILES)) die("unshare");
    answers = calloc(FD_MAX, sizeof *answers), buf = malloc(BUF), in = malloc(BUF);
    if (!answers || !buf || !in) die("memory");
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&addr, sizeof addr)) die("bind");
    if (listen(listener, 65535)) die("listen");
    ep = epoll_create1(0);
    memset(buf, 'x', BUF);
    struct epoll_event events[EVENTS];
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    /* The last to listen says so, and all others do by then. */
    static int listening;
    int *threads = arg ? arg : &(int){1};
    if (__atomic_add_fetch(&listening, 1, __ATOMIC_SEQ_CST) == *threads) {
        printf("ready\n");
        fflush(stdout);
    }
    unsigned long long mine = 0;
    while (!ending) {
        int n = epoll_wait(ep, events, EVENTS, 500);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int c;
                while ((c = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (c >= FD_MAX) { close(c); continue; }
                    setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                    answers[c].left = 0;
                    watch(c, EPOLL_CTL_ADD, EPOLLIN);
                }
                continue;
            }
            if (events[i].events & EPOLLOUT) { go_on(fd); continue; }
            ssize_t got = read(fd, in, BUF - 1);
            if (got < 0 && errno == EAGAIN) continue;
            if (got <= 0) { close(fd); continue; }
            mine += (unsigned long long)got;
            if (sink) continue;
            /* One request per read is what closed-loop clients send; a tail without its empty line waits. */
            if (got < 4 || memcmp(in + got - 4, "\r\n\r\n", 4)) continue;
            in[got] = 0;
            answer(fd, source ? ENDLESS : wanted(in, body), must_close(in, (size_t)got));
        }
    }
    __atomic_add_fetch(&taken, mine, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(int argc, char **argv) {
    /* A hundred thousand connections want as many descriptors. */
    struct rlimit many = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_NOFILE, &many);
    if (argc < 4) {
        fprintf(stderr, "usage: server ADDR PORT BODY_BYTES [serve|sink|source [CONNECTIONS]]\n");
        return 2;
    }
    body = strtoul(argv[3], NULL, 10);
    sink = argc > 4 && !strcmp(argv[4], "sink"), source = argc > 4 && !strcmp(argv[4], "source");
    struct sigaction term = {.sa_handler = on_term};
    sigaction(SIGTERM, &term, NULL);
    signal(SIGPIPE, SIG_IGN);
    addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[2]))};
    if (inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1) die("address");

    /* Connections are spread by their hashes, so some room is left; and some descriptors are not connections. */
    getrlimit(RLIMIT_NOFILE, &many);
    long room = (long)(many.rlim_cur < FD_MAX ? many.rlim_cur : FD_MAX) - 64, at_a_time = argc > 5 ? atol(argv[5]) : 0;
    int threads = room > 0 && at_a_time > room ? (int)((at_a_time + at_a_time / 16 + room - 1) / room) : 1;
    if (threads == 1) {
        serve(NULL);
    } else {
        pthread_t *others = calloc((size_t)threads, sizeof *others);
        if (!others) die("memory");
        for (int i = 0; i < threads; i++)
            if (pthread_create(&others[i], NULL, serve, &threads)) die("thread");
        for (int i = 0; i < threads; i++) pthread_join(others[i], NULL);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("{\"cpu_us\":%lld,\"bytes\":%llu}\n",
           (long long)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec + use.ru_stime.tv_usec,
           taken);
    return 0;
}
