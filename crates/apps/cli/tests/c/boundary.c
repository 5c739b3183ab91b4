/*
 * The questions of the boundary's table, one section for each row: run with the launcher and without. `rows.h` is made of
 * the table; it checks the numbers of options against the system's headers and lists the values that are set.
 * `boundary PEER [NAME]`.
 */
#include "launched.h"
#include <net/if.h>
#include <netinet/ip.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <sys/select.h>
#include <sys/sendfile.h>

struct value {
    const char *text, *bytes;
    int len;
};

struct option {
    const char *name;
    int level, number, room, shows, count;
    const struct value *values;
};

#include "rows.h"

static int port = 3000;

static void fill_in(struct sockaddr_storage *to, socklen_t *len, int family, int side, int number)
{
    memset(to, 0, sizeof *to);
    if (family == AF_INET6) {
        struct sockaddr_in6 addr = at6(side, number);
        memcpy(to, &addr, *len = sizeof addr);
    } else {
        struct sockaddr_in addr = at(side, number);
        memcpy(to, &addr, *len = sizeof addr);
    }
}

static int family_of(const struct option *option)
{
    return option->level == IPPROTO_IPV6 ? AF_INET6 : AF_INET;
}

/* A socket at the server's end that is bound, and not yet listening. */
static int bound(int family)
{
    struct sockaddr_storage addr;
    socklen_t len;
    int fd = new_socket(SERVER, family), on = 1;
    fill_in(&addr, &len, family, SERVER, ++port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&addr, len) < 0) {
        perror("bind");
        exit(1);
    }
    return fd;
}

/* Connects to the last port from the kernel's end; the accepted socket, or -1. */
static int accepted(int listener, int family, int *client)
{
    struct sockaddr_storage addr;
    socklen_t len;
    fill_in(&addr, &len, family, SERVER, port);
    *client = (int)raw_socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    raw_connect(*client, &addr, len);
    struct pollfd row = { .fd = listener, .events = POLLIN };
    poll(&row, 1, 2000);
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd >= 0)
        ready(CLIENT, *client, POLLOUT);
    return fd;
}

/* Connects `fd` to a listener at the kernel's end; the peer, or -1. */
static int connected(int fd, int family)
{
    struct sockaddr_storage addr;
    socklen_t len;
    int on = 1, listener = (int)raw_socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fill_in(&addr, &len, family, CLIENT, ++port);
    raw_setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (raw_bind(listener, &addr, len) < 0 || raw_listen(listener, 4) < 0) {
        perror("listen at the peer");
        exit(1);
    }
    long rc = connect(fd, (struct sockaddr *)&addr, len);
    if (rc < 0 && errno != EINPROGRESS)
        told(rc, "connect");
    struct pollfd row = { .fd = listener, .events = POLLIN };
    int peer = raw_poll(&row, 1, 500) == 1 ? (int)raw_accept(listener, NULL, NULL) : -1;
    if (peer >= 0)
        ready(SERVER, fd, POLLOUT);
    raw_close(listener);
    return peer;
}

static void get(int fd, const struct option *option, const char *state)
{
    unsigned char value[512];
    socklen_t len = (socklen_t)option->room;
    memset(value, 0xee, sizeof value);
    long rc = told(getsockopt(fd, option->level, option->number, value, &len), "%s, get", state);
    if (rc < 0)
        return;
    told((long)len, "%s, length", state);
    if (option->shows && len <= sizeof value) {
        printf("%s, value: ", state);
        for (socklen_t i = 0; i < len; i++)
            printf("%02x", value[i]);
        printf("\n");
        checks++;
    }
}

static long set(int fd, const struct option *option, const struct value *value)
{
    return setsockopt(fd, option->level, option->number, value->bytes, (socklen_t)value->len);
}

/* Told, set to each value, told again. */
static void ask(int fd, const struct option *option, const char *state)
{
    char text[200];
    get(fd, option, state);
    /* Negative lengths. */
    unsigned char room[512] = { 0 };
    socklen_t negative = (socklen_t)-1;
    told(getsockopt(fd, option->level, option->number, room, &negative), "%s, -1 bytes got", state);
    for (int i = 0; i < option->count; i++) {
        const char *bytes = option->values[i].bytes;
        told(setsockopt(fd, option->level, option->number, bytes, (socklen_t)-1), "%s, -1 bytes set, %s", state,
             option->values[i].text);
    }
    for (int i = 0; i < option->count; i++) {
        snprintf(text, sizeof text, "%s, set %s", state, option->values[i].text);
        told(set(fd, option, &option->values[i]), "%s", text);
        get(fd, option, text);
    }
}

static void option_row(const struct option *option)
{
    int family = family_of(option), fd, peer, conn;
    fd = new_socket(SERVER, family);
    ask(fd, option, "new");
    close(fd);

    fd = bound(family);
    told(listen(fd, 4), "listen");
    ask(fd, option, "listener");
    close(fd);

    fd = bound(family);
    listen(fd, 4);
    conn = accepted(fd, family, &peer);
    told(conn < 0 ? -1 : 0, "accept");
    ask(conn, option, "accepted");
    hang_up(conn, peer);
    close(fd);

    fd = new_socket(SERVER, family);
    peer = connected(fd, family);
    told(peer < 0 ? -1 : 0, "connect");
    ask(fd, option, "connected");
    hang_up(fd, peer);

    if (option->count == 0)
        return;
    fd = bound(family);
    told(set(fd, option, &option->values[0]), "before listen, set %s", option->values[0].text);
    listen(fd, 4);
    conn = accepted(fd, family, &peer);
    told(conn < 0 ? -1 : 0, "before listen, accept");
    get(conn, option, "before listen, accepted");
    hang_up(conn, peer);
    close(fd);

    fd = new_socket(SERVER, family);
    told(set(fd, option, &option->values[0]), "before connect, set %s", option->values[0].text);
    peer = connected(fd, family);
    told(peer < 0 ? -1 : 0, "before connect, connect");
    get(fd, option, "before connect, connected");
    hang_up(fd, peer);
}

#include "boundary_parts.c"

int main(int argc, char **argv)
{
    begin(argc > 1 ? argv[1] : "");
    const char *only = argc > 2 ? argv[2] : NULL;
    /* A listener is heard of on the link from the first wait for it on. */
    int first = listener(2998);
    struct pollfd row = { .fd = first, .events = POLLIN };
    poll(&row, 1, 10);
    close(first);
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        if (only && strcmp(only, OPTIONS[i].name))
            continue;
        printf("# %s\n", OPTIONS[i].name);
        option_row(&OPTIONS[i]);
    }
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        if (only && strcmp(only, PARTS[i].name))
            continue;
        printf("# %s\n", PARTS[i].name);
        PARTS[i].run();
    }
    return 0;
}
