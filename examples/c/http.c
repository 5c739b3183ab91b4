/*
 * A small static web server: HTTP/1.1 with keep-alive, files of one directory, one thread.
 *
 *     ./http link=xdp:eth0                        serves the working directory on port 80
 *     ROOT=/srv/www PORT=8080 ./http link=tap:mst0,host=10.0.0.2/24 address=10.0.0.1/24
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>
#include "settings.h"

enum { EVENTS = 256, REQUEST_MAX = 4096 };

/* A request that is not whole yet, or an answer that is not sent yet: headers, then bytes of a file. */
struct client {
    int fd, keep, file;
    size_t got, head_len, head_sent;
    off_t size, sent;
    char request[REQUEST_MAX + 1], head[256];
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

static void part(struct client *client)
{
    if (client->file >= 0)
        close(client->file);
    ms_close(ctx, client->fd);
    free(client);
}

static void answer(struct client *client, const char *status, off_t size)
{
    client->size = size;
    client->sent = 0;
    client->head_sent = 0;
    client->head_len = (size_t)snprintf(client->head, sizeof client->head,
        "HTTP/1.1 %s\r\nContent-Length: %lld\r\nConnection: %s\r\n\r\n", status, (long long)size,
        client->keep ? "keep-alive" : "close");
}

/* Understands one request: GET of a name without "..". */
static void ask(struct client *client)
{
    char name[1024], version[16];
    struct stat what;
    int top = !strncmp(client->request, "GET / ", 6);
    strcpy(name, "index.html");
    if (top ? sscanf(client->request + 6, "%15s", version) != 1
            : sscanf(client->request, "GET /%1023s %15s", name, version) != 2) {
        client->keep = 0;
        answer(client, "400 Bad Request", 0);
        return;
    }
    client->keep = !strcmp(version, "HTTP/1.1") && !strcasestr(client->request, "connection: close");
    client->file = name[0] == '/' || strstr(name, "..") ? -1 : open(name, O_RDONLY);
    if (client->file < 0 || fstat(client->file, &what) < 0 || !S_ISREG(what.st_mode))
        answer(client, "404 Not Found", 0);
    else
        answer(client, "200 OK", what.st_size);
}

/* Sends what fits; 1 when all of it is gone, 0 when the peer must read first, -1 when the connection is over. */
static int push(struct client *client)
{
    char piece[65536];
    while (client->head_sent < client->head_len || client->sent < client->size) {
        ssize_t n;
        if (client->head_sent < client->head_len) {
            n = ms_send(ctx, client->fd, client->head + client->head_sent, client->head_len - client->head_sent,
                        client->size ? MSG_MORE : 0);
            client->head_sent += n > 0 ? (size_t)n : 0;
        } else {
            ssize_t there = pread(client->file, piece, sizeof piece, client->sent);
            if (there <= 0)
                return -1;
            n = ms_write(ctx, client->fd, piece, (size_t)there);
            client->sent += n > 0 ? n : 0;
        }
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
    }
    return 1;
}

/* Answers one request after the other until one of both must wait; 0 when the connection is over. */
static int serve(struct client *client)
{
    for (;;) {
        char *end = strstr(client->request, "\r\n\r\n");
        if (!client->head_len && end) {
            size_t used = (size_t)(end + 4 - client->request);
            ask(client);
            memmove(client->request, client->request + used, client->got - used + 1);
            client->got -= used;
        }
        if (client->head_len) {
            int gone = push(client);
            if (gone <= 0)
                return gone == 0;
            client->head_len = 0;
            if (client->file >= 0)
                close(client->file);
            client->file = -1;
            if (!client->keep)
                return 0;
            continue;
        }
        if (client->got == REQUEST_MAX)
            return 0;
        ssize_t n = ms_read(ctx, client->fd, client->request + client->got, REQUEST_MAX - client->got);
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        client->got += (size_t)n;
        client->request[client->got] = 0;
    }
}

static int listening(int port)
{
    int fd = ms_socket(ctx, AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    if (fd < 0 || ms_setsockopt(ctx, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        die("socket");
    if (ms_bind(ctx, fd, (struct sockaddr *)&any, sizeof any) < 0 || ms_listen(ctx, fd, 4096) < 0)
        die("listen");
    return fd;
}

int main(int argc, char **argv)
{
    const char *root = getenv("ROOT"), *port = getenv("PORT");
    ctx = open_with(argc, argv);
    if (root && chdir(root) < 0)
        die(root);
    set = ms_epoll_create1(ctx, 0);
    int listener = listening(port ? atoi(port) : 80);
    watch(EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    printf("serving files on port %s\n", port ? port : "80");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = ms_epoll_wait(ctx, set, events, EVENTS, -1), fd;
        if (n < 0)
            die("epoll_wait");
        for (int i = 0; i < n; i++) {
            struct client *client = events[i].data.ptr;
            if (client) {
                if (serve(client))
                    watch(EPOLL_CTL_MOD, client->fd, client->head_len ? EPOLLOUT : EPOLLIN, client);
                else
                    part(client);
                continue;
            }
            while ((fd = ms_accept4(ctx, listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                client = calloc(1, sizeof *client);
                if (!client)
                    die("memory");
                client->fd = fd;
                client->file = -1;
                watch(EPOLL_CTL_ADD, fd, EPOLLIN, client);
            }
        }
    }
}
