/* IPv6 sockets that speak IPv4: addresses of the form ::ffff:a.b.c.d (RFC 4291, 2.5.5.2). */

static struct sockaddr_in6 mapped(const char *v4, int port)
{
    struct sockaddr_in6 addr = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    char text[64];
    snprintf(text, sizeof text, "::ffff:%s", v4);
    inet_pton(AF_INET6, text, &addr.sin6_addr);
    return addr;
}

/* A name as text, with its port if that is `port`. */
static void name_told(long result, struct sockaddr_in6 *name, socklen_t len, int port, const char *what)
{
    char text[INET6_ADDRSTRLEN] = "?";
    inet_ntop(AF_INET6, &name->sin6_addr, text, sizeof text);
    told(result, "%s: %u bytes, family %d, %s, the port %d", what, len, name->sin6_family, text,
         port ? ntohs(name->sin6_port) == port : name->sin6_port != 0);
}

static void names_told(int fd, int own, int peer, const char *what)
{
    struct sockaddr_in6 name = { 0 };
    socklen_t len = sizeof name;
    char text[64];
    snprintf(text, sizeof text, "getsockname %s", what);
    name_told(getsockname(fd, (struct sockaddr *)&name, &len), &name, len, own, text);
    memset(&name, 0, sizeof name);
    len = sizeof name;
    snprintf(text, sizeof text, "getpeername %s", what);
    name_told(getpeername(fd, (struct sockaddr *)&name, &len), &name, len, peer, text);
}

static int peers_listener(int port)
{
    int fd = new_socket(CLIENT, AF_INET), on = 1;
    struct sockaddr_in addr = at(CLIENT, port);
    raw_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (raw_bind(fd, &addr, sizeof addr) < 0 || raw_listen(fd, 16) < 0) {
        perror("the peer's listener");
        exit(1);
    }
    return fd;
}

static void to_mapped(void)
{
    int there = peers_listener(3200);
    for (int way = 0; way < 4; way++) {
        struct sockaddr_in6 to = mapped(ADDRESS[CLIENT], 3200),
                            own = mapped(way == 1 ? "0.0.0.0" : ADDRESS[SERVER], 3206 + way);
        int fd = socket(AF_INET6, SOCK_STREAM, 0);
        int on = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (way == 1 || way == 2)
            told(bind(fd, SA(own)), "bind to a mapped address, %d", way);
        names_told(fd, way == 1 || way == 2 ? 3206 + way : 0, 0, "before connect");
        told(connect(fd, (struct sockaddr *)&to, way == 3 ? 24 : sizeof to), "connect to a mapped address, %d", way);
        names_told(fd, way == 1 || way == 2 ? 3206 + way : 0, 3200, "of the connection");
        await(CLIENT, there, POLLIN);
        int peer = (int)raw_accept(there, NULL, NULL);
        char text[8] = "";
        told(send(fd, "hello", 5, 0), "send");
        told(drain(peer, text, 5), "what came there");
        hang_up(fd, peer);
    }
    raw_close(there);
}

static void not_to_mapped(void)
{
    struct sockaddr_in6 to = mapped(ADDRESS[CLIENT], 3202), own6 = at6(SERVER, 0), to6 = at6(CLIENT, 3202),
                        own = mapped(ADDRESS[SERVER], 0);
    struct sockaddr_in to4 = at(CLIENT, 3202);
    int fd = socket(AF_INET6, SOCK_STREAM, 0), on = 1;
    told(connect(fd, SA(to)), "connect where nothing listens");
    close(fd);
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    told(connect(fd, SA(to4)), "connect of an IPv6 socket to an IPv4 address");
    told(connect(fd, (struct sockaddr *)&to, 23), "connect, too short");
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    told(connect(fd, SA(to)), "connect to a mapped address with IPV6_V6ONLY");
    told(bind(fd, SA(own)), "bind to a mapped address with IPV6_V6ONLY");
    close(fd);
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    told(bind(fd, SA(own6)), "bind to an IPv6 address");
    told(connect(fd, SA(to)), "connect to a mapped address from it");
    close(fd);
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    told(bind(fd, SA(own)), "bind to a mapped address");
    told(connect(fd, SA(to6)), "connect to an IPv6 address from it");
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    told(connect(fd, SA(to)), "connect of an IPv4 socket to a mapped address");
    close(fd);
}

static void from_mapped(void)
{
    for (int way = 0; way < 3; way++) {
        struct sockaddr_in6 own = mapped(way ? ADDRESS[SERVER] : "0.0.0.0", 3203 + way), name = { 0 };
        struct sockaddr_in to = at(SERVER, 3203 + way);
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, off = 0;
        socklen_t len = sizeof name;
        if (way == 2)
            own.sin6_addr = in6addr_any;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        told(bind(fd, SA(own)), "bind of a listener, %d", way);
        told(listen(fd, 4), "listen");
        names_told(fd, 3203 + way, 0, "of a listener");
        struct pollfd row = { .fd = fd, .events = POLLIN };
        poll(&row, 1, 10);
        int client = new_socket(CLIENT, AF_INET);
        raw_connect(client, &to, sizeof to);
        await(SERVER, fd, POLLIN);
        int conn = accept(fd, (struct sockaddr *)&name, &len);
        name_told(conn < 0 ? -1 : 0, &name, len, 0, "accept");
        names_told(conn, 3203 + way, 0, "of the accepted");
        hang_up(conn, client);
        close(fd);
    }
}

static void mapped_addresses(void)
{
    to_mapped();
    not_to_mapped();
    from_mapped();
}
