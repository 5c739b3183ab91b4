/* Descriptors that are handed over a UNIX socket. */
static long hand(int channel, int fd)
{
    union { char bytes[CMSG_SPACE(sizeof fd)]; struct cmsghdr head; } control = { 0 };
    struct iovec part = { "!", 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    control.head = (struct cmsghdr){ CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    return sendmsg(channel, &message, 0);
}

static int handed(int channel)
{
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; } control = { 0 };
    char text[4];
    struct iovec part = { text, 4 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    int fd = -1;
    if (recvmsg(channel, &message, MSG_DONTWAIT) > 0 && message.msg_controllen >= CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
    return fd;
}

static void rights(void)
{
    int server, client, channel[2], pipes[2], fd;
    socketpair(AF_UNIX, SOCK_STREAM, 0, channel);
    pair(3095, &server, &client);
    pipe(pipes);
    told(hand(channel[0], pipes[0]), "a pipe is handed over");
    told((fd = handed(channel[1])) < 0 ? -1 : 0, "and arrives");
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    told(hand(channel[0], fd), "a new socket is handed over");
    close(fd);
    told((fd = handed(channel[1])) < 0 ? -1 : 0, "and arrives");
    close(fd);
    told(hand(channel[0], server), "a connection is handed over");
    told((fd = handed(channel[1])) < 0 ? -1 : 0, "a connection arrives");
    close(fd);
    fd = listener(3096);
    told(hand(channel[0], fd), "a listener is handed over");
    told(handed(channel[1]) < 0 ? -1 : 0, "a listener arrives");
    close(fd);
    told(hand(channel[0], -1), "-1 is handed over");
    told(hand(server, pipes[0]), "a pipe over a connection");
    close(channel[0]);
    close(channel[1]);
    close(pipes[0]);
    close(pipes[1]);
    hang_up(server, client);
}
