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

struct attempt {
    int fd;
    struct sockaddr_in to;
};

static void *attempts(void *arg)
{
    struct attempt *a = arg;
    return (void *)(long)(connect(a->fd, SA(a->to)) < 0 ? errno : 0);
}

static void interrupted(int number)
{
    (void)number;
}

/* A set has nothing of a socket that other threads connect, while the peer does not answer. What ends the wait: `way`
   is 0 the peer, in spite of a signal, 1 SO_SNDTIMEO, 2 a signal, 3 shutdown. */
static void connects_while_watched(const struct sockaddr_in *busy, int there, int ahead, int way)
{
    struct attempt a = { socket(AF_INET, SOCK_STREAM, 0), *busy };
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT }, got;
    struct sigaction action = { .sa_handler = interrupted, .sa_flags = way == 0 ? SA_RESTART : 0 }, before;
    struct timeval limit = { .tv_usec = 100000 };
    int ep = epoll_create1(0), n = 1, threads = way < 2 ? 2 : 1;
    pthread_t thread[2];
    void *done[2];
    told(epoll_ctl(ep, EPOLL_CTL_ADD, a.fd, &event), "a set has a socket, %d", way);
    told(epoll_wait(ep, &got, 1, 0) == 1 ? (long)got.events : -1, "which is new");
    if (way == 1)
        setsockopt(a.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sigaction(SIGUSR1, &action, &before);
    pthread_create(&thread[0], NULL, attempts, &a);
    for (long until = ms() + 3000; n && ms() < until;) {
        n = epoll_wait(ep, &got, 1, 0);
        usleep(1000);
    }
    told(n, "another thread connects it");
    if (threads == 2)
        pthread_create(&thread[1], NULL, attempts, &a);
    if (way == 0 || way == 2)
        pthread_kill(thread[0], SIGUSR1);
    if (way == 3)
        told(shutdown(a.fd, SHUT_RDWR), "shutdown");
    if (way == 0) {
        told(epoll_wait(ep, &got, 1, 20), "and it stays so");
        raw_close(ahead);
        raw_close(raw_accept(there, NULL, NULL));
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], &done[i]);
        told((long)done[i], "connect in a thread");
    }
    told(epoll_wait(ep, &got, 1, way == 0 ? 1000 : 0) == 1 ? (long)got.events : -1, "the set tells");
    sigaction(SIGUSR1, &before, NULL);
    hang_up(a.fd, way == 0 ? (int)raw_accept(there, NULL, NULL) : -1);
    close(ep);
}

/* The peer's listener has room for one, and does not answer others. */
static void connects_to_busy(void)
{
    struct sockaddr_in busy = at(CLIENT, 3225);
    int there = new_socket(CLIENT, AF_INET), ahead = new_socket(CLIENT, AF_INET), on = 1;
    raw_setsockopt(there, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    raw_bind(there, &busy, sizeof busy);
    raw_listen(there, 0);
    raw_connect(ahead, SA(busy));
    for (int way = 3; way >= 0; way--)
        connects_while_watched(&busy, there, ahead, way);
    raw_close(there);
}

/* A blocking connect is one attempt, however soon the refusal is there. Port 0 is a port where nothing listens. */
static void refused_at_once(void)
{
    struct sockaddr_in own = at(SERVER, 3226);
    for (int i = 0; i < 100; i++) {
        struct sockaddr_in closed = at(CLIENT, i & 2 ? 3219 : 0);
        int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (i & 1)
            bind(fd, SA(own));
        told(connect(fd, SA(closed)), "connect where nothing listens");
        close(fd);
    }
}

/* The port of a connection that came to nothing is gone, and so IPV6_V6ONLY is not too late. */
/* A connect that was refused and not told yet: the socket is bound, or shut, and asked what it is. */
static void refused_and_then(int is_shut)
{
    struct sockaddr_in closed = at(CLIENT, 3219), own = at(SERVER, 3890), name = { 0 };
    struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), least = -1, value = 0;
    char text[4];
    socklen_t len = sizeof name;
    connect(fd, SA(closed));
    await(SERVER, fd, 0);
    told(setsockopt(fd, IPPROTO_TCP, TCP_LINGER2, &least, sizeof least), "TCP_LINGER2 of a refused socket");
    told(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "", 0), "a policy of no name");
    if (is_shut)
        told(shutdown(fd, SHUT_RD), "shutdown of a refused socket");
    else
        told(bind(fd, SA(own)), "bind of a refused socket");
    told(recv(fd, text, 4, 0), "its error");
    told(recv(fd, text, 4, 0), "and the end");
    told(listen(fd, 1), "listen");
    told(connect(fd, SA(closed)), "connect");
    told(connect(fd, SA(closed)), "connect once more");
    told(connect(fd, &nowhere, sizeof nowhere), "connect to AF_UNSPEC");
    told(connect(fd, SA(closed)), "connect after that");
    getsockname(fd, (struct sockaddr *)&name, &len);
    told(is_shut ? 0 : ntohs(name.sin_port), "the own port");
    len = sizeof value;
    getsockopt(fd, IPPROTO_TCP, TCP_LINGER2, &value, &len);
    told(value, "TCP_LINGER2");
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    told(bind(fd, SA(own)), "the port is free");
    close(fd);
}

/* A listener that has accepted a connection is none any more; and one of IPv4 does not take IPv6. */
static void listens_no_more(void)
{
    struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    struct sockaddr_in6 own6 = at6(SERVER, 3891);
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(3891) }, to = at(SERVER, 3891);
    int fd = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET6, SOCK_STREAM, 0);
    int client = new_socket(CLIENT, AF_INET);
    bind(fd, SA(any));
    listen(fd, 4);
    ready(SERVER, fd, 0);
    raw_connect(client, SA(to));
    ready(SERVER, fd, POLLIN);
    int server = accept(fd, NULL, NULL);
    told(connect(other, SA(own6)), "connect to the own IPv6 address");
    told(connect(fd, &nowhere, sizeof nowhere), "connect to AF_UNSPEC of a listener");
    close(fd);
    close(other);
    hang_up(server, client);
}

static void v6_only_again(void)
{
    struct sockaddr_in6 closed = at6(CLIENT, 3219);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    socklen_t len = sizeof on;
    told(connect(fd, SA(closed)), "connect over IPv6 where nothing listens");
    await(SERVER, fd, 0);
    told(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, (void *)8, 3), "less than a number, nowhere");
    told(setsockopt(fd, IPPROTO_IPV6, IPV6_CHECKSUM, (void *)8, 3), "of an option that TCP lacks");
    told(setsockopt(fd, IPPROTO_IPV6, IPV6_CHECKSUM, (void *)8, 4), "a number, nowhere");
    told(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), "IPV6_V6ONLY");
    on = 0;
    told(getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, &len), "its value");
    told(on, "is");
    close(fd);
}

static void again(void)
{
    int there = peers_listener(3220);
    refused_at_once();
    v6_only_again();
    refused_and_then(0);
    refused_and_then(1);
    listens_no_more();
    connects_to_busy();
    for (int way = 0; way < 4; way++)
        for (int watched = 0; watched < 2 - (way == 2); watched++)
            connects_again(there, way, watched);
    raw_close(there);
}
