/*
 * Pointers that lead nowhere: into the first page, to what is no address, into the kernel, to what is not mapped; over
 * the end of what is, and to results that cannot be written. What is received stays until it can be put somewhere.
 */
#include <sys/mman.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

static void nowhere_of(void *bad, const char *where)
{
    int server, client, set = epoll_create1(0), ends[2];
    struct iovec part = { bad, 8 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 }, good;
    struct mmsghdr list = { .msg_hdr = message };
    struct timeval short_time = { 0, 1000 };
    char text[8];
    struct iovec here = { text, 8 };
    socklen_t len = sizeof(struct sockaddr_in);
    good = (struct msghdr){ .msg_iov = &here, .msg_iovlen = 1 };
    blocking_pair(3140, &server, &client);
    pipe2(ends, O_NONBLOCK);
    arrive(client, server, "abcdefgh");
#define NOWHERE(call) told(call, "%s: %s", where, #call)
    NOWHERE(read(server, bad, 8));
    NOWHERE(readv(server, bad, 1));
    NOWHERE(readv(server, &part, 1));
    NOWHERE(recv(server, bad, 8, 0));
    NOWHERE(recvfrom(server, bad, 8, 0, NULL, NULL));
    NOWHERE(recvmsg(server, bad, 0));
    NOWHERE(recvmsg(server, &message, 0));
    NOWHERE(recvmmsg(server, bad, 1, 0, NULL));
    NOWHERE(recvmmsg(server, &list, 1, 0, NULL));
    NOWHERE(recvmmsg(server, &list, 1, 0, bad));
    NOWHERE(preadv2(server, bad, 1, -1, 0));
    NOWHERE(write(server, bad, 8));
    NOWHERE(writev(server, bad, 1));
    NOWHERE(writev(server, &part, 1));
    NOWHERE(send(server, bad, 8, MSG_NOSIGNAL));
    NOWHERE(sendto(server, bad, 8, MSG_NOSIGNAL, NULL, 0));
    NOWHERE(sendmsg(server, bad, MSG_NOSIGNAL));
    NOWHERE(sendmsg(server, &message, MSG_NOSIGNAL));
    NOWHERE(sendmmsg(server, bad, 1, MSG_NOSIGNAL));
    NOWHERE(sendmmsg(server, &list, 1, MSG_NOSIGNAL));
    good.msg_control = bad;
    good.msg_controllen = 32;
    NOWHERE(sendmsg(server, &good, MSG_NOSIGNAL));
    NOWHERE(pwritev2(server, bad, 1, -1, 0));
    NOWHERE(getsockname(server, bad, &len));
    NOWHERE(getsockname(server, (struct sockaddr *)text, bad));
    NOWHERE(getpeername(server, bad, &len));
    NOWHERE(getpeername(server, (struct sockaddr *)text, bad));
    NOWHERE(setsockopt(server, SOL_SOCKET, SO_KEEPALIVE, bad, 4));
    NOWHERE(setsockopt(server, IPPROTO_TCP, TCP_NODELAY, bad, 4));
    NOWHERE(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, bad, 16));
    NOWHERE(getsockopt(server, SOL_SOCKET, SO_KEEPALIVE, bad, &len));
    NOWHERE(getsockopt(server, SOL_SOCKET, SO_KEEPALIVE, text, bad));
    NOWHERE(getsockopt(server, IPPROTO_TCP, TCP_INFO, bad, &len));
    NOWHERE(ioctl(server, FIONREAD, bad));
    NOWHERE(ioctl(server, FIONBIO, bad));
    NOWHERE(ioctl(server, TIOCOUTQ, bad));
    NOWHERE(epoll_ctl(set, EPOLL_CTL_ADD, server, bad));
    NOWHERE(epoll_ctl(set, EPOLL_CTL_MOD, server, bad));
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(set, EPOLL_CTL_ADD, server, &event);
    NOWHERE(epoll_wait(set, bad, 1, 0));
    NOWHERE(epoll_pwait(set, &event, 1, 0, bad));
    NOWHERE(epoll_pwait2(set, &event, 1, bad, NULL));
    struct pollfd row = { .fd = server, .events = POLLIN };
    fd_set in;
    FD_ZERO(&in);
    FD_SET(server, &in);
    NOWHERE(poll(bad, 1, 0));
    NOWHERE(ppoll(bad, 1, NULL, NULL));
    NOWHERE(syscall(SYS_ppoll, &row, 1, bad, NULL, 8));
    NOWHERE(ppoll(&row, 1, NULL, bad));
    NOWHERE(select(server + 1, bad, NULL, NULL, &short_time));
    NOWHERE(select(server + 1, &in, bad, NULL, &short_time));
    NOWHERE(syscall(SYS_select, server + 1, &in, NULL, NULL, bad));
    NOWHERE(syscall(SYS_pselect6, server + 1, &in, NULL, NULL, bad, NULL));
    NOWHERE(syscall(SYS_pselect6, server + 1, &in, NULL, NULL, NULL, bad));
    NOWHERE(pselect(server + 1, &in, NULL, NULL, NULL, bad));
    int zero = open("/dev/zero", O_RDONLY);
    NOWHERE(sendfile(server, zero, bad, 8));
    NOWHERE(splice(ends[0], bad, server, NULL, 8, 0));
    NOWHERE(splice(server, bad, ends[1], NULL, 8, 0));
    close(zero);
    told(read(server, text, 8), "%s: all is still there", where);
    hang_up(server, client);
    close(ends[0]);
    close(ends[1]);
    close(set);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    NOWHERE(bind(fd, bad, 16));
    NOWHERE(connect(fd, bad, 16));
    NOWHERE(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, bad, 4));
    close(fd);
    fd = listener(3141);
    struct sockaddr_in addr = at(SERVER, 3141);
    for (int which = 0; which < 3; which++) {
        client = new_socket(CLIENT, AF_INET);
        raw_connect(client, SA(addr));
        ready(SERVER, fd, POLLIN);
        if (which == 0)
            NOWHERE(accept(fd, bad, &len));
        else if (which == 1)
            NOWHERE(accept(fd, (struct sockaddr *)text, bad));
        else
            NOWHERE(accept4(fd, bad, bad, 0));
        close(accept(fd, NULL, NULL));
        raw_close(client);
    }
    close(fd);
    fflush(stdout);
    char *const none[] = { NULL };
    NOWHERE(execve(bad, none, none));
    NOWHERE(execve("/bin/true", none, bad));
    NOWHERE(execveat(AT_FDCWD, bad, none, none, 0));
    NOWHERE(syscall(SYS_execve, bad, none, none));
