/*
 * Congestion control of one's own: sends bytes to a server that gives them back, by a policy that is part of this
 * program. "steady" keeps the window that it is told to, whatever is lost: for a path that is yours alone.
 *
 *     TO=10.0.0.9:7 BYTES=5000000 WINDOW=40 ./policy link=xdp:eth0
 */
#include <arpa/inet.h>
#include <errno.h>
#include <millstream_cc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include "settings.h"

enum { ROOM = 65536 };

/* What a connection knows. */
struct steady {
    int64_t segments;
};

/* Connections may be asked from several threads at once, so what they share is atomic. */
static atomic_uint acknowledgments;

static const struct millstream_cc_tunable tunables[] = {
    {"segments", "The window, segments.", 2, 100000},
};

static int init(void *state)
{
    ((struct steady *)state)->segments = 10;
    return 0;
}

static int64_t get_tunable(const void *state, uint32_t index)
{
    (void)index;
    return ((const struct steady *)state)->segments;
}

static void set_tunable(void *state, uint32_t index, int64_t value)
{
    (void)index;
    ((struct steady *)state)->segments = value;
}

static void ack(void *state, struct millstream_cc_window *window, const struct millstream_cc_ack *ack)
{
    struct steady *steady = state;
    window->cwnd = (uint32_t)steady->segments * ack->mss;
    atomic_fetch_add(&acknowledgments, 1);
}

static const struct millstream_cc steady = {
    .abi = MILLSTREAM_CC_ABI,
    .size = sizeof(struct millstream_cc),
    .name = "steady",
    .state_size = sizeof(struct steady),
    .state_align = _Alignof(struct steady),
    .tunables = tunables,
    .tunables_len = sizeof tunables / sizeof *tunables,
    .init = init,
    .get_tunable = get_tunable,
    .set_tunable = set_tunable,
    .ack = ack,
};

static struct ms_ctx *ctx;

static void die(const char *what)
{
    fprintf(stderr, "%s: %s (%s)\n", what, strerror(errno), ms_error());
    exit(1);
}

static const char *word(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static int connected(const char *to)
{
    char host[64];
    int port, fd = ms_socket(ctx, AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in peer = { .sin_family = AF_INET };
    if (fd < 0)
        die("socket");
    if (sscanf(to, "%63[^:]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &peer.sin_addr) != 1) {
        fprintf(stderr, "TO looks like 10.0.0.9:7, not like %s\n", to);
        exit(2);
    }
    peer.sin_port = htons((uint16_t)port);
    if (ms_setsockopt(ctx, fd, IPPROTO_TCP, TCP_CONGESTION, steady.name, strlen(steady.name)) < 0)
        die("TCP_CONGESTION");
    if (ms_connect(ctx, fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        die("connect");
    return fd;
}

/* Sends a pattern, at most ROOM bytes ahead of what has come back. */
static void there_and_back(int fd, size_t bytes)
{
    static unsigned char out[ROOM], in[ROOM];
    size_t sent = 0, got = 0;
    while (got < bytes) {
        size_t piece = bytes - sent < ROOM ? bytes - sent : ROOM;
        for (size_t i = 0; i < piece; i++)
            out[i] = (unsigned char)((sent + i) * 31 >> 4);
        for (size_t put = 0; put < piece;) {
            ssize_t n = ms_write(ctx, fd, out + put, piece - put);
            if (n < 0)
                die("write");
            put += (size_t)n;
        }
        sent += piece;
        while (got < sent) {
            ssize_t n = ms_read(ctx, fd, in, ROOM);
            if (n <= 0)
                die("read");
            for (ssize_t i = 0; i < n; i++, got++)
                if (in[i] != (unsigned char)(got * 31 >> 4)) {
                    fprintf(stderr, "byte %zu is another\n", got);
                    exit(1);
                }
        }
    }
}

int main(int argc, char **argv)
{
    ctx = open_with(argc, argv);
    if (ms_cc_register(ctx, &steady) < 0)
        die("register");
    if (ms_sysctl_set(ctx, "net.inet.tcp.cc.steady.segments", word("WINDOW", "40")) < 0)
        die("WINDOW");
    int fd = connected(word("TO", "10.0.0.9:7"));
    size_t bytes = strtoul(word("BYTES", "5000000"), NULL, 10);
    there_and_back(fd, bytes);

    char name[16];
    socklen_t len = sizeof name;
    struct tcp_info info = { 0 };
    socklen_t info_len = sizeof info;
    if (ms_getsockopt(ctx, fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) < 0 ||
        ms_getsockopt(ctx, fd, IPPROTO_TCP, TCP_INFO, &info, &info_len) < 0)
        die("getsockopt");
    printf("%zu bytes came back by %.*s, window %u\n", bytes, (int)len, name, info.tcpi_snd_cwnd);
    printf("%s acknowledgments were seen\n", atomic_load(&acknowledgments) > 0 ? "its" : "no");

    /* Who uses it keeps it; by force, it goes on with newreno. */
    if (ms_cc_unregister(ctx, steady.name, 0) == 0 || errno != EBUSY)
        die("unregister while it is used");
    printf("it stays: %s\n", ms_error());
    if (ms_cc_unregister(ctx, steady.name, 1) < 0)
        die("unregister by force");
    len = sizeof name;
    if (ms_getsockopt(ctx, fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) < 0)
        die("getsockopt");
    printf("now the connection has %.*s\n", (int)len, name);
    return ms_close_ctx(ctx, 1000) < 0 ? 1 : 0;
}
