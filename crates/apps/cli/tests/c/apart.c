/* Sockets that connect to AF_UNSPEC, in every state, and what becomes of them. */

static long bits(int fd)
{
    struct pollfd row = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
    return poll(&row, 1, 0) < 0 ? -1 : row.revents;
}

static void own_name(int fd)
{
    struct sockaddr_in name = { 0 };
    socklen_t len = sizeof name;
    told(getsockname(fd, (struct sockaddr *)&name, &len), "getsockname");
    told(name.sin_addr.s_addr, "its address");
    told(name.sin_port != 0, "it has a port");
    len = sizeof name;
    told(getpeername(fd, (struct sockaddr *)&name, &len), "getpeername");
}

static void pending(int fd)
{
    int error = -1;
    socklen_t len = sizeof error;
    told(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR");
    told(error, "the error");
}

static long taken_apart(int fd)
{
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    return connect(fd, &none, sizeof none);
}

/* Receives, sends and asks for the error, another one of these first. */
static void asked(int fd, int first)
{
    char text[8];
    for (int i = 0; i < 4; i++) {
        if ((i + first) % 3 == 0)
            pending(fd);
        if ((i + first) % 3 == 1)
            told(recv(fd, text, sizeof text, MSG_DONTWAIT), "recv");
        if ((i + first) % 3 == 2)
            told(send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL), "send");
    }
}

static void reset_of(int peer)
{
    struct linger at_once = { 1, 0 };
    raw_setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    raw_close(peer);
}

static int connects(int there, int fd, int to)
{
    struct sockaddr_in open = at(CLIENT, to);
    told(connect(fd, SA(open)), "connect where something listens");
    await(CLIENT, there, POLLIN);
    await(SERVER, fd, POLLOUT);
    told(connect(fd, SA(open)), "connect says that it is there");
    return (int)raw_accept(there, NULL, NULL);
}

static const char *const APART[] = {
    "new", "bound", "connecting", "connected", "unread data", "refused, not told", "refused, told", "CLOSE-WAIT",
    "FIN-WAIT-2", "both ends shut", "reset", "reset after the end", "receiving side shut", "connecting, shut",
    "listening", "accepted", "new, shut", "refused, told, shut", "listening, shut"
};

static void apart_from(int there, int state, int round)
{
    const char *name = APART[state];
    int port = 3240 + state * 3 + round, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), peer = -1, on = 1;
    int ep = epoll_create1(0), only = -1;
    struct sockaddr_in own = at(SERVER, port), closed = at(CLIENT, 3239), nobody = at(CLIENT, 1);
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT, .data.u32 = 7 }, got = { 0 };
    char text[8];
    nobody.sin_addr.s_addr = htonl(0x0a4d0909);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (round == 1 || strstr(name, "bound") || strstr(name, "listening") || state == 15)
        told(bind(fd, SA(own)), "bind, %s", name);
    if (strstr(name, "connecting"))
        told(connect(fd, SA(nobody)), "connect where no host is");
    else if (strstr(name, "refused")) {
        told(connect(fd, SA(closed)), "connect where nothing listens");
        await(SERVER, fd, 0);
        if (strstr(name, ", told"))
            told(connect(fd, SA(closed)), "connect says how it ended");
    } else if (strstr(name, "listening") || state == 15) {
        told(listen(fd, 4), "listen");
        bits(fd);
    } else if (!strstr(name, "new") && !strstr(name, "bound"))
        peer = connects(there, fd, 3238);
    if (state == 15) {
        peer = (int)raw_socket(AF_INET, SOCK_STREAM, 0);
        raw_connect(peer, SA(own));
        await(SERVER, fd, POLLIN);
        only = fd;
        fd = accept(only, NULL, NULL);
    }
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event);
    if (strstr(name, "unread"))
        arrive(peer, fd, "data");
    if (state == 7 || state == 9 || state == 11) {
        raw_shutdown(peer, SHUT_WR);
        await(SERVER, fd, POLLIN);
    }
    if (state == 8 || state == 9) {
        shutdown(fd, SHUT_WR);
        await(CLIENT, peer, POLLIN);
        for (int i = 0; i < 2000 && state == 9 && !(bits(fd) & POLLHUP); i++)
            usleep(1000);
    }
    if (state == 10 || state == 11) {
        reset_of(peer);
        peer = -1;
        await(SERVER, fd, 0);
    }
    if (strstr(name, "shut") && state != 9)
        told(shutdown(fd, state == 13 ? SHUT_RDWR : SHUT_RD), "shutdown");
    told(bits(fd), "%s: poll", name);
    if (round < 2)
        told(taken_apart(fd), "connect to AF_UNSPEC");
    told(bits(fd), "poll");
    told(epoll_wait(ep, &got, 1, 0) == 1 ? (long)got.events : -1, "the set tells");
    if (state != 15)
        own_name(fd);
    asked(fd, state + round);
    told(bits(fd), "poll");
    if (peer >= 0)
        raw_close(peer);
    if (round == 2) {
        close(fd), close(only), close(ep);
        return;
    }
    peer = connects(there, fd, 3238);
    told(recv(fd, text, sizeof text, MSG_DONTWAIT), "recv");
    told(send(fd, "hello", 5, 0), "send");
    told(drain(peer, text, 5), "what came");
    if (!strstr(name, "shut"))
        arrive(peer, fd, "x");
    told(epoll_wait(ep, &got, 1, 1000) == 1 ? (long)got.events : -1, "the set tells");
    socklen_t len = sizeof on;
    getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len);
    told(on, "its options are kept");
    told(taken_apart(fd), "connect to AF_UNSPEC");
    if (state == 15)
        close(only);
    own.sin_port = htons((uint16_t)(port + 100));
    told(bind(fd, SA(own)), "bind");
    told(listen(fd, 4), "listen");
    told(bits(fd), "poll");
    len = sizeof own;
    getsockname(fd, (struct sockaddr *)&own, &len);
    own = at(SERVER, ntohs(own.sin_port));
    raw_close(peer);
    peer = (int)raw_socket(AF_INET, SOCK_STREAM, 0);
    raw_connect(peer, SA(own));
    await(SERVER, fd, POLLIN);
    told(epoll_wait(ep, &got, 1, 0) == 1 ? (long)got.events : -1, "the set tells");
    int accepted = told_fd(accept(fd, NULL, NULL), "accept");
    told(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &event), "out of the set");
    told(taken_apart(fd), "connect to AF_UNSPEC");
    told(accept(fd, NULL, NULL), "accept");
    told(taken_apart(accepted), "the accepted one, too");
    told(bits(accepted), "poll");
    hang_up(accepted, peer);
    close(fd), close(ep);
}