#undef NOWHERE
}

/* What ends where a page does. */
static void over_the_end(char *page)
{
    int server, client, set = epoll_create1(0);
    char *edge = page + 4096, text[64];
    struct iovec two[2] = { { text, 2 }, { edge - 4, 8 } };
    struct msghdr message = { .msg_iov = two, .msg_iovlen = 2 };
    struct sockaddr_in addr = at(SERVER, 3142);
    socklen_t len = sizeof addr;
    blocking_pair(3142, &server, &client);
    arrive(client, server, "abcdefghijkl");
    told(recv(server, edge - 4, 8, 0), "over the end: recv");
    told(recv(server, edge - 4, 8, MSG_PEEK), "over the end: peek");
    told(recv(server, edge - 4, 8, MSG_WAITALL), "over the end: recv of all");
    told(recv(server, edge - 4, 4, 0), "up to the end: recv");
    told(memcmp(edge - 4, "abcd", 4), "up to the end: what came");
    told(readv(server, two, 2), "over the end: readv");
    told(recvmsg(server, &message, 0), "over the end: recvmsg");
    told(recv(server, edge - 4, 4, 0), "up to the end: recv again");
    told(memcmp(edge - 4, "efgh", 4), "up to the end: what came then");
    told(recv(server, edge - 4, 8, 0), "over the end, but less is there: recv");
    told(memcmp(edge - 4, "ijkl", 4), "over the end, but less is there: what came");
    told(recv(server, edge, 8, MSG_DONTWAIT), "nothing is there: recv");
    told(send(server, edge - 4, 8, MSG_NOSIGNAL), "over the end: send");
    told(writev(server, two, 2), "over the end: writev");
    told(sendmsg(server, &message, MSG_NOSIGNAL), "over the end: sendmsg");
    told(send(server, edge - 4, 4, MSG_NOSIGNAL), "up to the end: send");
    told(drain(client, text, 4), "up to the end: what went");
    told(recv(client, text, 1, MSG_DONTWAIT), "nothing else went");
    len = 2;
    told(getsockname(server, (struct sockaddr *)(edge - 2), &len), "up to the end: getsockname");
    len = sizeof addr;
    told(getsockname(server, (struct sockaddr *)(edge - 2), &len), "over the end: getsockname");
    memcpy(edge - 8, &addr, 8);
    told(connect(server, (struct sockaddr *)(edge - 8), sizeof addr), "over the end: connect");
    len = 4000;
    told(getsockopt(server, SOL_SOCKET, SO_KEEPALIVE, edge - 4, &len), "too much room: getsockopt");
    told(setsockopt(server, SOL_SOCKET, SO_KEEPALIVE, edge - 4, 4000), "too much room: setsockopt");
    memset(edge - sizeof(struct pollfd), 0, sizeof(struct pollfd));
    told(poll((struct pollfd *)edge - 1, 2, 0), "over the end: poll");
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(set, EPOLL_CTL_ADD, server, &event);
    told(epoll_wait(set, (struct epoll_event *)edge, 4, 0), "nothing to tell: epoll_wait");
    arrive(client, server, "abcd");
    told(epoll_wait(set, (struct epoll_event *)edge, 4, 0), "nowhere to tell it: epoll_wait");
    told(epoll_wait(set, (struct epoll_event *)edge - 1, 4, 0), "over the end: epoll_wait");
    hang_up(server, client);
    close(set);
}

