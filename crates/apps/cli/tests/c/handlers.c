/* Handlers that use connections, whatever their thread is doing: nothing stands still, and nothing is lost. */
#include <setjmp.h>
#include <sys/wait.h>

static volatile sig_atomic_t rung, echoed, depth, deepest, raised;
static int partner_server, partner_client;
static siginfo_t last_info;
static sigjmp_buf way_out;

static void again_soon(void)
{
    struct itimerval once = { { 0, 0 }, { 0, 300 } };
    setitimer(ITIMER_REAL, &once, NULL);
}

/* A byte goes to the peer and back. */
static void chat(int signal)
{
    int e = errno;
    char byte = 'o', back = 0;
    struct pollfd row = { .events = POLLIN };
    (void)signal;
    if (send(partner_server, &byte, 1, MSG_NOSIGNAL) == 1) {
        row.fd = partner_client;
        if (raw_poll(&row, 1, 2000) == 1 && raw_recv(partner_client, &back, 1, 0) == 1)
            raw_send(partner_client, &back, 1, MSG_NOSIGNAL);
        row.fd = partner_server;
        back = 0;
        if (poll(&row, 1, 2000) == 1 && recv(partner_server, &back, 1, 0) == 1 && back == 'o')
            echoed++;
    }
    rung++;
    again_soon();
    errno = e;
}

static void keep(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    last_info = *info;
    rung++;
}

static void nest(int signal)
{
    if (++depth > deepest)
        deepest = depth;
    if (!raised++)
        raise(signal);
    depth--;
}

static void count(int signal)
{
    (void)signal;
    rung++;
}

static void jump(int signal)
{
    (void)signal;
    siglongjmp(way_out, 7);
}

