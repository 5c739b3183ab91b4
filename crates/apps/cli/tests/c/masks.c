/* pselect, ppoll and epoll_pwait with masks of signals; numbers above FD_SETSIZE. */
#include <sys/resource.h>
#include <sys/select.h>

static volatile sig_atomic_t rung;

static void ring(int signal)
{
    (void)signal;
    rung++;
}

/* A signal that is blocked waits; with a mask that lets it through it ends a call at once. */
static void masks(void)
{
    int server, client, set = epoll_create1(0);
    blocking_pair(3030, &server, &client);
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = 1 };
    epoll_ctl(set, EPOLL_CTL_ADD, server, &event);
    struct sigaction action = { .sa_handler = ring, .sa_flags = SA_RESTART };
    sigaction(SIGUSR1, &action, NULL);
    sigset_t blocked, open;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &open);
    struct timespec some = { 0, 30000000 }, none = { 0, 0 }, odd = { 0, -1 };
    struct pollfd row = { .fd = server, .events = POLLIN };
    fd_set in;
    for (int round = 0; round < 3; round++) {
        const sigset_t *mask = round == 0 ? NULL : round == 1 ? &blocked : &open;
        const char *how = round == 0 ? "no mask" : round == 1 ? "blocked" : "open";
        rung = 0;
        raise(SIGUSR1);
        told(ppoll(&row, 1, &some, mask), "ppoll, %s", how);
        told(rung, "ppoll, %s: rung", how);
        rung = 0;
        raise(SIGUSR1);
        FD_ZERO(&in);
        FD_SET(server, &in);
        told(pselect(server + 1, &in, NULL, NULL, &some, mask), "pselect, %s", how);
        told(rung, "pselect, %s: rung", how);
        told(FD_ISSET(server, &in), "pselect, %s: the set", how);
        rung = 0;
        raise(SIGUSR1);
        told(epoll_pwait(set, &event, 1, 30, mask), "epoll_pwait, %s", how);
        told(rung, "epoll_pwait, %s: rung", how);
        rung = 0;
        raise(SIGUSR1);
        told(epoll_pwait2(set, &event, 1, &some, mask), "epoll_pwait2, %s", how);
        told(rung, "epoll_pwait2, %s: rung", how);
        rung = 0;
        sigset_t now;
        sigprocmask(SIG_SETMASK, NULL, &now);
        told(sigismember(&now, SIGUSR1), "the mask is as it was");
    }
    rung = 0;
    arrive(client, server, "x");
    told(ppoll(&row, 1, &some, &open), "ppoll of what is ready");
    told(rung, "is not rung");
    told(ppoll(&row, 1, &none, NULL), "ppoll, not to wait");
    told(ppoll(&row, 1, NULL, NULL), "ppoll without a time");
    told(ppoll(&row, 1, &odd, NULL), "ppoll for a negative time");
    FD_ZERO(&in);
    FD_SET(server, &in);
    told(pselect(server + 1, &in, NULL, NULL, &odd, NULL), "pselect for a negative time");
    told(pselect(-1, &in, NULL, NULL, &none, NULL), "pselect of -1 numbers");
    struct timeval wrong = { 0, -1 }, left = { 5, 0 }, over = { 0, 2000000 };
    told(select(server + 1, &in, NULL, NULL, &wrong), "select for a negative time");
    FD_SET(server, &in);
    told(select(server + 1, &in, NULL, NULL, &left), "select of what is ready");
    told(left.tv_sec >= 4 && left.tv_sec <= 5, "what is left of the time");
    FD_SET(server, &in);
    told(select(server + 1, &in, NULL, NULL, &over), "select with two million microseconds");
    fd_set out, odd_ones;
    FD_ZERO(&out);
    FD_ZERO(&odd_ones);
    FD_SET(server, &out);
    FD_SET(server, &odd_ones);
    FD_SET(0, &out);
    told(select(server + 1, &in, &out, &odd_ones, &over) >= 2, "select in three sets");
    told(FD_ISSET(server, &in) && FD_ISSET(server, &out) && !FD_ISSET(server, &odd_ones), "reads and writes");
    raise(SIGUSR1);
    sigprocmask(SIG_SETMASK, &open, NULL);
    signal(SIGUSR1, SIG_DFL);
    /* Sets larger than the C library's. */
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    told(limit.rlim_cur > 1600 ? 0 : -1, "numbers enough");
    int high = dup2(server, 1500);
    told(high, "a high number");
    unsigned long large[3][32];
    memset(large, 0, sizeof large);
    large[0][1500 / 64] |= 1ul << (1500 % 64);
    large[1][1500 / 64] |= 1ul << (1500 % 64);
    left = (struct timeval){ 1, 0 };
    told(select(1501, (fd_set *)large[0], (fd_set *)large[1], (fd_set *)large[2], &left), "select of 1500");
    told(large[0][1500 / 64] >> (1500 % 64) & 1, "can be read");
    told(large[1][1500 / 64] >> (1500 % 64) & 1, "can be written");
    told(large[2][1500 / 64] >> (1500 % 64) & 1, "has nothing urgent");
    large[0][0] = 0;
    told(select(1500, (fd_set *)large[0], NULL, NULL, &(struct timeval){ 0, 0 }), "which is beyond 1500 numbers");
    close(high);
    large[0][1500 / 64] |= 1ul << (1500 % 64);
    told(select(1501, (fd_set *)large[0], NULL, NULL, &(struct timeval){ 0, 0 }), "select of a closed number");
    struct pollfd rows[3] = { { .fd = server, .events = POLLIN }, { .fd = high, .events = POLLIN },
                              { .fd = -7, .events = POLLIN, .revents = 77 } };
    told(poll(rows, 3, 0), "poll of a closed number");
    told(rows[0].revents, "the first");
    told(rows[1].revents, "the second");
    told(rows[2].revents, "the third");
    rows[0].events = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLPRI | POLLRDHUP;
    told(poll(rows, 1, 0), "poll by all names");
    told(rows[0].revents, "says");
    rows[0].events = 0;
    told(poll(rows, 1, 0), "poll for nothing");
    told(rows[0].revents, "says");
    close(set);
    hang_up(server, client);
}
