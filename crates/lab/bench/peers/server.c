/* The tuned kernel's side: a minimal epoll HTTP server, one process per core, SO_REUSEPORT, backlog 65535.
 *
 *   server ADDR PORT BODY_BYTES [sink|source]
 *
 * Answers every request (up to the empty line) with a 200 and BODY_BYTES octets; obeys "Connection: close".
 * `sink` reads and discards until the peer closes; `source` answers a request with octets without end.
 * Prints "ready" once it listens and its own CPU time in microseconds when it is told to end (SIGTERM). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

static volatile sig_atomic_t ending;

static void on_term(int sig) {
    (void)sig;
    ending = 1;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* Octets of an unfinished request, per descriptor: requests this small nearly always arrive whole. */
static unsigned char partial[FD_MAX];

static int must_close(const char *request, size_t len) {
    return memmem(request, len, "onnection: close", 16) != NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: server ADDR PORT BODY_BYTES [sink|source]\n");
        return 2;
    }
    size_t body = strtoul(argv[3], NULL, 10);
    int sink = argc > 4 && !strcmp(argv[4], "sink"), source = argc > 4 && !strcmp(argv[4], "source");
    struct sigaction term = {.sa_handler = on_term};
    sigaction(SIGTERM, &term, NULL);
    signal(SIGPIPE, SIG_IGN);

    /* One answer for connections that stay, one for those that close. */
    char *answers[2];
    size_t lengths[2];
    for (int closes = 0; closes < 2; closes++) {
        answers[closes] = malloc(body + 256);
        int head = sprintf(answers[closes], "HTTP/1.1 200 OK\r\nServer: kernel\r\nContent-Length: %zu\r\n%s\r\n", body,
                           closes ? "Connection: close\r\n" : "");
        memset(answers[closes] + head, 'x', body);
        lengths[closes] = (size_t)head + body;
    }

    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[2]))};
    if (inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1) die("address");
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&addr, sizeof addr)) die("bind");
    if (listen(listener, 65535)) die("listen");
    int ep = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS];
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &event);
    printf("ready\n");
    fflush(stdout);

    static char buf[1 << 20];
    unsigned long long taken = 0;
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
                    partial[c] = 0;
                    struct epoll_event ev = {.events = EPOLLIN, .data.fd = c};
                    epoll_ctl(ep, EPOLL_CTL_ADD, c, &ev);
                }
                continue;
            }
            if (events[i].events & EPOLLOUT && write(fd, buf, sizeof buf) < 0 && errno != EAGAIN) { close(fd); continue; }
            if (!(events[i].events & EPOLLIN)) continue;
            ssize_t got = read(fd, buf, sizeof buf);
            if (got < 0 && errno == EAGAIN) continue;
            if (got <= 0) { close(fd); continue; }
            taken += (unsigned long long)got;
            if (sink) continue;
            if (source) {
                struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.fd = fd};
                const char *head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000\r\n\r\n";
                if (write(fd, head, strlen(head)) < 0) close(fd);
                else epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev);
                continue;
            }
            /* One request per read is what closed-loop clients send; a tail without its empty line waits. */
            if (got < 4 || memcmp(buf + got - 4, "\r\n\r\n", 4)) { partial[fd] = 1; continue; }
            int closing = must_close(buf, (size_t)got);
            const char *answer = answers[closing];
            size_t sent = 0, answer_len = lengths[closing];
            while (sent < answer_len) {
                ssize_t w = write(fd, answer + sent, answer_len - sent);
                if (w < 0 && errno == EAGAIN) {
                    struct timespec wait = {0, 20000};
                    nanosleep(&wait, NULL);
                    continue;
                }
                if (w < 0) { closing = 1; break; }
                sent += (size_t)w;
            }
            if (closing) close(fd);
        }
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("{\"cpu_us\":%lld,\"octets\":%llu}\n",
           (long long)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec + use.ru_stime.tv_usec,
           taken);
    return 0;
}
