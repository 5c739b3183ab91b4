/* Signals that come while a call waits: with SA_RESTART and without. */
#include <sys/select.h>
#include <sys/sendfile.h>

static volatile sig_atomic_t ticks;
static int speaker, last_words, dials;
static struct sockaddr_in dialled;
static char gone[1 << 16];

/* The first tick only interrupts; the second brings what the call waits for. */
static void tick(int signal)
{
    int e = errno;
    (void)signal;
    if (++ticks == 2) {
        if (dials)
            raw_connect(speaker, SA(dialled));
        else if (last_words)
            raw_send(speaker, "x", 1, MSG_NOSIGNAL);
        else
            while (raw_recv(speaker, gone, sizeof gone, MSG_DONTWAIT) > 0)
                ;
    }
    errno = e;
}

static void start(int restarts)
{
    struct sigaction action = { .sa_handler = tick, .sa_flags = restarts ? SA_RESTART : 0 };
    struct itimerval timer = { { 0, 80000 }, { 0, 80000 } };
    sigaction(SIGALRM, &action, NULL);
    ticks = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
}

static long stop(long result)
{
    int e = errno;
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &never, NULL);
    errno = e;
    return result;
}

#define TRY(what, call) \
    do { \
        for (int again = 0; again < 2; again++) { \
            start(again); \
            long result = stop(call); \
            told(result, "%s, %s", what, again ? "restarted" : "not restarted"); \
            told(ticks, "%s: ticks", what); \
            while (recv(server, sink, sizeof sink, MSG_DONTWAIT) > 0) \
                ; \
        } \
    } while (0)

static int selects(int fd, fd_set *in, const struct timeval *limit)
{
    struct timeval left = *limit;
    FD_ZERO(in);
    FD_SET(fd, in);
    return select(fd + 1, in, NULL, NULL, &left);
}

static int pselects(int fd, fd_set *in, const struct timespec *limit)
{
    FD_ZERO(in);
    FD_SET(fd, in);
    return pselect(fd + 1, in, NULL, NULL, limit, NULL);
}