/* bind and connect on sockets that are something already: which check comes first. */
static void orders(int there)
{
    static const char *const STATES[] = { "connected", "accepted", "refused", "listening", "connecting" };
    struct sockaddr_in6 first6 = at6(CLIENT, 3238);
    for (int v6 = 0; v6 < 2; v6++) {
        if (v6) {
            int on = 1;
            there = new_socket(CLIENT, AF_INET6);
            raw_setsockopt(there, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
            raw_bind(there, SA(first6));
            raw_listen(there, 4);
        }
        for (int state = 0; state < 5; state++) {
            int family = v6 ? AF_INET6 : AF_INET, fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0), peer = -1;
            struct sockaddr_storage names[7] = { 0 };
            struct sockaddr_in6 to6 = at6(CLIENT, 3238), closed6 = at6(CLIENT, 3239), own6 = at6(SERVER, 3460);
            struct sockaddr_in to = at(CLIENT, 3238), closed = at(CLIENT, 3239), own = at(SERVER, 3460 + state);
            own6.sin6_port = htons((uint16_t)(3470 + state));
            socklen_t whole = v6 ? sizeof to6 : sizeof to;
            void *open = v6 ? (void *)&to6 : (void *)&to, *none = v6 ? (void *)&closed6 : (void *)&closed;
            void *mine = v6 ? (void *)&own6 : (void *)&own;
            if (state == 0) {
                connect(fd, open, whole);
                await(CLIENT, there, POLLIN);
                await(SERVER, fd, POLLOUT);
                connect(fd, open, whole);
                peer = (int)raw_accept(there, NULL, NULL);
            } else if (state == 2) {
                connect(fd, none, whole);
                await(SERVER, fd, 0);
            } else if (state == 4) {
                to.sin_addr.s_addr = htonl(0x0a4d0909);
                inet_pton(AF_INET6, "fd77::909", &to6.sin6_addr);
                connect(fd, open, whole);
            } else {
                bind(fd, mine, whole);
                listen(fd, 4);
                bits(fd);
                if (state == 1) {
                    peer = (int)raw_socket(family, SOCK_STREAM, 0);
                    raw_connect(peer, mine, whole);
                    await(SERVER, fd, POLLIN);
                    int listens = fd;
                    fd = accept(listens, NULL, NULL);
                    close(listens);
                }
            }
            /* The peer's, its own, any, another family, and none: of the loopback's the launcher knows more. */
            memcpy(&names[0], none, whole);
            memcpy(&names[1], mine, whole);
            names[2].ss_family = (sa_family_t)family;
            memcpy(&names[3], v6 ? (void *)&closed : (void *)&closed6, v6 ? sizeof closed : sizeof closed6);
            names[4].ss_family = AF_UNIX;
            for (int name = 0; name < 5; name++) {
                for (int cut = 0; cut < 4; cut++) {
                    socklen_t len = (socklen_t[]){ whole, 1, 2, 129 }[cut];
                    /* After a refusal the kernel's has no port any more, and may be bound. */
                    if (state != 2)
                        told(bind(fd, (void *)&names[name], len), "%s: bind to %d of %d", STATES[state], name, len);
                    told(connect(fd, (void *)&names[name], len), "connect");
                    if (state == 2 && !name && !cut) {
                        /* Told: it is being connected again, and refused. */
                        connect(fd, none, whole);
                        await(SERVER, fd, 0);
                    }
                }
                if (state == 2)
                    break;
            }
            told(listen(fd, 5), "listen");
            told(shutdown(fd, 7), "shutdown in no way");
            hang_up(fd, peer);
        }
    }
    raw_close(there);
}

/* As many as the backlog and one wait for accept. */
static void backlogs(void)
{
    for (int backlog = 0; backlog < 3; backlog++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), peers[5], count = 0;
        struct sockaddr_in own = at(SERVER, 3480 + backlog);
        told(bind(fd, SA(own)), "bind");
        told(listen(fd, backlog), "listen with %d", backlog);
        bits(fd);
        for (int i = 0; i < 5; i++) {
            peers[i] = (int)raw_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
            raw_connect(peers[i], SA(own));
            struct pollfd row = { .fd = peers[i], .events = POLLOUT };
            told(raw_poll(&row, 1, i > backlog ? 200 : 5000), "connected");
        }
        int accepted;
        while ((accepted = accept(fd, NULL, NULL)) >= 0)
            close(accepted), count++;
        told(count, "accepted");
        for (int i = 0; i < 5; i++)
            raw_close(peers[i]);
        close(fd);
    }
}

static void apart(void)
{
    int there = peers_listener(3238);
    for (size_t state = 0; state < sizeof APART / sizeof *APART; state++)
        for (int round = 0; round < 3; round++)
            apart_from(there, (int)state, round);
    orders(there);
    backlogs();
    raw_close(there);
}
