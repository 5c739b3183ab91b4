/*
 * A program written to the calls that mTCP documents: a thread with a context on core 0 that serves echo, checks what
 * mTCP's own library got wrong, and ends by a signal.
 *
 *     mtcp FILE.conf
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <mtcp_api.h>
#include <mtcp_epoll.h>

enum { PORT = 7, EVENTS = 64, ROOM = 8192 };

#define WANT(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

static volatile sig_atomic_t done;

static void stop(int number)
{
    (void)number;
    done = 1;
}

static int listening(mctx_t mctx)
{
    int fd = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = INADDR_ANY, .sin_port = htons(PORT) };
    WANT(fd >= 0 && mtcp_setsock_nonblock(mctx, fd) == 0);
    WANT(mtcp_bind(mctx, fd, (struct sockaddr *)&addr, sizeof addr) == 0);
    WANT(mtcp_listen(mctx, fd, 4096) == 0);
    return fd;
}

static void watch(mctx_t mctx, int set, int op, int fd, uint32_t events)
{
    struct mtcp_epoll_event event = { .events = events, .data.sockid = fd };
    WANT(mtcp_epoll_ctl(mctx, set, op, fd, &event) == 0);
}

/* Numbers go in turn: programs look at what they keep of a socket after they have closed it and opened another. */
static void numbers(mctx_t mctx)
{
    int closed[3];
    for (int i = 0; i < 3; i++)
        WANT((closed[i] = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0)) >= 0);
    for (int i = 0; i < 3; i++)
        WANT(mtcp_close(mctx, closed[i]) == 0);
    int next = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0);
    WANT(next >= 0 && next != closed[0] && next != closed[1] && next != closed[2]);
    WANT(mtcp_close(mctx, next) == 0);
}

/* Options do what they say, and names are the right end's. */
static void check(mctx_t mctx, int fd)
{
    struct sockaddr_in own, peer;
    socklen_t len = sizeof own, info_len;
    struct tcp_info info;
    int on = 1, told = 0;
    WANT(mtcp_getsockname(mctx, fd, (struct sockaddr *)&own, &len) == 0 && ntohs(own.sin_port) == PORT);
    WANT(mtcp_getpeername(mctx, fd, (struct sockaddr *)&peer, &len) == 0 && ntohs(peer.sin_port) != PORT);
    WANT(own.sin_addr.s_addr != peer.sin_addr.s_addr);
    WANT(mtcp_setsockopt(mctx, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    len = sizeof told;
    WANT(mtcp_getsockopt(mctx, fd, IPPROTO_TCP, TCP_NODELAY, &told, &len) == 0 && told == 1);
    info_len = sizeof info;
    WANT(mtcp_getsockopt(mctx, fd, IPPROTO_TCP, TCP_INFO, &info, &info_len) == 0);
    /* The peer may have ended its half already. */
    WANT(info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
    WANT(mtcp_setsockopt(mctx, fd, IPPROTO_TCP, 9999, &on, sizeof on) == -1 && errno == ENOPROTOOPT);
    WANT(mtcp_socket_ioctl(mctx, fd, FIONREAD, &told) == 0);
}

/* Two sets at once, and a pipe that wakes one of them. */
static void wake(mctx_t mctx)
{
    int ends[2], first = mtcp_epoll_create(mctx, 10), second = mtcp_epoll_create1(mctx, 0);
    struct mtcp_epoll_event found;
    char byte;
    WANT(first >= 0 && second >= 0 && mtcp_pipe(mctx, ends) == 0);
    watch(mctx, first, MTCP_EPOLL_CTL_ADD, ends[0], MTCP_EPOLLIN);
    watch(mctx, second, MTCP_EPOLL_CTL_ADD, ends[1], MTCP_EPOLLOUT);
    WANT(mtcp_epoll_wait(mctx, first, &found, 1, 0) == 0);
    WANT(mtcp_epoll_wait(mctx, second, &found, 1, 0) == 1 && found.data.sockid == ends[1]);
    WANT(mtcp_write(mctx, ends[1], "x", 1) == 1);
    WANT(mtcp_epoll_wait(mctx, first, &found, 1, 1000) == 1 && !strcmp(EventToString(found.events), "IN"));
    WANT(mtcp_read(mctx, ends[0], &byte, 1) == 1 && byte == 'x');
    WANT(mtcp_close(mctx, ends[0]) == 0 && mtcp_close(mctx, ends[1]) == 0);
    WANT(mtcp_close(mctx, first) == 0 && mtcp_close(mctx, second) == 0);
}

static int echo(mctx_t mctx, int fd)
{
    char buffer[ROOM];
    struct iovec part = { buffer, sizeof buffer };
    ssize_t n = mtcp_readv(mctx, fd, &part, 1);
    /* Accepted sockets block, as a program may ask mTCP for: what is written is all taken. */
    for (ssize_t sent = 0, put; n > 0 && sent < n; sent += put)
        if ((put = mtcp_write(mctx, fd, buffer + sent, (size_t)(n - sent))) <= 0)
            return 0;
    return n > 0;
}

static void *serve(void *arg)
{
    (void)arg;
    WANT(mtcp_core_affinitize(0) == 0);
    mctx_t mctx = mtcp_create_context(0);
    WANT(mctx);
    WANT(!mtcp_create_context(0) && errno == EBUSY);
    WANT(!mtcp_create_context(99) && errno == EINVAL);
    WANT(mtcp_init_rss(mctx, INADDR_ANY, 1, inet_addr("10.77.1.1"), htons(80)) == 0);
    wake(mctx);
    numbers(mctx);
    int listener = listening(mctx), set = mtcp_epoll_create(mctx, EVENTS), served = 0;
    watch(mctx, set, MTCP_EPOLL_CTL_ADD, listener, MTCP_EPOLLIN);
    printf("ready\n");
    fflush(stdout);
    while (!done) {
        struct mtcp_epoll_event events[EVENTS];
        int n = mtcp_epoll_wait(mctx, set, events, EVENTS, -1);
        if (n < 0) {
            WANT(errno == EINTR);
            continue;
        }
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.sockid;
            if (fd == listener) {
                struct sockaddr_in peer;
                socklen_t len = sizeof peer;
                fd = mtcp_accept(mctx, listener, (struct sockaddr *)&peer, &len);
                WANT(fd >= 0 && len == sizeof peer);
                check(mctx, fd);
                watch(mctx, set, MTCP_EPOLL_CTL_ADD, fd, MTCP_EPOLLIN);
            } else if (!echo(mctx, fd)) {
                WANT(mtcp_epoll_ctl(mctx, set, MTCP_EPOLL_CTL_DEL, fd, NULL) == 0);
                WANT(mtcp_close(mctx, fd) == 0);
                served++;
            }
        }
    }
    printf("%d served\n", served);
    mtcp_destroy_context(mctx);
    return NULL;
}

int main(int argc, char **argv)
{
    struct mtcp_conf conf;
    pthread_t thread;
    WANT(argc == 2);
    WANT(mtcp_getconf(&conf) == 0);
    conf.num_cores = 1;
    WANT(mtcp_setconf(&conf) == 0);
    WANT(mtcp_init(argv[1]) == 0);
    WANT(mtcp_getconf(&conf) == 0 && conf.rcvbuf_size == 65536 && conf.max_concurrency == 5000);
    WANT(mtcp_register_signal(SIGTERM, stop) != SIG_ERR);
    WANT(pthread_create(&thread, NULL, serve, NULL) == 0);
    pthread_join(thread, NULL);
    mtcp_destroy();
    return 0;
}
