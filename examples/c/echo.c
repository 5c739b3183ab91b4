/*
 * An echo server in the style of epoll: one thread, any number of connections.
 *
 *     sudo ./echo link=tap:mst0,host=10.77.0.2/16 address=10.77.0.1/16
 *
 * Then, in another terminal: nc 10.77.0.1 7
 */
#include <errno.h>
#include <netinet/in.h>
#include "settings.h"

enum { PORT = 7, EVENTS = 64, ROOM = 16384 };

/* What a connection has received and not sent back yet. */
struct peer {
    int fd;
    size_t from, to;
    char bytes[ROOM];
};

static struct ms_ctx *ctx;
static int set;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void watch(int op, int fd, uint32_t events, void *word)
{
    struct epoll_event event = { .events = events, .data.ptr = word };
    if (ms_epoll_ctl(ctx, set, op, fd, &event) < 0)
        die("epoll_ctl");
}

static int listening(void)
{
    int fd = ms_socket(ctx, AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };
    if (fd < 0 || ms_setsockopt(ctx, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        die("socket");
    if (ms_bind(ctx, fd, (struct sockaddr *)&any, sizeof any) < 0 || ms_listen(ctx, fd, 1024) < 0)
        die("listen");
    return fd;
}

static void welcome(int listener)
{
    int fd;
    while ((fd = ms_accept4(ctx, listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct peer *peer = calloc(1, sizeof *peer);
        if (!peer)
            die("memory");
        peer->fd = fd;
        watch(EPOLL_CTL_ADD, fd, EPOLLIN, peer);
    }
    if (errno != EAGAIN)
        die("accept");
}

/* Sends what is there and reads more until one of both must wait; 0 when the connection is over. */
static int serve(struct peer *peer)
{
    for (;;) {
        while (peer->from < peer->to) {
            ssize_t n = ms_write(ctx, peer->fd, peer->bytes + peer->from, peer->to - peer->from);
            if (n < 0)
                return errno == EAGAIN;
            peer->from += (size_t)n;
        }
        ssize_t n = ms_read(ctx, peer->fd, peer->bytes, ROOM);
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        peer->from = 0;
        peer->to = (size_t)n;
    }
}

int main(int argc, char **argv)
{
    ctx = open_with(argc, argv);
    set = ms_epoll_create1(ctx, 0);
    int listener = listening();
    watch(EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    printf("ready: echo on port %d\n", PORT);
    fflush(stdout);
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = ms_epoll_wait(ctx, set, events, EVENTS, -1);
        if (n < 0)
            die("epoll_wait");
        for (int i = 0; i < n; i++) {
            struct peer *peer = events[i].data.ptr;
            if (!peer) {
                welcome(listener);
            } else if (serve(peer)) {
                /* Nothing more is read until the peer takes what it sent. */
                watch(EPOLL_CTL_MOD, peer->fd, peer->from < peer->to ? EPOLLOUT : EPOLLIN, peer);
            } else {
                ms_close(ctx, peer->fd);
                free(peer);
            }
        }
    }
}
