/* What getaddrinfo gives to a server, and sockets that serve IPv4 and IPv6. */
#include <netdb.h>

static void names(void)
{
    struct addrinfo wanted = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM }, *all;
    int on = 1, off = 0, count = 0;
    char host[64], service[16], text[16];
    told(getaddrinfo(NULL, "3100", &wanted, &all), "getaddrinfo, passive");
    for (struct addrinfo *one = all; one; one = one->ai_next, count++) {
        int fd = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
        told(fd < 0 ? -1 : 0, "socket %d", count);
        told(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "SO_REUSEADDR");
        if (one->ai_family == AF_INET6)
            told(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), "IPV6_V6ONLY");
        told(bind(fd, one->ai_addr, one->ai_addrlen), "bind %d", count);
        told(listen(fd, 5), "listen %d", count);
        ready(SERVER, fd, 0);
        struct pollfd row = { .fd = fd, .events = POLLIN };
        poll(&row, 1, 10);
        int client = (int)raw_socket(one->ai_family, SOCK_STREAM, 0);
        struct sockaddr_in v4 = at(SERVER, 3100);
        struct sockaddr_in6 v6 = at6(SERVER, 3100);
        told(one->ai_family == AF_INET ? raw_connect(client, SA(v4)) : raw_connect(client, SA(v6)), "connect");
        struct sockaddr_storage peer;
        socklen_t len = sizeof peer;
        int server = accept(fd, (struct sockaddr *)&peer, &len);
        told(len, "the peer's name has so many bytes");
        told(getnameinfo((struct sockaddr *)&peer, len, host, sizeof host, service, sizeof service,
                         NI_NUMERICHOST | NI_NUMERICSERV), "getnameinfo");
        told(strcmp(host, one->ai_family == AF_INET ? ADDRESS[CLIENT] : ADDRESS6[CLIENT]), "is the peer");
        told(send(server, "hi", 2, 0), "send");
        told(drain(client, text, 2), "arrives");
        hang_up(server, client);
        close(fd);
    }
    told(count, "addresses");
    freeaddrinfo(all);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    told(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), "IPV6_V6ONLY off");
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(3101) };
    told(bind(fd, SA(any)), "bind to all of IPv6 and IPv4");
    told(listen(fd, 5), "listen");
    int second = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(3101) };
    setsockopt(second, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    told(bind(second, SA(any4)), "IPv4's part is taken");
    close(second);
    struct pollfd row = { .fd = fd, .events = POLLIN };
    poll(&row, 1, 10);
    for (int six = 0; six < 2; six++) {
        int client = (int)raw_socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in v4 = at(SERVER, 3101);
        struct sockaddr_in6 v6 = at6(SERVER, 3101), peer, own;
        told(six ? raw_connect(client, SA(v6)) : raw_connect(client, SA(v4)), "connect of IPv%d", six ? 6 : 4);
        socklen_t len = sizeof peer;
        int server = accept(fd, (struct sockaddr *)&peer, &len);
        told(IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr), "the peer is mapped");
        told(getsockname(server, (struct sockaddr *)&own, &len), "getsockname");
        told(IN6_IS_ADDR_V4MAPPED(&own.sin6_addr), "our end is mapped");
        told(ntohs(own.sin6_port), "its port");
        told(send(server, "hi", 2, 0), "send");
        told(drain(client, text, 2), "arrives");
        hang_up(server, client);
    }
    close(fd);
    /* To oneself, over the loopback. */
    wanted.ai_flags = 0;
    fd = listener(3102);
    fcntl(fd, F_SETFL, 0);
    told(getaddrinfo("127.0.0.1", "3102", &wanted, &all), "getaddrinfo of the loopback");
    int client = socket(all->ai_family, SOCK_STREAM, 0);
    told(connect(client, all->ai_addr, all->ai_addrlen) < 0 ? -1 : 0, "where an address of the link listens");
    close(client);
    freeaddrinfo(all);
    close(fd);
}
