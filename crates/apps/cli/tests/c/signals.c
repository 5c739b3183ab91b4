/*
 * signals NETNS COUNT: signals that come while a call waits, one for each call. Each is sent to a thread that is seen
 * asleep in its call, while packets for another thread come. A handler without SA_RESTART ends the call (EINTR), within
 * five seconds; one with SA_RESTART before it does not. Every seventh call is one of a child, on a connection that it
 * has from its parent.
 */
#include "launched.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>

static int server, client, full, deaf, set, quiet, ends[2];
static sigset_t open_mask;
static atomic_int go, done, result, error;
static atomic_int waiter;
static unsigned dice = 1;

/* How often the handler with SA_RESTART has run, here and in the child. */
static atomic_int *restarts;

static void on(int signal)
{
    if (signal == SIGUSR1)
        ++*restarts;
}

static unsigned roll(unsigned below)
{
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 8) % below;
}

static long us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void pass(unsigned time)
{
    for (long until = us() + time; us() < until;)
        ;
}

static int with_select(const sigset_t *mask)
{
    struct timespec limit = { 60, 0 };
    fd_set in;
    FD_ZERO(&in);
    FD_SET(server, &in);
    return mask ? pselect(server + 1, &in, NULL, NULL, &limit, mask) : select(server + 1, &in, NULL, NULL, NULL);
}

static const char *const NAMES[] = { "read",       "recv",  "recvmsg", "accept", "send",  "poll", "poll of two",
                                     "epoll_wait", "select", "ppoll",   "pselect", "epoll_pwait" };
enum { KINDS = sizeof NAMES / sizeof *NAMES, RESTARTED = 5, MASKED = 9 };

static int call(int kind)
{
    static char big[1 << 16];
    char text[8];
    struct iovec part = { text, sizeof text };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct pollfd rows[2] = { { .fd = server, .events = POLLIN }, { .fd = ends[0], .events = POLLIN } };
    struct epoll_event event;
    struct timespec limit = { 60, 0 };
    switch (kind) {
    case 0: return (int)read(server, text, sizeof text);
    case 1: return (int)recv(server, text, sizeof text, 0);
    case 2: return (int)recvmsg(server, &message, 0);
    case 3: return accept(deaf, NULL, NULL);
    case 4: return (int)send(full, big, sizeof big, 0);
    case 5: return poll(rows, 1, -1);
    case 6: return poll(rows, 2, 60000);
    case 7: return epoll_wait(set, &event, 1, -1);
    case 8: return with_select(NULL);
    case 9: return ppoll(rows, 1, &limit, &open_mask);
    case 10: return with_select(&open_mask);
    default: return epoll_pwait(set, &event, 1, 60000, &open_mask);
    }
}

static void block(int how)
{
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(how, &some, NULL);
}

static void *waits(void *arg)
{
    (void)arg;
    waiter = (int)syscall(SYS_gettid);
    for (int turn = 1;; turn++) {
        while (go != turn)
            sched_yield();
        int kind = turn % KINDS;
        if (kind >= MASKED)
            block(SIG_BLOCK);
        errno = 0;
        int got = call(kind);
        error = got < 0 ? errno : 0;
        result = got;
        if (kind >= MASKED)
            block(SIG_UNBLOCK);
        done = turn;
    }
    return NULL;
}

/* Takes what the other end sends to keep the stack awake. */
static void *listens(void *arg)
{
    char text[4096];
    (void)arg;
    while (read(quiet, text, sizeof text) > 0)
        ;
    return NULL;
}

static void *speaks(void *arg)
{
    unsigned seed = 7;
    for (;;) {
        raw_send(*(int *)arg, "x", 1, MSG_NOSIGNAL);
        seed = seed * 1664525u + 1013904223u;
        usleep(20 + (seed >> 8) % 400);
    }
    return NULL;
}

/* The state of a thread, or of a process's only one: S is asleep. */
static char state_of(int process, int thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
    int fd = open(path, O_RDONLY);
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    char *state = len > 0 ? strrchr(text, ')') : NULL;
    return state ? state[2] : '?';
}

