/* Calls at the margins of what they take: flags, lengths of 0, short options, pointers that lead nowhere. */
#include <sys/select.h>
#include <sys/sendfile.h>

static void margin_flags(void)
{
    static const int flags[] = { MSG_CTRUNC, MSG_PROXY, MSG_FIN, MSG_SYN, MSG_RST, MSG_TRUNC, MSG_WAITFORONE };
    int server, client;
    char back[64];
    blocking_pair(3160, &server, &client);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        told(send(server, "abc", 3, flags[i]), "send with %#x", flags[i]);
        told(drain(client, back, 3), "the peer has");
        arrive(client, server, "abc");
        told(recv(server, back, 3, flags[i] | MSG_DONTWAIT), "recv with %#x", flags[i]);
    }
    hang_up(server, client);
}

static void margin_options(void)
{
    int server, client;
    blocking_pair(3161, &server, &client);
    for (socklen_t len = 0; len < 5; len++) {
        unsigned char value[8] = { 1, 0, 0, 0, 9, 9, 9, 9 };
        socklen_t room = len;
        told(setsockopt(server, IPPROTO_IP, IP_RECVTOS, value, len), "IP_RECVTOS of %u bytes", len);
        memset(value, 9, sizeof value);
        told(getsockopt(server, IPPROTO_IP, IP_RECVTOS, value, &room), "its value in %u bytes", len);
        told(room, "bytes of it");
        told(value[0] << 8 | value[1], "it");
        room = len;
        told(getsockopt(server, IPPROTO_IPV6, IPV6_RECVPKTINFO, value, &room), "IPV6_RECVPKTINFO of IPv4");
        told(getsockopt(server, IPPROTO_IPV6, IPV6_UNICAST_HOPS, value, &room), "IPV6_UNICAST_HOPS of IPv4");
        told(getsockopt(server, IPPROTO_IPV6, 9999, value, &room), "no option of IPv6");
    }
    hang_up(server, client);
}

static void margin_moves(void)
{
    int server, client, file = memfd_create("margins", 0);
    char back[8];
    blocking_pair(3162, &server, &client);
    write(file, "abcd", 4);
    off_t at = 0;
    fcntl(server, F_SETFL, O_APPEND);
    told(sendfile(server, file, &at, 4), "sendfile to a socket with O_APPEND");
    told(sendfile(server, file, &at, 0), "of nothing");
    fcntl(server, F_SETFL, 0);
    told(sendfile(server, file, &at, 4), "without");
    told(drain(client, back, 4), "the peer has");
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    listen(listener, 1);
    fcntl(listener, F_SETFL, O_APPEND);
    at = 0;
    told(sendfile(listener, file, &at, 4), "sendfile to a listener with O_APPEND");
    close(listener);
    close(file);
    hang_up(server, client);
}

static void margin_select(void)
{
    int fresh = socket(AF_INET, SOCK_STREAM, 0), server, client;
    blocking_pair(3163, &server, &client);
    raw_shutdown(client, SHUT_WR);
    ready(SERVER, server, POLLRDHUP);
    shutdown(server, SHUT_WR);
    const int fds[] = { fresh, server };
    for (int i = 0; i < 2; i++) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fds[i], &set);
        struct timeval limit = { 0, 30000 };
        long begun = ms();
        told(select(fds[i] + 1, NULL, NULL, &set, &limit), "select for exceptions alone");
        told(ms() - begun >= 25, "waits");
        told(FD_ISSET(fds[i], &set), "and clears the set");
    }
    close(fresh);
    hang_up(server, client);
    /* A pipe without a reader has an error, which is no exception. */
    int ends[2], ep = epoll_create1(0);
    fd_set set;
    pipe(ends);
    close(ends[0]);
    FD_ZERO(&set);
    FD_SET(ends[1], &set);
    FD_SET(ep, &set);
    struct timeval limit = { 0, 30000 };
    long begun = ms();
    told(select((ends[1] > ep ? ends[1] : ep) + 1, NULL, NULL, &set, &limit), "select for exceptions of a pipe");
    told(ms() - begun >= 25, "waits");
    told(FD_ISSET(ends[1], &set), "and clears the set");
    close(ends[1]);
    close(ep);
}

/* What is there is all that will ever be. */
static void margin_peek(void)
{
    int server, client;
    char text[8];
    struct timeval limit = { 3, 0 };
    blocking_pair(3163, &server, &client);
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    arrive(client, server, "abc");
    shutdown(server, SHUT_RD);
    long begun = ms();
    told(recv(server, text, 8, MSG_PEEK | MSG_WAITALL), "MSG_PEEK and MSG_WAITALL after shutdown");
    told(ms() - begun < 1500, "at once");
    hang_up(server, client);
}