static void interrupts(void)
{
    int server, client, ends[2], set = epoll_create1(0);
    static char sink[1 << 16], big[1 << 20];
    char text[8];
    struct iovec part = { text, 8 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct mmsghdr list = { .msg_hdr = message };
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = 1 };
    struct timespec long_time = { 5, 0 };
    struct timeval limit = { 5, 0 }, none = { 0, 0 };
    fd_set in;
    blocking_pair(3070, &server, &client);
    pipe(ends);
    speaker = client;
    last_words = 1;
    epoll_ctl(set, EPOLL_CTL_ADD, server, &event);
    struct pollfd rows[2] = { { .fd = server, .events = POLLIN }, { .fd = ends[0], .events = POLLIN } };
    TRY("read", read(server, text, 8));
    TRY("readv", readv(server, &part, 1));
    TRY("recv", recv(server, text, 8, 0));
    TRY("recvfrom", recvfrom(server, text, 8, 0, NULL, NULL));
    TRY("recvmsg", recvmsg(server, &message, 0));
    TRY("recvmmsg", recvmmsg(server, &list, 1, 0, NULL));
    TRY("MSG_PEEK", recv(server, text, 8, MSG_PEEK));
    TRY("splice from it", splice(server, NULL, ends[1], NULL, 8, 0));
    while (fcntl(ends[0], F_SETFL, O_NONBLOCK), read(ends[0], text, 8) > 0)
        ;
    fcntl(ends[0], F_SETFL, 0);
    TRY("poll", poll(rows, 1, 5000));
    TRY("poll of two", poll(rows, 2, 5000));
    TRY("ppoll", ppoll(rows, 2, &long_time, NULL));
    TRY("select", selects(server, &in, &limit));
    TRY("pselect", pselects(server, &in, &long_time));
    TRY("epoll_wait", epoll_wait(set, &event, 1, 5000));
    TRY("epoll_pwait", epoll_pwait(set, &event, 1, 5000, NULL));
    TRY("epoll_pwait2", epoll_pwait2(set, &event, 1, &long_time, NULL));
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    TRY("read with SO_RCVTIMEO", read(server, text, 8));
    TRY("recv with SO_RCVTIMEO", recv(server, text, 8, 0));
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    raw_send(client, "ab", 2, 0);
    ready(SERVER, server, POLLIN);
    start(0);
    told(stop(recv(server, text, 8, MSG_WAITALL)), "MSG_WAITALL has a part");
    told(ticks, "ticks");
    /* A full socket: the handler's second tick drains the peer. */
    last_words = 0;
    raw_fcntl(client, F_SETFL, 0);
    stuff(server, big, sizeof big);
    start(0);
    told(stop(send(server, big, 100, 0)), "send, not restarted");
    told(ticks, "ticks");
    start(0);
    told(stop(write(server, big, 100)), "write, not restarted");
    start(0);
    told(stop(writev(server, &part, 1)), "writev, not restarted");
    start(0);
    told(stop(sendmsg(server, &message, 0)), "sendmsg, not restarted");
    start(0);
    told(stop(sendmmsg(server, &list, 1, 0)), "sendmmsg, not restarted");
    int zero = open("/dev/zero", O_RDONLY);
    start(0);
    told(stop(sendfile(server, zero, NULL, 100)), "sendfile, not restarted");
    write(ends[1], big, 100);
    start(0);
    told(stop(splice(ends[0], NULL, server, NULL, 100, 0)), "splice to it, not restarted");
    read(ends[0], big, 100);
    start(0);
    told(stop(splice(ends[0], NULL, server, NULL, 100, 0)), "splice of an empty pipe, not restarted");
    setsockopt(server, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    start(1);
    told(stop(send(server, big, 100, 0)), "send with SO_SNDTIMEO, restarted");
    told(ticks, "ticks");
    setsockopt(server, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
    start(1);
    told(stop(send(server, big, 100, 0)), "send, restarted");
    told(ticks >= 2, "ticks");
    close(zero);
    close(set);
    close(ends[0]);
    close(ends[1]);
    hang_up(server, client);
    /* accept; the second tick connects. */
    server = listener(3071);
    fcntl(server, F_SETFL, 0);
    dialled = at(SERVER, 3071);
    dials = 1;
    speaker = new_socket(CLIENT, AF_INET);
    start(0);
    told(stop(accept(server, NULL, NULL)), "accept, not restarted");
    told(ticks, "ticks");
    start(1);
    int fd = (int)stop(accept(server, NULL, NULL));
    told(fd < 0 ? -1 : 0, "accept, restarted");
    told(ticks, "ticks");
    hang_up(fd, speaker);
    speaker = new_socket(CLIENT, AF_INET);
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    start(1);
    told(stop(accept(server, NULL, NULL)), "accept with SO_RCVTIMEO, restarted");
    told(ticks, "ticks");
    close(server);
    raw_close(speaker);
    dials = 0;
    last_words = 1;
    /* connect to who does not answer: the queue of its listener is full. */
    int peer = (int)raw_socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in deaf = at(CLIENT, 3072);
    /* The run before may have left connections of the port in TIME-WAIT. */
    int on = 1;
    raw_setsockopt(peer, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (raw_bind(peer, SA(deaf)) < 0 || raw_listen(peer, 0) < 0)
        told(-1, "a listener that is deaf");
    int queue[4];
    for (int i = 0; i < 4; i++) {
        queue[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(queue[i], SA(deaf));
        usleep(20000);
    }
    speaker = -1;
    fd = socket(AF_INET, SOCK_STREAM, 0);
    start(0);
    told(stop(connect(fd, SA(deaf))), "connect, not restarted");
    told(ticks, "ticks");
    close(fd);
    for (int i = 0; i < 4; i++)
        close(queue[i]);
    raw_close(peer);
    signal(SIGALRM, SIG_DFL);
}