static void asleep(int process, int thread)
{
    while (state_of(process, thread) != 'S')
        sched_yield();
}

/* Sends the signals of a turn to a thread; the last ends its call. */
static void disturb(int process, int thread, int kind)
{
    asleep(process, thread);
    if (kind < RESTARTED && roll(2)) {
        int before = *restarts;
        pass(roll(120));
        syscall(SYS_tgkill, process, thread, SIGUSR1);
        while (*restarts == before)
            sched_yield();
        asleep(process, thread);
    }
    pass(roll(120));
    syscall(SYS_tgkill, process, thread, SIGUSR2);
}

/* What a child does on connections of its parent. */
static void child(int turns, int to)
{
    for (int i = 0; i < turns; i++) {
        static const int HERS[] = { 0, 1, 2, 5, 6, 8, 9, 10 };
        int kind = HERS[i % 8];
        char word[2] = { (char)kind, 0 };
        if (kind >= MASKED)
            block(SIG_BLOCK);
        write(to, word, 1);
        word[1] = (char)(call(kind) == -1 && errno == EINTR);
        if (kind >= MASKED)
            block(SIG_UNBLOCK);
        write(to, word + 1, 1);
    }
    _exit(0);
}

/* How many of `turns` signals a child has lost. */
static int children(int turns)
{
    int tell[2], lost = 0;
    char kind, ended;
    pipe(tell);
    pid_t pid = fork();
    if (pid == 0)
        child(turns, tell[1]);
    struct pollfd row = { .fd = tell[0], .events = POLLIN };
    for (int i = 0; i < turns && read(tell[0], &kind, 1) == 1; i++) {
        /* The pipe has room: what it sleeps in is its call. */
        disturb(pid, pid, kind);
        int late = poll(&row, 1, 5000) != 1;
        while (poll(&row, 1, 100) != 1)
            kill(pid, SIGUSR2);
        read(tell[0], &ended, 1);
        if (late || !ended) {
            printf("child's %s: %s\n", NAMES[(int)kind], late ? "slept on" : "another end than EINTR");
            lost++;
        }
    }
    waitpid(pid, NULL, 0);
    close(tell[0]);
    close(tell[1]);
    return lost;
}

int main(int argc, char **argv)
{
    static char big[1 << 20];
    int count = argc > 2 ? atoi(argv[2]) : 1000, noise, other, lost = 0, self = getpid();
    pthread_t threads[3];
    begin(argv[1]);
    restarts = mmap(NULL, sizeof *restarts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = { .sa_handler = on };
    sigaction(SIGUSR2, &action, NULL);
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &open_mask);
    /* A listener is heard of on the link from the first wait for it on. */
    deaf = listener(3083);
    poll(&(struct pollfd){ .fd = deaf, .events = POLLIN }, 1, 10);
    fcntl(deaf, F_SETFL, 0);
    blocking_pair(3080, &server, &client);
    blocking_pair(3081, &full, &other);
    blocking_pair(3082, &quiet, &noise);
    pipe(ends);
    set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(set, EPOLL_CTL_ADD, server, &event);
    stuff(full, big, sizeof big);
    pthread_create(&threads[0], NULL, listens, NULL);
    pthread_create(&threads[1], NULL, speaks, &noise);
    pthread_create(&threads[2], NULL, waits, NULL);
    setlinebuf(stdout);
    int hers = count / 7;
    for (int turn = 1; turn <= count - hers; turn++) {
        int kind = turn % KINDS;
        go = turn;
        while (!waiter)
            sched_yield();
        disturb(self, waiter, kind);
        long until = us() + 5000000;
        while (done != turn && us() < until)
            sched_yield();
        int late = done != turn;
        while (done != turn) {
            syscall(SYS_tgkill, self, (int)waiter, SIGUSR2);
            usleep(1000);
        }
        if (late || result != -1 || error != EINTR) {
            printf("turn %d, %s: %s, %d %s\n", turn, NAMES[kind], late ? "slept on" : "another end", result,
                   name_of(error));
            lost++;
        }
    }
    lost += children(hers);
    printf("%d signals, %d lost\n", count, lost);
    return lost != 0;
}
