/*
 * Signals that come while a call waits, with SA_RESTART and without. The first tick of a timer only interrupts; once there
 * was a second, another thread, which takes no signals, brings what the call waits for.
 */
#include <pthread.h>
#include <stdatomic.h>

static volatile sig_atomic_t ticks;
static struct sockaddr_in dialled;

enum deed { NOTHING, SPEAKS, DRAINS, DIALS };
static _Atomic enum deed deed;
static _Atomic int doer, done, waiting, draining;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void *other(void *arg)
{
    static char gone[1 << 16];
    while (!done) {
        usleep(1000);
        if (ticks < 2)
            continue;
        switch (atomic_exchange(&deed, NOTHING)) {
        case SPEAKS:
            X(send, CLIENT, doer, "x", 1, MSG_NOSIGNAL);
            break;
        case DRAINS:
            /* A little room opens no window: what is still under way is drained, too, as long as the call waits. */
            for (draining = 1; waiting; usleep(1000))
                while (waiting && X(recv, CLIENT, doer, gone, sizeof gone, MSG_DONTWAIT) > 0)
                    ;
            draining = 0;
            break;
        case DIALS:
            X(connect, CLIENT, doer, SA(dialled));
            break;
        case NOTHING:
            break;
        }
    }
    return arg;
}

static void start(int restarts, enum deed what, int fd)
{
    struct sigaction action = { .sa_handler = tick, .sa_flags = restarts ? SA_RESTART : 0 };
    struct itimerval timer = { { 0, 80000 }, { 0, 80000 } };
    sigaction(SIGALRM, &action, NULL);
    ticks = 0;
    waiting = 1;
    doer = fd;
    deed = what;
    setitimer(ITIMER_REAL, &timer, NULL);
}

static long stop(long result)
{
    int e = errno;
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &never, NULL);
    deed = NOTHING;
    waiting = 0;
    while (draining)
        usleep(100);
    errno = e;
    return result;
}

/*
 * What `call` says while the timer ticks. It ends by tick `last`; where the machine stood still meanwhile and more came,
 * it is `undone` and called again. A call that is always late stays so, and its ticks are told.
 */
#define UNDER_TICKS(last, restarts, what, fd, call, undone) \
    ({ \
        long result; \
        for (int tries = 0;; tries++) { \
            start(restarts, what, fd); \
            result = stop(call); \
            if (ticks <= (last) || tries == 4) \
                break; \
            undone; \
        } \
        result; \
    })

/* A call that nothing ends but the first tick. */
#define INTERRUPTED_BY_THE_FIRST(restarts, call) UNDER_TICKS(1, restarts, NOTHING, -1, call, (void)0)

static void drain(int server)
{
    char text[8];
    usleep(20000);
    while (X(recv, SERVER, server, text, sizeof text, MSG_DONTWAIT) > 0)
        ;
}

/* A call that waits for a byte. */
#define INTERRUPTED(what, call) \
    do { \
        for (int again = 0; again < 2; again++) { \
            told(UNDER_TICKS(1 + again, again, SPEAKS, client, call, drain(server)), "%s, %s", what, \
                 again ? "restarted" : "not restarted"); \
            told(ticks, "%s: ticks", what); \
            drain(server); \
        } \
    } while (0)

/* Two bytes arrive, and four are waited for. */
static void say_too_little(int server, int client)
{
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVLOWAT, &(int){ 1 }, 4);
    say(CLIENT, client, SERVER, server, "ab");
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVLOWAT, &(int){ 4 }, 4);
}