static void margin_nothing(void)
{
    int server, client;
    char back[8];
    struct linger abort_it = { 1, 0 };
    struct iovec none = { back, 0 };
    struct timeval limit = { 0, 30000 };
    blocking_pair(3164, &server, &client);
    told(recv(server, back, 0, MSG_DONTWAIT), "recv of length 0 of nothing");
    told(recv(server, back, 0, MSG_DONTWAIT | MSG_PEEK), "with MSG_PEEK");
    told(read(server, back, 0), "read of length 0");
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    told(recv(server, back, 0, 0), "recv of length 0 that waits");
    arrive(client, server, "abc");
    told(recv(server, back, 0, MSG_PEEK), "MSG_PEEK of length 0 of something");
    told(recv(server, back, 0, MSG_TRUNC), "MSG_TRUNC");
    told(recv(server, back, 8, 0), "what is there");
    raw_setsockopt(client, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
    raw_close(client);
    ready(SERVER, server, POLLERR);
    told(read(server, back, 0), "read of length 0 after a reset");
    told(readv(server, &none, 1), "readv");
    told(writev(server, &none, 1), "writev");
    told(recv(server, back, 8, 0), "recv");
    close(server);
}

static void *shuts(void *server)
{
    usleep(30000);
    shutdown(*(int *)server, SHUT_WR);
    return NULL;
}

/* Messages of nothing, and the own end of a connection while a read of nothing sleeps. */
static void margin_messages(void)
{
    int server, client;
    char back[8];
    struct linger abort_it = { 1, 0 };
    struct iovec none = { back, 0 }, some = { back, 8 };
    struct msghdr nothing = { 0 }, empty = { .msg_iov = &none, .msg_iovlen = 1 };
    struct msghdr message = { .msg_iov = &some, .msg_iovlen = 1 };
    struct timeval limit = { 0, 30000 };
    pthread_t thread;
    blocking_pair(3166, &server, &client);
    told(recvmsg(server, &nothing, MSG_DONTWAIT), "recvmsg of nothing");
    told(recvmsg(server, &empty, MSG_DONTWAIT), "recvmsg of length 0");
    told(recvmsg(server, &empty, MSG_DONTWAIT | MSG_TRUNC), "with MSG_TRUNC");
    told(recv(server, back, 8, MSG_OOB | MSG_ERRQUEUE), "MSG_OOB and MSG_ERRQUEUE");
    told(recv(server, back, 8, MSG_OOB), "MSG_OOB");
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    told(recvmsg(server, &nothing, 0), "recvmsg of nothing that waits");
    told(recvmsg(server, &empty, 0), "recvmsg of length 0 that waits");
    limit = (struct timeval){ 0, 0 };
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    arrive(client, server, "abc");
    told(recvmsg(server, &nothing, 0), "recvmsg of nothing while something is there");
    told(recvmsg(server, &message, MSG_CMSG_CLOEXEC), "MSG_CMSG_CLOEXEC");
    told(message.msg_flags == MSG_CMSG_CLOEXEC, "it is told");
    told(setsockopt(server, IPPROTO_IP, IP_FREEBIND, back, 0), "IP_FREEBIND of no byte");
    pthread_create(&thread, NULL, shuts, &server);
    told(recv(server, back, 0, 0), "the own end ends a recv of length 0");
    pthread_join(thread, NULL);
    hang_up(server, client);
    for (int how = 0; how < 3; how++) {
        blocking_pair(3167 + how, &server, &client);
        raw_setsockopt(client, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
        raw_close(client);
        if (how == 0)
            told(recvmsg(server, &nothing, MSG_DONTWAIT), "recvmsg of nothing after a reset");
        else if (how == 1)
            told(sendmsg(server, &nothing, MSG_NOSIGNAL), "sendmsg of nothing");
        else
            told(send(server, back, 0, MSG_NOSIGNAL), "send of nothing");
        told(send(server, back, 1, MSG_NOSIGNAL), "send then");
        close(server);
    }
}

static const char *const READERS[] = {
    "new", "connecting", "idle", "data", "FIN", "data and FIN", "reset", "data and reset", "FIN and reset", "SHUT_RD",
    "SHUT_WR", "SHUT_RD and reset",
};

/* A socket in this state. */
static int reader(const char *state, int port, int *client)
{
    struct linger abort_it = { 1, 0 };
    struct sockaddr_in nobody = at(CLIENT, 9);
    int server = -1;
    *client = -1;
    if (!strcmp(state, "new") || !strcmp(state, "connecting")) {
        server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        inet_pton(AF_INET, "10.77.9.9", &nobody.sin_addr);
        if (!strcmp(state, "connecting"))
            connect(server, SA(nobody));
        return server;
    }
    blocking_pair(port, &server, client);
    if (strstr(state, "data"))
        arrive(*client, server, "abc");
    if (strstr(state, "FIN")) {
        raw_shutdown(*client, SHUT_WR);
        ready(SERVER, server, POLLRDHUP);
    }
    if (strstr(state, "SHUT"))
        shutdown(server, strstr(state, "SHUT_RD") ? SHUT_RD : SHUT_WR);
    if (strstr(state, "reset")) {
        raw_setsockopt(*client, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
        raw_close(*client);
        *client = -1;
        await(SERVER, server, 0);
    }
    return server;
}

/* Reads of nothing in every state, and what is left behind them. */
static void margin_reads(void)
{
    struct timeval limit = { 0, 1000 };
    int port = 3600;
    for (size_t state = 0; state < sizeof READERS / sizeof *READERS; state++)
        for (int way = 0; way < 8; way++)
            for (int waits = 0; waits < 2; waits++) {
                char back[8];
                int client, fd = reader(READERS[state], port++, &client), error = -1, flags = waits ? 0 : MSG_DONTWAIT;
                struct iovec none = { back, 0 };
                struct msghdr nothing = { 0 }, empty = { .msg_iov = &none, .msg_iovlen = 1 };
                struct mmsghdr many[2] = { { .msg_hdr = nothing }, { .msg_hdr = empty } };
                socklen_t len = sizeof error;
                long n = -1;
                setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
                fcntl(fd, F_SETFL, waits ? 0 : O_NONBLOCK);
                switch (way) {
                case 0: n = read(fd, back, 0); break;
                case 1: n = readv(fd, &none, 1); break;
                case 2: n = readv(fd, &none, 0); break;
                case 3: n = recv(fd, back, 0, flags); break;
                case 4: n = recvfrom(fd, back, 0, flags | MSG_PEEK, NULL, NULL); break;
                case 5: n = recvmsg(fd, &nothing, flags); break;
                case 6: n = recvmsg(fd, &empty, flags | MSG_WAITALL); break;
                default: n = recvmmsg(fd, many, 2, flags | MSG_WAITFORONE, NULL);
                }
                told(n, "%s: read of nothing %d, %s", READERS[state], way, waits ? "waiting" : "not waiting");
                if (way & 1) {
                    told(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR");
                    told(error, "the error");
                }
                for (int i = 0; i < 3; i++)
                    told(recv(fd, back, 8, MSG_DONTWAIT | (i == 1 ? MSG_WAITALL : 0)), "recv then");
                hang_up(fd, client);
            }
}

/* A call that has moved a part when the connection is reset returns it, and the next call is told. */
static void *reads_all(void *server)
{
    char back[8];
    return (void *)recv(*(int *)server, back, sizeof back, MSG_WAITALL);
}

static void *sends_all(void *server)
{
    static char much[1 << 22];
    long sent = send(*(int *)server, much, sizeof much, MSG_NOSIGNAL);
    return (void *)(long)(sent > 0);
}

static void margin_parts(void)
{
    struct linger abort_it = { 1, 0 };
    static char much[1 << 16];
    for (int way = 0; way < 4; way++) {
        int server, client, waiting = 1;
        char back[8];
        void *got;
        pthread_t thread;
        blocking_pair(3820 + way, &server, &client);
        if (way > 1) {
            int size = 1 << 16;
            setsockopt(server, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
            raw_setsockopt(client, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        }
        pthread_create(&thread, NULL, way < 2 ? reads_all : sends_all, &server);
        if (way < 2) {
            raw_send(client, "abc", 3, 0);
            while (waiting && ioctl(server, FIONREAD, &waiting) == 0)
                usleep(1000);
        } else {
            drain(client, much, sizeof much);
        }
        usleep(20000);
        raw_setsockopt(client, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
        raw_close(client);
        pthread_join(thread, &got);
        told((long)got, "a part, %d", way);
        told(way & 1 ? send(server, back, 1, MSG_NOSIGNAL) : recv(server, back, 8, 0), "the next call");
        told(way & 1 ? send(server, back, 1, MSG_NOSIGNAL) : recv(server, back, 8, 0), "and the one behind it");
        close(server);
    }
}

/* Unread data makes close a reset: SO_LINGER has nothing to wait for. */
static void margin_linger(void)
{
    int server, client;
    char back[8];
    struct linger linger = { 1, 60 };
    blocking_pair(3824, &server, &client);
    setsockopt(server, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    arrive(client, server, "abc");
    long begun = ms();
    told(close(server), "close with SO_LINGER and unread data");
    told(ms() - begun < 20000, "does not wait");
    await(CLIENT, client, 0);
    told(raw_recv(client, back, 8, 0), "the peer is told");
    raw_close(client);
}

static void margin_accept(void)
{
    int first = listener(3165);
    struct sockaddr_in peer;
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in to = at(SERVER, 3165);
        int client = (int)raw_socket(AF_INET, SOCK_STREAM, 0);
        raw_connect(client, (struct sockaddr *)&to, sizeof to);
        struct pollfd row = { .fd = first, .events = POLLIN };
        poll(&row, 1, 3000);
        told(accept(first, (struct sockaddr *)&peer, NULL), "accept with an address and no length");
        fcntl(first, F_SETFL, O_NONBLOCK);
        told(accept(first, NULL, NULL), "the connection is gone");
        struct pollfd end = { .fd = client, .events = POLLIN };
        told(raw_poll(&end, 1, 3000), "the peer is told");
        raw_close(client);
    }
    close(first);
}

static void margins(void)
{
    margin_nothing();
    margin_messages();
    margin_reads();
    margin_parts();
    margin_linger();
    margin_accept();
    margin_flags();
    margin_options();
    margin_moves();
    margin_select();
    margin_peek();
}
