/* Pointers that lead nowhere: into the first page, to what is no address, into the kernel. */
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

static void nowhere(void)
{
    nowhere_of((void *)8, "the first page");
    nowhere_of((void *)0x800000000000, "no address");
    nowhere_of((void *)-8192, "the kernel");
}