static void interrupted_reads(void)
{
    int server, client, set = X(epoll_create1, SERVER, 0);
    char text[8];
    struct iovec part = { text, sizeof text };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = 1 };
    struct timeval limit = { 5, 0 }, none = { 0, 0 };
    pair(2030, &server, &client);
    FCNTL(SERVER, server, F_SETFL, 0);
    X(epoll_ctl, SERVER, set, EPOLL_CTL_ADD, server, &event);
    struct pollfd row = { .fd = server, .events = POLLIN };
    INTERRUPTED("read", X(read, SERVER, server, text, 8));
    INTERRUPTED("readv", X(readv, SERVER, server, &part, 1));
    INTERRUPTED("recv", X(recv, SERVER, server, text, 8, 0));
    INTERRUPTED("recvmsg", X(recvmsg, SERVER, server, &message, 0));
    INTERRUPTED("MSG_PEEK", X(recv, SERVER, server, text, 8, MSG_PEEK));
    INTERRUPTED("poll", X(poll, SERVER, &row, 1, 5000));
    INTERRUPTED("poll for ever", X(poll, SERVER, &row, 1, -1));
    INTERRUPTED("epoll_wait", X(epoll_wait, SERVER, set, &event, 1, 5000));
    INTERRUPTED("epoll_wait for ever", X(epoll_wait, SERVER, set, &event, 1, -1));
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    INTERRUPTED("recv with SO_RCVTIMEO", X(recv, SERVER, server, text, 8, 0));
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    say(CLIENT, client, SERVER, server, "ab");
    told(UNDER_TICKS(1, 0, NOTHING, -1, X(recv, SERVER, server, text, 8, MSG_WAITALL),
                     say(CLIENT, client, SERVER, server, "ab")),
         "MSG_WAITALL has a part");
    told(ticks, "ticks");
    say_too_little(server, client);
    told(UNDER_TICKS(1, 0, NOTHING, -1, X(recv, SERVER, server, text, 8, 0), say_too_little(server, client)),
         "SO_RCVLOWAT has a part");
    told(ticks, "ticks");
    X(close, SERVER, set);
    X(close, SERVER, server);
    X(close, CLIENT, client);
}

static void interrupted_writes(void)
{
    static char big[1 << 16];
    int server, client;
    struct timeval limit = { 5, 0 }, none = { 0, 0 };
    pair(2031, &server, &client);
    /* What is on its way arrives meanwhile and makes room once more. */
    for (int quiet = 0; quiet < 20; quiet++) {
        for (size_t size = sizeof big; size; size /= 16)
            while (X(send, SERVER, server, big, size, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                quiet = 0;
        usleep(50000);
    }
    FCNTL(SERVER, server, F_SETFL, 0);
    told(INTERRUPTED_BY_THE_FIRST(0, X(send, SERVER, server, big, 100, MSG_NOSIGNAL)), "send, not restarted");
    told(ticks, "ticks");
    start(0, NOTHING, -1);
    told(stop(X(write, SERVER, server, big, 100)), "write, not restarted");
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    told(INTERRUPTED_BY_THE_FIRST(1, X(send, SERVER, server, big, 100, MSG_NOSIGNAL)),
         "send with SO_SNDTIMEO, restarted");
    told(ticks, "ticks");
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
    start(1, DRAINS, client);
    told(stop(X(send, SERVER, server, big, 100, MSG_NOSIGNAL)), "send, restarted");
    told(ticks >= 2, "ticks");
    X(close, SERVER, server);
    X(close, CLIENT, client);
}

static void interrupted_beginnings(void)
{
    struct timeval limit = { 5, 0 };
    int server = listener(2032), client = new_socket(CLIENT, AF_INET);
    FCNTL(SERVER, server, F_SETFL, 0);
    dialled = at(SERVER, 2032);
    told(INTERRUPTED_BY_THE_FIRST(0, X(accept, SERVER, server, NULL, NULL)), "accept, not restarted");
    told(ticks, "ticks");
    start(1, DIALS, client);
    int fd = (int)stop(X(accept, SERVER, server, NULL, NULL));
    told_fd(fd, "accept, restarted");
    told(ticks >= 2, "ticks");
    X(close, SERVER, fd);
    X(close, CLIENT, client);
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    told(INTERRUPTED_BY_THE_FIRST(1, X(accept, SERVER, server, NULL, NULL)), "accept with SO_RCVTIMEO, restarted");
    told(ticks, "ticks");
    X(close, SERVER, server);
}

static void signals(void)
{
    pthread_t thread;
    sigset_t alarms, before;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, &before);
    pthread_create(&thread, NULL, other, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    interrupted_reads();
    interrupted_writes();
    interrupted_beginnings();
    signal(SIGALRM, SIG_DFL);
    done = 1;
    pthread_join(thread, NULL);
}
