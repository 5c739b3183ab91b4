/* A client on the kernel that asks the same again and again, of servers that do not speak HTTP.
 *
 *   asker ADDR PORT N SECONDS BYTES QUESTION    N connections (at most 1024), one question on its way on each; an answer
 *                                                has so many BYTES. In QUESTION `^` stands for CR LF.
 *
 * Prints one line: "N answers in S s". A connection that ends is an error, which ends the run. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 1024

static char question[4096], buf[1 << 16];
static size_t length;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void ask(int fd)
{
    if (send(fd, question, length, MSG_NOSIGNAL) != (ssize_t)length)
        fail("send");
}

static int open_one(const char *addr, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (inet_pton(AF_INET, addr, &to.sin_addr) != 1 || fd < 0 || connect(fd, (void *)&to, sizeof to))
        fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: asker ADDR PORT N SECONDS BYTES QUESTION\n");
        return 2;
    }
    static size_t got[MOST];
    static int fds[MOST];
    unsigned n = atoi(argv[3]);
    size_t bytes = strtoul(argv[5], 0, 10);
    for (const char *p = argv[6]; *p && length + 2 <= sizeof question; p++) {
        if (*p == '^')
            question[length++] = '\r';
        question[length++] = *p == '^' ? '\n' : *p;
    }
    if (n == 0 || n > MOST || bytes == 0)
        fail("N or BYTES");
    int ep = epoll_create1(0);
    for (unsigned i = 0; i < n; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        fds[i] = open_one(argv[1], atoi(argv[2]));
        if (epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &event))
            fail("epoll_ctl");
    }
    unsigned long answers = 0;
    double begun = now(), end = begun + atof(argv[4]), at;
    for (unsigned i = 0; i < n; i++)
        ask(fds[i]);
    while ((at = now()) < end) {
        struct epoll_event events[256];
        int ready = epoll_wait(ep, events, 256, 1000);
        if (ready <= 0)
            fail("no answer within a second");
        for (int e = 0; e < ready; e++) {
            unsigned i = events[e].data.u32;
            ssize_t more = recv(fds[i], buf, sizeof buf, 0);
            if (more <= 0)
                fail("recv");
            got[i] += more;
            if (got[i] == bytes) {
                got[i] = 0;
                answers++;
                ask(fds[i]);
            } else if (got[i] > bytes) {
                fprintf(stderr, "asker: an answer has more than %zu bytes\n", bytes);
                return 1;
            }
        }
    }
    printf("%lu answers in %.6f s\n", answers, at - begun);
    return 0;
}
