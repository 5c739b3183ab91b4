/*
 * A TCP proxy: each client is connected to the server behind, bytes go both ways, ends too.
 *
 *     TO=10.0.0.9:80 PORT=8080 ./proxy link=xdp:eth0
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include "settings.h"

enum { EVENTS = 256, ROOM = 65536 };

/* One direction: bytes that were read from one side and not yet written to the other. */
struct flow {
    size_t from, to;
    int ended, told;
    char bytes[ROOM];
};

/* One side of a pair; `flow` is what comes from it. */
struct side {
    int fd;
    uint32_t watched;
    struct pair *pair;
    struct flow flow;
};

struct pair {
    struct side side[2];
    int dead;
};

static struct ms_ctx *ctx;
static int set;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int watch(int op, int fd, uint32_t events, void *word)
{
    struct epoll_event event = { .events = events, .data.ptr = word };
    return ms_epoll_ctl(ctx, set, op, fd, &event);
}

/* Moves bytes from one side to the other until one of both must wait; -1 when the pair is over. */
static int move(struct side *from, struct side *to)
{
    struct flow *flow = &from->flow;
    for (;;) {
        while (flow->from < flow->to) {
            ssize_t n = ms_write(ctx, to->fd, flow->bytes + flow->from, flow->to - flow->from);
            if (n < 0)
                return errno == EAGAIN ? 0 : -1;
            flow->from += (size_t)n;
        }
        if (flow->ended) {
            if (!flow->told && ms_shutdown(ctx, to->fd, SHUT_WR) < 0)
                return -1;
            flow->told = 1;
            return 0;
        }
        ssize_t n = ms_read(ctx, from->fd, flow->bytes, ROOM);
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        flow->ended = n == 0;
        flow->from = 0;
        flow->to = (size_t)n;
    }
}

/* What a side waits for: bytes to read if there is room for them, room if there are bytes for it. */
static void rewatch(struct side *side, struct side *other)
{
    uint32_t events = 0;
    if (side->flow.from == side->flow.to && !side->flow.ended)
        events |= EPOLLIN;
    if (other->flow.from < other->flow.to)
        events |= EPOLLOUT;
    if (events != side->watched && watch(EPOLL_CTL_MOD, side->fd, events, side) < 0)
        die("epoll_ctl");
    side->watched = events;
}

static void serve(struct pair *pair)
{
    struct side *a = &pair->side[0], *b = &pair->side[1];
    if (pair->dead)
        return;
    if (move(a, b) < 0 || move(b, a) < 0 || (a->flow.told && b->flow.told)) {
        ms_close(ctx, a->fd);
        ms_close(ctx, b->fd);
        pair->dead = 1;
        return;
    }
    rewatch(a, b);
    rewatch(b, a);
}

/* Connects behind and watches both; the connect may still be under way. */
static void join(int fd, const struct sockaddr_in *behind)
{
    struct pair *pair = calloc(1, sizeof *pair);
    int other = ms_socket(ctx, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (!pair || other < 0)
        die("socket");
    if (ms_connect(ctx, other, (const struct sockaddr *)behind, sizeof *behind) < 0 && errno != EINPROGRESS)
        die("connect");
    for (int i = 0; i < 2; i++) {
        pair->side[i] = (struct side){ .fd = i ? other : fd, .pair = pair, .watched = i ? EPOLLOUT : EPOLLIN };
        if (watch(EPOLL_CTL_ADD, pair->side[i].fd, pair->side[i].watched, &pair->side[i]) < 0)
            die("epoll_ctl");
    }
}

int main(int argc, char **argv)
{
    char *to = getenv("TO"), *colon = to ? strchr(to, ':') : NULL;
    const char *port = getenv("PORT") ? getenv("PORT") : "8080";
    struct sockaddr_in behind = { .sin_family = AF_INET };
    if (!colon || (*colon = 0, inet_pton(AF_INET, to, &behind.sin_addr)) != 1) {
        fprintf(stderr, "TO=ADDRESS:PORT names the server behind\n");
        return 2;
    }
    behind.sin_port = htons((uint16_t)atoi(colon + 1));
    ctx = open_with(argc, argv);
    set = ms_epoll_create1(ctx, 0);
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
    int listener = ms_socket(ctx, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (ms_bind(ctx, listener, (struct sockaddr *)&any, sizeof any) < 0 || ms_listen(ctx, listener, 1024) < 0)
        die("listen");
    if (watch(EPOLL_CTL_ADD, listener, EPOLLIN, NULL) < 0)
        die("epoll_ctl");
    printf("ready: proxy on port %s\n", port);
    fflush(stdout);
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = ms_epoll_wait(ctx, set, events, EVENTS, -1), fd;
        if (n < 0)
            die("epoll_wait");
        for (int i = 0; i < n; i++) {
            struct side *side = events[i].data.ptr;
            if (side)
                serve(side->pair);
            else
                while ((fd = ms_accept4(ctx, listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
                    join(fd, &behind);
        }
        /* Both sides of a pair may be among the events: it is freed behind them. */
        for (int i = 0; i < n; i++) {
            struct side *side = events[i].data.ptr;
            struct pair *pair = side ? side->pair : NULL;
            for (int j = i + 1; pair && j < n; j++) {
                struct side *later = events[j].data.ptr;
                if (later && later->pair == pair)
                    events[j].data.ptr = NULL;
            }
            if (pair && pair->dead)
                free(pair);
        }
    }
}