/* Memory that no result can be put into. */
static void unwritable(char *page, const char *where)
{
    int server, client, set = epoll_create1(0);
    char text[8];
    struct iovec part = { page, 4 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct mmsghdr list = { .msg_hdr = message };
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;
    blocking_pair(3180, &server, &client);
    arrive(client, server, "abcdefgh");
#define UNWRITABLE(call) told(call, "%s: %s", where, #call)
    UNWRITABLE(read(server, page, 8));
    UNWRITABLE(recv(server, page, 8, 0));
    UNWRITABLE(recvmsg(server, &message, 0));
    UNWRITABLE(recvmmsg(server, &list, 1, 0, NULL));
    UNWRITABLE(getsockname(server, (struct sockaddr *)page, &len));
    UNWRITABLE(getsockopt(server, SOL_SOCKET, SO_TYPE, page, &len));
    UNWRITABLE(ioctl(server, FIONREAD, page));
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(set, EPOLL_CTL_ADD, server, &event);
    UNWRITABLE(epoll_wait(set, (struct epoll_event *)page, 1, 0));
    UNWRITABLE(poll((struct pollfd *)page, 1, 0));
    told(read(server, text, 8), "%s: all is still there", where);
    hang_up(server, client);
    close(set);
}

static sigjmp_buf back;
static volatile int faults_seen;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    faults_seen += info->si_addr == (void *)8 ? signal : 1000;
    siglongjmp(back, 1);
}

/* The program's own handler of faults, and the default. */
static void own_faults(void)
{
    struct sigaction mine = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER }, before, after;
    int server, client, status = 0;
    blocking_pair(3181, &server, &client);
    told(sigaction(SIGSEGV, &mine, &before), "a handler of faults is installed");
    told(before.sa_handler == SIG_DFL, "there was none before");
    told(sigaction(SIGSEGV, NULL, &after), "the handler is asked for");
    told(after.sa_sigaction == on_fault && after.sa_flags & SA_NODEFER, "it is the own one");
    told(send(server, (void *)8, 8, MSG_NOSIGNAL), "a call does not come to it");
    told(faults_seen, "and was not seen");
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)8 = 1;
    told(faults_seen, "a fault of the program's own does");
    signal(SIGSEGV, SIG_DFL);
    fflush(stdout);
    for (int how = 0; how < 3; how++) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit none = { 0, 0 };
            setrlimit(RLIMIT_CORE, &none);
            if (how == 0)
                *(volatile int *)8 = 1;
            else if (how == 1)
                raise(SIGSEGV);
            else
                send(server, (void *)8, 8, MSG_NOSIGNAL);
            _exit(3);
        }
        waitpid(child, &status, 0);
        told(WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status), "a child's end, %d", how);
    }
    hang_up(server, client);
}

static void nowhere(void)
{
    nowhere_of((void *)8, "the first page");
    nowhere_of((void *)0x800000000000, "no address");
    nowhere_of((void *)-8192, "the kernel");
    /* A page, and behind it none. */
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    nowhere_of(page + 4096, "unmapped memory");
    over_the_end(page);
    mprotect(page, 4096, PROT_READ);
    unwritable(page, "read-only memory");
    munmap(page, 4096);
    /* A file that ends before its mapping does is SIGBUS for the program. */
    int file = memfd_create("short", 0);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unwritable(page, "behind the end of a file");
    munmap(page, 4096);
    close(file);
    own_faults();
}
