/*
 * passes WHAT HOW PORT: a process listens and hands WHAT (each "connection", or its "listener") over a UNIX socket to
 * another one, which it has made before by HOW ("fork" or "exec"). That one answers a line with the port of its peer,
 * if calls of all kinds say that it has the connection. With "limited" it hands over each connection, and both have
 * given up root and may have no more threads (RLIMIT_NPROC).
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

union control { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; };

static ino_t inode(int fd)
{
    struct stat about = { 0 };
    fstat(fd, &about);
    return about.st_ino;
}

static void hand(int channel, int fd)
{
    union control control = { 0 };
    ino_t number = inode(fd);
    struct iovec part = { &number, sizeof number };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    control.head = (struct cmsghdr){ CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    if (sendmsg(channel, &message, 0) != sizeof number)
        perror("sendmsg"), exit(1);
}

static int handed(int channel)
{
    union control control = { 0 };
    ino_t number;
    struct iovec part = { &number, sizeof number };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    int fd = -1;
    if (recvmsg(channel, &message, 0) != sizeof number)
        exit(0);
    if (message.msg_flags & MSG_CTRUNC || control.head.cmsg_len != CMSG_LEN(sizeof fd))
        fprintf(stderr, "flags %x, length %zu\n", message.msg_flags, control.head.cmsg_len);
    else
        memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
    if (fd >= 0 && number != inode(fd))
        fprintf(stderr, "inode %lu, not %lu\n", inode(fd), number), exit(1);
    return fd;
}

static int number(int fd, int level, int name)
{
    int n = -1;
    socklen_t len = sizeof n;
    getsockopt(fd, level, name, &n, &len);
    return n;
}

static void serve(int fd)
{
    char line[64] = "";
    int on = 1;
    struct sockaddr_in peer = { 0 }, own = { 0 };
    struct tcp_info info = { 0 };
    socklen_t len = sizeof peer, own_len = sizeof own, info_len = sizeof info;
    struct pollfd row = { .fd = fd, .events = POLLIN };
    int bad = poll(&row, 1, 10000) != 1;
    bad |= (recv(fd, line, sizeof line, 0) <= 0) << 1;
    bad |= (getpeername(fd, (struct sockaddr *)&peer, &len) != 0 || peer.sin_family != AF_INET) << 2;
    bad |= (getsockname(fd, (struct sockaddr *)&own, &own_len) != 0 || own.sin_port == 0) << 3;
    bad |= (number(fd, SOL_SOCKET, SO_DOMAIN) != AF_INET) << 4;
    bad |= (number(fd, IPPROTO_TCP, TCP_NODELAY) != 0) << 5;
    bad |= (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) << 6;
    bad |= (number(fd, IPPROTO_TCP, TCP_NODELAY) != 1) << 7;
    bad |= (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_len) != 0 || info.tcpi_state != 1) << 8;
    dprintf(fd, bad ? "wrong: %x" : "peer %d", bad ? bad : ntohs(peer.sin_port));
    close(fd);
}

static void give_up(void)
{
    struct rlimit none = { 1, 1 };
    if (setgid(65534) || setuid(65534) || setrlimit(RLIMIT_NPROC, &none))
        perror("setuid"), exit(1);
}

static void work(int channel)
{
    for (;;) {
        int fd = handed(channel);
        if (number(fd, SOL_SOCKET, SO_ACCEPTCONN) != 1)
            serve(fd);
        else
            for (int one; (one = accept(fd, NULL, NULL)) >= 0;)
                serve(one);
    }
}

int main(int count, char **arguments)
{
    int channel[2], on = 1;
    struct sockaddr_in at = { .sin_family = AF_INET };
    if (count == 3)
        work(atoi(arguments[2]));
    socketpair(AF_UNIX, SOCK_STREAM, 0, channel);
    if (fork() == 0) {
        char text[12];
        if (strcmp(arguments[1], "limited") == 0)
            give_up();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(channel[1]);
        snprintf(text, sizeof text, "%d", channel[0]);
        if (strcmp(arguments[2], "exec") == 0)
            execl(arguments[0], arguments[0], "worker", text, NULL);
        work(channel[0]);
    }
    close(channel[0]);
    at.sin_port = htons(atoi(arguments[3]));
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 100))
        perror("listen"), exit(1);
    if (strcmp(arguments[1], "listener") == 0) {
        hand(channel[1], listener);
        close(listener);
        pause();
    }
    if (strcmp(arguments[1], "limited") == 0)
        give_up();
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            perror("accept"), exit(1);
        hand(channel[1], fd);
        close(fd);
    }
}
