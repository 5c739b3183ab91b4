/* A socket whose connect came to nothing connects again. */

static void states(int fd, const char *what)
{
    char text[4];
    int error = -1;
    socklen_t len = sizeof error;
    struct pollfd row = { .fd = fd, .events = POLLIN | POLLOUT };
    struct sockaddr_storage name;
    told(poll(&row, 1, 0), "poll %s", what);
    told(row.revents, "its events");
    told(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR");
    told(error, "the error");
    len = sizeof name;
    told(getpeername(fd, (struct sockaddr *)&name, &len), "getpeername");
    told(recv(fd, text, sizeof text, MSG_DONTWAIT), "recv");
    told(send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL), "send");
}

/* `way`: the socket blocks, or does not, or is bound, or asks SO_ERROR first. */
static void connects_again(int there, int way, int watched)
{
    struct sockaddr_in closed = at(CLIENT, 3219), open = at(CLIENT, 3220), own = at(SERVER, 3221 + way), name;
    int fd = socket(AF_INET, SOCK_STREAM | (way == 1 || way == 3 ? SOCK_NONBLOCK : 0), 0), on = 1, error = -1;
    int ep = epoll_create1(0);
    socklen_t len = sizeof error;
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT }, got;
    if (way == 2) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        told(bind(fd, SA(own)), "bind");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (watched)
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event);
    for (int i = 0; i < 2; i++) {
        long done = told(connect(fd, SA(closed)), "connect where nothing listens, %d", way);
        if (done < 0 && errno == EINPROGRESS) {
            await(SERVER, fd, 0);
            if (way == 3) {
                told(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR");
                told(error, "the error");
            }
            told(connect(fd, SA(closed)), "connect says how it ended");
        }
        states(fd, "after it");
        if (watched)
            told(epoll_wait(ep, &got, 1, 0) == 1 ? (long)got.events : -1, "the set tells");
    }
    told(connect(fd, SA(open)), "connect where something listens");
    await(CLIENT, there, POLLIN);
    await(SERVER, fd, POLLOUT);
    told(connect(fd, SA(open)), "connect says that it is there");
    told(connect(fd, SA(open)), "and once more");
    int peer = (int)raw_accept(there, NULL, NULL);
    char text[8];
    told(send(fd, "hello", 5, 0), "send");
    told(drain(peer, text, 5), "what came");
    arrive(peer, fd, "x");
    if (watched)
        told(epoll_wait(ep, &got, 1, 1000) == 1 ? (long)got.events : -1, "the set tells");
    len = sizeof name;
    getsockname(fd, (struct sockaddr *)&name, &len);
    if (way == 2)
        told(ntohs(name.sin_port), "the port that it was bound to");
    len = sizeof on;
    getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len);
    told(on, "its options are kept");
    hang_up(fd, peer);
    close(ep);
}

static void again(void)
{
    int there = peers_listener(3220);
    for (int way = 0; way < 4; way++)
        for (int watched = 0; watched < 2 - (way == 2); watched++)
            connects_again(there, way, watched);
    raw_close(there);
}
