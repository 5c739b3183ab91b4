/* Handlers that fork, whatever their thread is doing. */
#include <sys/wait.h>

static volatile sig_atomic_t born, lived;

/* Counted from the end of a handler, so that the program gets on whatever a fork costs. */
static void soon(void)
{
    struct itimerval once = { { 0, 0 }, { 0, 20000 } };
    setitimer(ITIMER_REAL, &once, NULL);
}

/* The child lets go of what it has, as one does before another program runs. */
static void bear(int signal)
{
    int e = errno, status = -1;
    (void)signal;
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        _exit(7);
    }
    born++;
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7)
        lived++;
    soon();
    errno = e;
}

static pid_t twin;

static void part(int signal)
{
    (void)signal;
    twin = fork();
}

static void forks(void)
{
    struct sigaction action = { .sa_handler = bear, .sa_flags = SA_RESTART };
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    char text[64] = "";
    sigaction(SIGALRM, &action, NULL);
    born = lived = 0;
    soon();
    for (int i = 0; born < 30; i++) {
        int server, client, twins;
        pair(3150 + i % 8, &server, &client);
        twins = dup(server);
        for (int k = 0; k < 50; k++) {
            send(server, text, sizeof text, MSG_NOSIGNAL);
            recv(server, text, sizeof text, MSG_DONTWAIT);
        }
        close(twins);
        hang_up(server, client);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    told(born >= 30, "handlers forked");
    told(lived == born, "and all children came to their end");
    /* A child that returns from the handler: its call ends. */
    struct sigaction parting = { .sa_handler = part };
    struct itimerval once = { { 0, 0 }, { 0, 80000 } };
    int server, client, status = 0;
    pid_t self = getpid();
    blocking_pair(3149, &server, &client);
    sigaction(SIGALRM, &parting, NULL);
    setitimer(ITIMER_REAL, &once, NULL);
    long got = read(server, text, sizeof text);
    if (getpid() != self)
        _exit(got == -1 && errno == EINTR ? 5 : 6);
    told(got, "read that a handler ended by a fork");
    told(twin > 0 && waitpid(twin, &status, 0) == twin, "the child has ended");
    told(WIFEXITED(status) ? WEXITSTATUS(status) : -1, "its read ended, too");
    arrive(client, server, "ab");
    told(read(server, text, sizeof text), "the parent reads on");
    hang_up(server, client);
    signal(SIGALRM, SIG_DFL);
    /* Another program by the call's number, with an environment that says nothing. */
    char *const arguments[] = { "sh", "-c", "case $LD_PRELOAD in *millstream*) exit 3;; *) exit 3;; esac", NULL };
    char *const nothing[] = { NULL };
    fflush(stdout);
    if (fork() == 0) {
        syscall(SYS_execve, "/bin/sh", arguments, nothing);
        _exit(9);
    }
    wait(&status);
    told(WEXITSTATUS(status), "execve by its number");
    blocking_pair(3148, &server, &client);
    fflush(stdout);
    if ((self = (pid_t)syscall(SYS_fork)) == 0)
        _exit(write(server, "child", 5) == 5 ? 4 : 9);
    waitpid(self, &status, 0);
    told(WEXITSTATUS(status), "fork by its number");
    told(drain(client, text, 5), "the child's bytes");
    hang_up(server, client);
}