static void handlers(void)
{
    int server, client;
    char text[512] = "";
    struct sigaction action = { .sa_handler = chat, .sa_flags = SA_RESTART }, before;
    pair(3160, &partner_server, &partner_client);
    pair(3161, &server, &client);
    sigaction(SIGALRM, &action, NULL);
    rung = echoed = 0;
    again_soon();
    long bytes = 0, lost = 0;
    for (int i = 0; rung < 200; i++) {
        long sent = send(server, text, sizeof text, MSG_NOSIGNAL);
        bytes += sent > 0 ? sent : 0;
        recv(server, text, sizeof text, MSG_DONTWAIT);
        for (long got; (got = raw_recv(client, text, sizeof text, MSG_DONTWAIT)) > 0;)
            bytes -= got;
        close(dup(server));
    }
    signal(SIGALRM, SIG_IGN);
    for (long got; bytes > 0 && (got = drain(client, text, bytes < 512 ? (size_t)bytes : 512)) > 0;)
        bytes -= got;
    lost = bytes;
    told(rung >= 200, "handlers ran");
    told(echoed == rung, "each sent a byte and had it back");
    told(lost, "nothing is lost beside");
    hang_up(partner_server, partner_client);

    /* What the program has installed is what it is told of. */
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    action = (struct sigaction){ .sa_sigaction = keep, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESETHAND, .sa_mask = some };
    told(sigaction(SIGUSR1, &action, &before), "sigaction");
    told(before.sa_handler == SIG_DFL, "nothing was there before");
    told(sigaction(SIGUSR1, NULL, &before), "sigaction that asks");
    told(before.sa_sigaction == keep, "the handler");
    told(before.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_RESETHAND | SA_RESTART | SA_ONSTACK), "its flags");
    told(sigismember(&before.sa_mask, SIGUSR2) - sigismember(&before.sa_mask, SIGTERM), "its mask");
    rung = 0;
    sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 4711 });
    told(rung, "it has run");
    told(last_info.si_value.sival_int, "what came with the signal");
    told(last_info.si_code == SI_QUEUE && last_info.si_pid == getpid(), "who sent it");
    sigaction(SIGUSR1, NULL, &before);
    told(before.sa_handler == SIG_DFL, "it runs once");
    told(signal(SIGUSR1, nest) == SIG_DFL, "signal");
    told(signal(SIGUSR1, SIG_IGN) == nest, "signal tells what was there");
    told(signal(SIGUSR1, SIG_DFL) == SIG_IGN, "even if that was to ignore it");
    told(signal(SIGKILL, nest) == SIG_ERR ? -1 : 0, "signal that nothing handles");
    told(signal(1000, nest) == SIG_ERR ? -1 : 0, "signal there is not");
    told(sigaction(1000, &action, NULL), "sigaction of it");
    told(sigaction(SIGSTOP, &action, NULL), "sigaction that no program may");
    action = (struct sigaction){ .sa_handler = nest, .sa_flags = SA_NODEFER };
    sigaction(SIGUSR1, &action, NULL);
    depth = deepest = raised = 0;
    raise(SIGUSR1);
    told(deepest, "deep with SA_NODEFER");
    action.sa_flags = 0;
    sigaction(SIGUSR1, &action, NULL);
    depth = deepest = raised = 0;
    raise(SIGUSR1);
    told(deepest, "and without");
    /* Two real-time signals with what belongs to each, in the middle of calls. */
    action = (struct sigaction){ .sa_sigaction = keep, .sa_flags = SA_SIGINFO };
    sigaction(SIGRTMIN, &action, NULL);
    rung = 0;
    pid_t self = getpid(), sender = fork();
    if (sender == 0) {
        for (int i = 1; i <= 50; i++) {
            sigqueue(self, SIGRTMIN, (union sigval){ .sival_int = i });
            usleep(200);
        }
        _exit(0);
    }
    for (int status; waitpid(sender, &status, WNOHANG) == 0;) {
        send(server, text, 1, MSG_NOSIGNAL);
        raw_recv(client, text, sizeof text, MSG_DONTWAIT);
    }
    told(rung, "real-time signals came");
    told(last_info.si_value.sival_int, "the last with its value");
    /* Out of calls that do not wait, for ever. */
    action = (struct sigaction){ .sa_handler = jump };
    sigaction(SIGALRM, &action, NULL);
    volatile int jumps = 0;
    while (jumps < 50) {
        if (sigsetjmp(way_out, 1) == 0) {
            again_soon();
            for (;;) {
                send(server, text, 1, MSG_NOSIGNAL);
                raw_recv(client, text, sizeof text, MSG_DONTWAIT);
                recv(server, text, sizeof text, MSG_DONTWAIT);
            }
        }
        jumps++;
    }
    told(jumps, "handlers jumped out of calls");
    fcntl(server, F_SETFL, 0);
    /* Again and again, for one may come before the call. */
    struct itimerval often = { { 0, 50000 }, { 0, 50000 } }, never = { { 0, 0 }, { 0, 0 } };
    signal(SIGALRM, count);
    told(siginterrupt(SIGALRM, 1), "siginterrupt");
    setitimer(ITIMER_REAL, &often, NULL);
    told(read(server, text, 1), "read that it lets a signal end");
    /* What it says counts for handlers that signal(2) installs later, too. */
    signal(SIGALRM, count);
    told(read(server, text, 1), "read that a new handler ends");
    setitimer(ITIMER_REAL, &never, NULL);
    told(siginterrupt(SIGALRM, 0), "siginterrupt, taken back");
    signal(SIGALRM, count);
    sigaction(SIGALRM, NULL, &action);
    told((action.sa_flags & SA_RESTART) != 0, "calls go on again");
    told(siginterrupt(1000, 1), "siginterrupt of no signal");
    told(siginterrupt(0, 1), "siginterrupt of signal 0");
    told(siginterrupt(SIGKILL, 1), "siginterrupt of SIGKILL");
    signal(SIGKILL, SIG_DFL);
    while (raw_recv(client, text, sizeof text, MSG_DONTWAIT) > 0)
        ;
    arrive(client, server, "x");
    told(read(server, text, 8), "reads go on");
    hang_up(server, client);
    signal(SIGALRM, SIG_DFL);
    signal(SIGRTMIN, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
}
