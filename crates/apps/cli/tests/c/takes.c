/* A signal that comes while a child takes a connection of its parent, which is stopped meanwhile. */
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <sys/uio.h>

static volatile sig_atomic_t taken_signals;

static void take_note(int signal)
{
    (void)signal;
    taken_signals++;
}

/* The word behind `name` in a file of a thread or process. */
static unsigned long word_of(pid_t process, pid_t thread, const char *name, int base)
{
    char path[64], line[256];
    unsigned long word = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", process, thread);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            word = base ? strtoul(line + strlen(name), NULL, base) : (unsigned char)line[strlen(name) + 1];
    if (file)
        fclose(file);
    return word;
}

static int is_in_state(pid_t process, pid_t thread, char state)
{
    return word_of(process, thread, "State:", 0) == (unsigned long)(unsigned char)state;
}

struct taking {
    pthread_t caller;
    pid_t thread;
    int client;
};

/* The caller sleeps: the signal, the parent, and when the handler has run, a byte for a call that goes on. */
static void *disturb(void *argument)
{
    struct taking *taking = argument;
    pid_t self = getpid();
    while (!is_in_state(self, taking->thread, 'S'))
        usleep(1000);
    pthread_kill(taking->caller, SIGUSR1);
    /* It has arrived: the handler has run, or it is blocked until it may. */
    while (!taken_signals && !(word_of(self, taking->thread, "SigPnd:", 16) & 1ul << (SIGUSR1 - 1)
                               & word_of(self, taking->thread, "SigBlk:", 16)))
        usleep(1000);
    kill(getppid(), SIGCONT);
    while (!taken_signals)
        usleep(1000);
    raw_send(taking->client, "x", 1, MSG_NOSIGNAL);
    return NULL;
}

enum { BY_READ, BY_RECVMSG, BY_RECVMMSG, BY_POLL, BY_PPOLL, BY_SELECT, BY_SPLICE, BY_PREADV2, WAYS };
static const char *const WAY[] = { "read", "recvmsg", "recvmmsg", "poll", "ppoll", "select", "splice", "preadv2" };

static long wait_by(int way, int fd)
{
    char text[8];
    int ends[2];
    struct iovec part = { text, 8 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct mmsghdr list = { .msg_hdr = message };
    struct pollfd row = { .fd = fd, .events = POLLIN };
    struct timespec limit = { 20, 0 };
    struct timeval left = { 20, 0 };
    fd_set in;
    switch (way) {
    case BY_READ:
        return read(fd, text, 8);
    case BY_RECVMSG:
        return recvmsg(fd, &message, 0);
    case BY_RECVMMSG:
        return recvmmsg(fd, &list, 1, 0, NULL);
    case BY_POLL:
        return poll(&row, 1, 20000);
    case BY_PPOLL:
        return ppoll(&row, 1, &limit, NULL);
    case BY_SELECT:
        FD_ZERO(&in);
        FD_SET(fd, &in);
        return select(fd + 1, &in, NULL, NULL, &left);
    case BY_SPLICE:
        pipe(ends);
        return splice(fd, NULL, ends[1], NULL, 8, 0);
    default:
        return preadv2(fd, &part, 1, -1, 0);
    }
}

/* In the child: 0 to 1 as the call returned, or 100 and its errno. */
static int take(int way, int restarts, int server, int client)
{
    struct sigaction action = { .sa_handler = take_note, .sa_flags = restarts ? SA_RESTART : 0 };
    struct taking taking = { pthread_self(), (pid_t)syscall(SYS_gettid), client };
    pthread_t thread;
    sigaction(SIGUSR1, &action, NULL);
    kill(getppid(), SIGSTOP);
    while (!is_in_state(getppid(), getppid(), 'T'))
        usleep(1000);
    pthread_create(&thread, NULL, disturb, &taking);
    long done = wait_by(way, server);
    int e = errno;
    pthread_join(thread, NULL);
    return done < 0 ? 100 + e : (int)done;
}

static void takes(void)
{
    int server, client, status;
    for (int way = 0; way < WAYS; way++)
        for (int restarts = 0; restarts < 2; restarts++) {
            blocking_pair(3160 + way * 2 + restarts, &server, &client);
            fflush(stdout);
            pid_t child = fork();
            if (child == 0)
                _exit(take(way, restarts, server, client));
            waitpid(child, &status, 0);
            told(WIFEXITED(status) ? WEXITSTATUS(status) : -1, "%s in a child, %s", WAY[way],
                 restarts ? "restarted" : "not restarted");
            hang_up(server, client);
        }
}
