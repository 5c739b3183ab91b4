/* Rows of the boundary's table that are no plain options: part of boundary.c. */

static const char HELLO[] = "hello";

/* A pair of which the server's end has been accepted. */
static void two(int *server, int *client)
{
    pair(++port, server, client);
}

static const struct option *option_at(int level, int number, int room)
{
    static struct option option;
    option = (struct option){ .name = "", .level = level, .number = number, .room = room, .shows = 1 };
    return &option;
}

static void filter(int number)
{
    struct sock_filter all[] = { { BPF_RET | BPF_K, 0, 0, 0xffffffff } };
    struct sock_fprog program = { 1, all }, none = { 0, all };
    int server, client, fd = new_socket(SERVER, AF_INET);
    told(setsockopt(fd, SOL_SOCKET, number, &program, sizeof program), "new, set a program");
    told(setsockopt(fd, SOL_SOCKET, number, &none, sizeof none), "new, set an empty program");
    close(fd);
    two(&server, &client);
    told(setsockopt(server, SOL_SOCKET, number, &program, sizeof program), "accepted, set a program");
    told(setsockopt(server, SOL_SOCKET, number, &none, sizeof none), "accepted, set an empty program");
    hang_up(server, client);
}

static void attach_filter(void) { filter(SO_ATTACH_FILTER); }
static void attach_reuseport(void) { filter(SO_ATTACH_REUSEPORT_CBPF); }

static void md5(int number)
{
    struct { struct sockaddr_storage peer; unsigned char flags, prefix; unsigned short len; int index; char key[80]; } key;
    int server, client, fd = new_socket(SERVER, AF_INET);
    memset(&key, 0, sizeof key);
    ((struct sockaddr_in *)&key.peer)->sin_family = AF_INET;
    inet_pton(AF_INET, "10.77.200.1", &((struct sockaddr_in *)&key.peer)->sin_addr);
    key.len = 6, key.flags = number == TCP_MD5SIG_EXT, key.prefix = number == TCP_MD5SIG_EXT ? 24 : 0;
    memcpy(key.key, "secret", 6);
    told(setsockopt(fd, IPPROTO_TCP, number, &key, sizeof key), "new, set a key");
    told(setsockopt(fd, IPPROTO_TCP, number, &key, 20), "new, set too short");
    get(fd, option_at(IPPROTO_TCP, number, 216), "new");
    close(fd);
    two(&server, &client);
    told(setsockopt(server, IPPROTO_TCP, number, &key, sizeof key), "accepted, set a key");
    told(setsockopt(server, IPPROTO_TCP, number, &key, 20), "accepted, set too short");
    get(server, option_at(IPPROTO_TCP, number, 216), "accepted");
    hang_up(server, client);
}

static void md5sig(void) { md5(TCP_MD5SIG); }
static void md5sig_ext(void) { md5(TCP_MD5SIG_EXT); }

static void ao(int number)
{
    char nothing[288];
    int server, client, fd = new_socket(SERVER, AF_INET);
    memset(nothing, 0, sizeof nothing);
    told(setsockopt(fd, IPPROTO_TCP, number, nothing, sizeof nothing), "new, set zeros");
    told(setsockopt(fd, IPPROTO_TCP, number, nothing, 4), "new, set too short");
    close(fd);
    two(&server, &client);
    told(setsockopt(server, IPPROTO_TCP, number, nothing, sizeof nothing), "accepted, set zeros");
    told(setsockopt(server, IPPROTO_TCP, number, nothing, 4), "accepted, set too short");
    hang_up(server, client);
}

static void ao_add(void) { ao(38); }
static void ao_del(void) { ao(39); }

static void make_sockets(void)
{
    static const struct { int domain, type, protocol; } rows[] = {
        { AF_INET, SOCK_STREAM, 0 }, { AF_INET6, SOCK_STREAM, IPPROTO_TCP }, { AF_INET, SOCK_DGRAM, 0 },
        { AF_UNIX, SOCK_STREAM, 0 }, { AF_INET, SOCK_RAW, IPPROTO_ICMP }, { AF_INET, SOCK_STREAM, IPPROTO_UDP },
        { AF_INET, 77, 0 }, { 77, SOCK_STREAM, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = socket(rows[i].domain, rows[i].type, rows[i].protocol);
        told(fd < 0 ? fd : 0, "socket(%d, %d, %d)", rows[i].domain, rows[i].type, rows[i].protocol);
        if (fd >= 0)
            close(fd);
    }
}

static void nonblock(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    told(fcntl(fd, F_GETFL), "F_GETFL");
    told(fcntl(fd, F_GETFD), "F_GETFD");
    close(fd);
}

static void cloexec(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    told(fcntl(fd, F_GETFD), "F_GETFD");
    close(fd);
}

static void make_pair(void)
{
    int fds[2];
    told(socketpair(AF_INET, SOCK_STREAM, 0, fds), "socketpair of AF_INET");
    told(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair of AF_UNIX");
    close(fds[0]);
    close(fds[1]);
}

static void binding(void)
{
    struct sockaddr_in addr = at(SERVER, ++port), far = at(CLIENT, port);
    int fd = new_socket(SERVER, AF_INET), other = new_socket(SERVER, AF_INET);
    told(bind(fd, SA(far)), "to an address of another machine");
    told(bind(fd, (struct sockaddr *)&addr, 4), "too short");
    told(bind(fd, SA(addr)), "to the link's address");
    told(bind(fd, SA(addr)), "again");
    told(bind(other, SA(addr)), "to what is taken");
    close(fd);
    close(other);
}

static void listening(void)
{
    struct sockaddr_in addr = at(SERVER, port + 1);
    int fd = bound(AF_INET), server, client;
    told(listen(fd, 5), "of a bound socket");
    told(listen(fd, -1), "again, negative");
    told(connect(fd, SA(addr)), "connect of a listener");
    close(fd);
    fd = new_socket(SERVER, AF_INET);
    told(listen(fd, 5), "of an unbound socket");
    close(fd);
    two(&server, &client);
    told(listen(server, 5), "of a connection");
    hang_up(server, client);
}

static void accepting(void)
{
    int fd = bound(AF_INET), client, conn;
    struct sockaddr_in peer = { 0 };
    socklen_t len = sizeof peer;
    told(accept(fd, NULL, NULL), "of one that does not listen");
    listen(fd, 4);
    told(accept(fd, NULL, NULL), " of no client");
    conn = accepted(fd, AF_INET, &client);
    told(conn < 0 ? -1 : 0, "of a connection");
    told(accept(conn, NULL, NULL), "of what is no listener");
    told(getpeername(conn, (struct sockaddr *)&peer, &len), "its peer");
    told(peer.sin_family == AF_INET && len == sizeof peer, "its family and length");
    hang_up(conn, client);
    close(fd);
}

static void accepting4(void)
{
    int fd = bound(AF_INET), client;
    listen(fd, 4);
    told(accept4(fd, NULL, NULL, 0x7), "with flags that there are not");
    struct sockaddr_in addr = at(SERVER, port);
    client = (int)raw_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    raw_connect(client, SA(addr));
    struct pollfd row = { .fd = fd, .events = POLLIN };
    told(poll(&row, 1, 2000), "poll");
    int conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    told(conn < 0 ? -1 : 0, "with both flags");
    told(fcntl(conn, F_GETFL), "F_GETFL");
    told(fcntl(conn, F_GETFD), "F_GETFD");
    hang_up(conn, client);
    close(fd);
}

/* Connects to the last port from this machine, by the loopback's address and by the link's. */
static void from_itself(const char *when)
{
    struct sockaddr_in addr = at(SERVER, port);
    for (int loopback = 0; loopback < 2; loopback++) {
        if (loopback)
            addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        told(connect(fd, SA(addr)), "%s, connect to the %s's address", when, loopback ? "loopback" : "link");
        close(fd);
    }
}

/* A listener that is bound to the link's device, before it listens or after, at all addresses. */
static void on_a_device(void)
{
    for (int later = 0; later < 2; later++) {
        const char *when = later ? "bound after listen" : "bound before";
        struct sockaddr_in all = { .sin_family = AF_INET, .sin_port = htons((uint16_t)++port) }, addr = at(SERVER, port);
        int fd = new_socket(SERVER, AF_INET), on = 1, accepts = -1, conn, client;
        char device[IFNAMSIZ] = "";
        socklen_t len = sizeof accepts, name_len = sizeof device;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (!later)
            told(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "ms0", 4), "%s, SO_BINDTODEVICE", when);
        told(bind(fd, SA(all)), "%s, bind", when);
        told(listen(fd, 4), "%s, listen", when);
        if (later) {
            from_itself("before it is bound");
            while ((conn = accept(fd, NULL, NULL)) >= 0)
                close(conn);
            told(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "ms0", 4), "%s, SO_BINDTODEVICE", when);
        }
        from_itself(when);
        /* The last ACK of a handshake may be on its way. */
        struct pollfd row = { .fd = fd, .events = POLLIN };
        poll(&row, 1, 2000);
        int waits = 0;
        while ((conn = accept(fd, NULL, NULL)) >= 0) {
            waits++;
            close(conn);
        }
        told(waits, "%s, accepted", when);
        told(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len), "%s, SO_ACCEPTCONN", when);
        told(accepts, "%s, it listens", when);
        told(getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, &name_len), "%s, SO_BINDTODEVICE is told", when);
        told(strcmp(device, "ms0"), "%s, it is the link's", when);
        conn = accepted(fd, AF_INET, &client);
        told(conn < 0 ? -1 : 0, "%s, accept from the link", when);
        hang_up(conn, client);
        int other = new_socket(SERVER, AF_INET);
        setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        told(setsockopt(other, SOL_SOCKET, SO_BINDTODEVICE, "ms0", 4), "%s, another on the device", when);
        told(bind(other, SA(addr)), "%s, bind of another", when);
        close(other);
        if (!later) {
            told(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "", 1), "%s, SO_BINDTODEVICE of none", when);
            from_itself("bound no more");
        }
        close(fd);
    }
}

static void connecting(void)
{
    struct sockaddr_in nobody = at(CLIENT, 2997);
    int fd = new_socket(SERVER, AF_INET), error = -1, peer;
    socklen_t len = sizeof error;
    told(connect(fd, SA(nobody)), "to no listener");
    told(connect(fd, (struct sockaddr *)&nobody, 4), "too short");
    told(ready(SERVER, fd, POLLOUT), "poll");
    told(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR");
    told(error, "says");
    close(fd);
    fd = new_socket(SERVER, AF_INET);
    peer = connected(fd, AF_INET);
    told(connect(fd, SA(nobody)), "of a connection");
    hang_up(fd, peer);
}

static void unconnecting(void)
{
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    int fd = new_socket(SERVER, AF_INET), peer;
    told(connect(fd, &none, sizeof none), "of a new socket");
    peer = connected(fd, AF_INET);
    told(connect(fd, &none, sizeof none), "of a connection");
    hang_up(fd, peer);
}

static void naming(void)
{
    int server, client;
    struct sockaddr_in here = { 0 }, there = { 0 };
    socklen_t len = sizeof here;
    two(&server, &client);
    told(getsockname(server, (struct sockaddr *)&here, &len), "of a connection");
    told(ntohs(here.sin_port) - port, "port");
    len = sizeof there;
    raw_getpeername(client, &there, &len);
    told(memcmp(&here.sin_addr, &there.sin_addr, 4), "address");
    len = 4;
    told(getsockname(server, (struct sockaddr *)&here, &len), "into four bytes");
    told(len, "length");
    hang_up(server, client);
}

static void peer_naming(void)
{
    int server, client, fd = new_socket(SERVER, AF_INET);
    struct sockaddr_in there = { 0 };
    socklen_t len = sizeof there;
    told(getpeername(fd, (struct sockaddr *)&there, &len), "of a new socket");
    close(fd);
    two(&server, &client);
    told(getpeername(server, (struct sockaddr *)&there, &len), "of a connection");
    told(len, "length");
    raw_close(client);
    ready(SERVER, server, POLLIN);
    told(getpeername(server, (struct sockaddr *)&there, &len), "after the peer's end");
    hang_up(server, -1);
}

static void shutting(void)
{
    int server, client;
    char byte;
    two(&server, &client);
    told(shutdown(server, 3), "in no way");
    told(shutdown(server, SHUT_WR), "SHUT_WR");
    told(send(server, "x", 1, MSG_NOSIGNAL), "send after it");
    told(ready(CLIENT, client, POLLIN), "the peer sees the end");
    told(raw_read(client, &byte, 1), "the peer reads");
    told(shutdown(server, SHUT_RD), "SHUT_RD");
    told(read(server, &byte, 1), "read after it");
    hang_up(server, client);
}

static void reading(void)
{
    int server, client;
    char text[16];
    two(&server, &client);
    told(read(server, text, sizeof text), "of nothing yet");
    arrive(client, server, HELLO);
    told(read(server, text, 2), "of two bytes");
    told(read(server, text, sizeof text), "of the rest");
    raw_close(client);
    ready(SERVER, server, POLLIN);
    told(read(server, text, sizeof text), "at the end");
    hang_up(server, -1);
}

static void writing(void)
{
    int server, client;
    char text[16];
    two(&server, &client);
    told(write(server, HELLO, 5), "of five bytes");
    told(drain(client, text, 5), "the peer reads");
    told(write(server, HELLO, 0), "of none");
    hang_up(server, client);
}

static void vectors(void)
{
    int server, client;
    char one[2], rest[16];
    struct iovec in[2] = { { one, 2 }, { rest, 16 } }, out[2] = { { "ab", 2 }, { "cde", 3 } };
    two(&server, &client);
    told(writev(server, out, 2), "writev");
    told(drain(client, rest, 5), "the peer reads");
    arrive(client, server, HELLO);
    told(readv(server, in, 2), "readv");
    told(readv(server, in, 2000), "readv of too many");
    hang_up(server, client);
}

/* Sends five bytes with a flag; what the peer gets of them. */
static void send_flag(int flag)
{
    int server, client;
    char text[16];
    two(&server, &client);
    told(send(server, HELLO, 5, flag), "send");
    told(send(server, HELLO, 0, flag), "send of none");
    send(server, "end", 3, MSG_NOSIGNAL);
    long got = drain(client, text, 8);
    told(got, "the peer reads");
    hang_up(server, client);
}

/* Receives with a flag what has arrived, and nothing. */
static void recv_flag(int flag)
{
    int server, client;
    char text[16] = "";
    two(&server, &client);
    told(recv(server, text, 3, flag), "recv of nothing yet");
    arrive(client, server, HELLO);
    told(recv(server, text, 3, flag), "recv of three bytes");
    told(memcmp(text, HELLO, 3) == 0, "they are what was sent");
    int left = -1;
    ioctl(server, FIONREAD, &left);
    told(left, "left to read");
    hang_up(server, client);
}

#define SEND_FLAG(flag) static void send_##flag(void) { send_flag(flag | (flag == MSG_NOSIGNAL ? 0 : MSG_NOSIGNAL)); }
#define RECV_FLAG(flag) static void recv_##flag(void) { recv_flag(flag); }
#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
SEND_FLAG(MSG_OOB)
SEND_FLAG(MSG_DONTROUTE)
SEND_FLAG(MSG_DONTWAIT)
SEND_FLAG(MSG_NOSIGNAL)
SEND_FLAG(MSG_MORE)
SEND_FLAG(MSG_EOR)
SEND_FLAG(MSG_CONFIRM)
SEND_FLAG(MSG_ZEROCOPY)
SEND_FLAG(MSG_FASTOPEN)
RECV_FLAG(MSG_OOB)
RECV_FLAG(MSG_PEEK)
RECV_FLAG(MSG_DONTWAIT)
RECV_FLAG(MSG_WAITALL)
RECV_FLAG(MSG_TRUNC)
RECV_FLAG(MSG_ERRQUEUE)
RECV_FLAG(MSG_CMSG_CLOEXEC)

static void urgent(void)
{
    int server, client, mark = -1;
    char text[16] = "";
    two(&server, &client);
    raw_send(client, "ab!", 3, MSG_OOB);
    ready(SERVER, server, POLLIN);
    told(ready(SERVER, server, POLLPRI), "poll for POLLPRI");
    told(recv(server, text, 1, MSG_OOB), "recv with MSG_OOB");
    told(ioctl(server, SIOCATMARK, &mark), "SIOCATMARK");
    told(recv(server, text, 16, 0), "recv");
    hang_up(server, client);
}

/* Urgent data in line, by every way to learn of it. */
static void urgent_in_line(void)
{
    int server, client, on = 1, mark = -1, set = epoll_create1(0);
    char text[16] = "";
    struct epoll_event event = { .events = EPOLLPRI };
    struct timeval soon = { 0, 100000 };
    fd_set odd;
    two(&server, &client);
    told(setsockopt(server, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on), "SO_OOBINLINE");
    told(recv(server, text, 1, MSG_OOB), "recv with MSG_OOB before it");
    told(ioctl(server, SIOCATMARK, &mark), "SIOCATMARK before it");
    told(mark, "at the mark before it");
    raw_send(client, "ab!", 3, MSG_OOB);
    arrive(client, server, "cd");
    told(recv(server, text, 1, MSG_OOB), "recv with MSG_OOB");
    epoll_ctl(set, EPOLL_CTL_ADD, server, &event);
    told(epoll_wait(set, &event, 1, 100), "epoll_wait for EPOLLPRI");
    FD_ZERO(&odd);
    FD_SET(server, &odd);
    told(select(server + 1, NULL, NULL, &odd, &soon), "select for what is exceptional");
    told(recv(server, text, 16, 0), "recv up to the mark");
    told(ioctl(server, SIOCATMARK, &mark), "SIOCATMARK");
    told(mark, "at the mark");
    told(recv(server, text, 16, MSG_DONTWAIT), "recv behind the mark");
    close(set);
    hang_up(server, client);
}

static volatile sig_atomic_t signals;
static void count(int signal) { (void)signal; signals = signals + 1; }

static void broken_pipe(void)
{
    int server, client;
    two(&server, &client);
    signals = 0;
    signal(SIGPIPE, count);
    shutdown(server, SHUT_WR);
    told(write(server, "x", 1), "write after SHUT_WR");
    told(signals, "signals");
    told(send(server, "x", 1, MSG_NOSIGNAL), "send with MSG_NOSIGNAL");
    told(signals, "signals");
    signal(SIGPIPE, SIG_IGN);
    hang_up(server, client);
}

/* Waits for a signal that may not come. */
static void await_signal(void)
{
    for (int i = 0; i < 200 && signals == 0; i++)
        usleep(1000);
}

static void asynchronous(void)
{
    int server, client;
    two(&server, &client);
    signals = 0;
    signal(SIGIO, count);
    told(fcntl(server, F_SETOWN, getpid()), "F_SETOWN");
    told(fcntl(server, F_SETFL, O_ASYNC | O_NONBLOCK), "F_SETFL");
    told(fcntl(server, F_GETFL) & O_ASYNC, "F_GETFL");
    arrive(client, server, HELLO);
    await_signal();
    told(signals > 0, "a signal when data arrives");
    signal(SIGIO, SIG_IGN);
    hang_up(server, client);
}

/* O_ASYNC by FIOASYNC and by F_SETFL, and what is told of it. */
static void both_ways(int fd, const char *state)
{
    int on = 1, off = 0;
    told(ioctl(fd, FIOASYNC, &on), "%s, FIOASYNC 1", state);
    told(fcntl(fd, F_GETFL) & O_ASYNC, "%s, F_GETFL", state);
    told(fcntl(fd, F_SETFL, O_NONBLOCK), "%s, F_SETFL without O_ASYNC", state);
    told(fcntl(fd, F_GETFL), "%s, F_GETFL after it", state);
    told(fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC), "%s, F_SETFL with O_ASYNC", state);
    told(ioctl(fd, FIOASYNC, &off), "%s, FIOASYNC 0", state);
    told(fcntl(fd, F_GETFL), "%s, F_GETFL after both", state);
    told(ioctl(fd, FIOASYNC, NULL), "%s, FIOASYNC of nothing", state);
    told(fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC | O_APPEND), "%s, F_SETFL with O_APPEND", state);
}

static void asynchronous_both_ways(void)
{
    int server, client, fd = bound(AF_INET);
    both_ways(fd, "new");
    listen(fd, 4);
    told(fcntl(fd, F_GETFL), "listener, F_GETFL of what was set before");
    both_ways(fd, "listener");
    server = accepted(fd, AF_INET, &client);
    told(fcntl(server, F_GETFL), "accepted, F_GETFL");
    both_ways(server, "accepted");
    hang_up(server, client);
    close(fd);
    fd = new_socket(SERVER, AF_INET);
    both_ways(fd, "before connect");
    client = connected(fd, AF_INET);
    told(fcntl(fd, F_GETFL), "connected, F_GETFL of what was set before");
    both_ways(fd, "connected");
    hang_up(fd, client);
}

static void owner(void)
{
    int server, client;
    two(&server, &client);
    told(fcntl(server, F_SETOWN, getpid()), "F_SETOWN");
    told(fcntl(server, F_GETOWN) == getpid(), "F_GETOWN");
    told(fcntl(server, F_SETSIG, SIGUSR1), "F_SETSIG");
    told(fcntl(server, F_GETSIG), "F_GETSIG");
    int other, its_client;
    two(&other, &its_client);
    told(fcntl(other, F_GETOWN), "F_GETOWN of another connection");
    told(fcntl(other, F_GETSIG), "F_GETSIG of another connection");
    hang_up(other, its_client);
    hang_up(server, client);
}

static void close_on_exec(void)
{
    int server, client;
    two(&server, &client);
    told(fcntl(server, F_SETFD, FD_CLOEXEC), "F_SETFD");
    told(fcntl(server, F_GETFD), "F_GETFD");
    hang_up(server, client);
}

static void blocking(void)
{
    int server, client;
    two(&server, &client);
    told(fcntl(server, F_SETFL, 0), "F_SETFL 0");
    told(fcntl(server, F_GETFL), "F_GETFL");
    told(fcntl(server, F_SETFL, O_NONBLOCK), "F_SETFL O_NONBLOCK");
    told(fcntl(server, F_GETFL), "F_GETFL");
    hang_up(server, client);
}

/* A request on a new socket, on a listener and on a connection with five bytes to read; what it says, if that `shows`. */
static void request(unsigned long number, int shows)
{
    int server, client, n[8], fd = new_socket(SERVER, AF_INET);
    memset(n, 0, sizeof n);
    told(ioctl(fd, number, n), "new");
    close(fd);
    fd = bound(AF_INET);
    listen(fd, 4);
    told(ioctl(fd, number, n), "listener");
    close(fd);
    two(&server, &client);
    arrive(client, server, HELLO);
    memset(n, 0, sizeof n);
    told(ioctl(server, number, n), "connection");
    if (shows)
        told(n[0], "says");
    hang_up(server, client);
}

static void inq(void) { request(SIOCINQ, 1); }
static void outq(void) { request(SIOCOUTQ, 1); }
static void outqnsd(void) { request(SIOCOUTQNSD, 1); }
static void atmark(void) { request(SIOCATMARK, 1); }
static void gstamp(void) { request(0x8906, 0); }
static void gstampns(void) { request(0x8907, 0); }
static void fioasync(void) { request(FIOASYNC, 0); }
static void fionbio(void) { request(FIONBIO, 0); }
static void gpgrp(void) { request(SIOCGPGRP, 1); }
static void spgrp(void) { request(SIOCSPGRP, 1); }
static void gifconf(void) { request(SIOCGIFCONF, 0); }

static void passing(void)
{
    int server, client, ends[2];
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { (void *)HELLO, 5 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof control };
    memset(control, 0, sizeof control);
    two(&server, &client);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *rights = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
    memcpy(CMSG_DATA(rights), &server, sizeof server);
    told(sendmsg(ends[0], &message, 0), "sendmsg of a connection");
    close(ends[0]);
    close(ends[1]);
    hang_up(server, client);
}

static void many(void)
{
    int server, client;
    char one[4], other[4];
    struct iovec out[2] = { { "ab", 2 }, { "cd", 2 } }, in[2] = { { one, 2 }, { other, 2 } };
    struct mmsghdr messages[2] = { { .msg_hdr = { .msg_iov = &out[0], .msg_iovlen = 1 } },
                                   { .msg_hdr = { .msg_iov = &out[1], .msg_iovlen = 1 } } };
    two(&server, &client);
    told(sendmmsg(server, messages, 2, 0), "sendmmsg");
    told(messages[1].msg_len, "of the second");
    told(drain(client, one, 4), "the peer reads");
    arrive(client, server, "wxyz");
    messages[0].msg_hdr.msg_iov = &in[0], messages[1].msg_hdr.msg_iov = &in[1];
    told(recvmmsg(server, messages, 2, 0, NULL), "recvmmsg");
    told(messages[1].msg_len, "of the second");
    hang_up(server, client);
}

static void messages(void)
{
    int server, client;
    char text[16], control[64];
    struct iovec part = { text, sizeof text };
    struct sockaddr_in from;
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_name = &from,
                              .msg_namelen = sizeof from, .msg_controllen = sizeof control };
    two(&server, &client);
    arrive(client, server, HELLO);
    told(recvmsg(server, &message, 0), "recvmsg");
    told(message.msg_flags, "flags");
    told(message.msg_namelen, "length of the name");
    told((long)message.msg_controllen, "length of control data");
    message = (struct msghdr){ .msg_iov = &part, .msg_iovlen = 1 };
    part.iov_len = 5;
    told(sendmsg(server, &message, 0), "sendmsg");
    told(drain(client, text, 5), "the peer reads");
    hang_up(server, client);
}

static void to_and_from(void)
{
    int server, client;
    char text[16];
    struct sockaddr_in other = at(CLIENT, 9), from;
    socklen_t len = sizeof from;
    two(&server, &client);
    told(sendto(server, HELLO, 5, 0, SA(other)), "sendto another");
    told(drain(client, text, 5), "the peer reads");
    arrive(client, server, HELLO);
    told(recvfrom(server, text, 16, 0, (struct sockaddr *)&from, &len), "recvfrom");
    told(len, "length of the name");
    hang_up(server, client);
}

static void send_a_file(void)
{
    int server, client, file = open("/proc/self/exe", O_RDONLY);
    char text[8];
    off_t from = 1;
    two(&server, &client);
    told(sendfile(server, file, &from, 3), "of three bytes");
    told(from, "offset after it");
    told(drain(client, text, 3), "the peer reads");
    told(memcmp(text, "ELF", 3), "they are the file's");
    told(sendfile(server, -1, NULL, 3), "of no file");
    close(file);
    hang_up(server, client);
}

static void splicing(void)
{
    int server, client, ends[2];
    char text[8];
    two(&server, &client);
    told(pipe(ends), "pipe");
    arrive(client, server, HELLO);
    told(splice(server, NULL, ends[1], NULL, 5, 0), "from a connection");
    told(splice(ends[0], NULL, server, NULL, 5, 0), "to a connection");
    told(drain(client, text, 5), "the peer reads");
    close(ends[0]);
    close(ends[1]);
    hang_up(server, client);
}

static void polling(void)
{
    int server, client;
    struct timespec now = { 0, 0 };
    two(&server, &client);
    struct pollfd row = { .fd = server, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };
    told(poll(&row, 1, 0), "of an idle connection");
    told(row.revents, "events");
    arrive(client, server, HELLO);
    told(ppoll(&row, 1, &now, NULL), "ppoll with data");
    told(row.revents, "events");
    raw_close(client);
    await(SERVER, server, POLLRDHUP);
    row.events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP;
    told(poll(&row, 1, 0), "after the peer's end");
    told(row.revents, "events");
    hang_up(server, -1);
}

static void selecting(void)
{
    int server, client;
    struct timeval now = { 0, 0 };
    struct timespec soon = { 0, 0 };
    fd_set in, out, odd;
    two(&server, &client);
    for (int i = 0; i < 2; i++) {
        FD_ZERO(&in);
        FD_ZERO(&out);
        FD_ZERO(&odd);
        FD_SET(server, &in);
        FD_SET(server, &out);
        FD_SET(server, &odd);
        told(i ? pselect(server + 1, &in, &out, &odd, &soon, NULL) : select(server + 1, &in, &out, &odd, &now), "sockets");
        told(FD_ISSET(server, &in) != 0, "readable");
        told(FD_ISSET(server, &out) != 0, "writable");
        told(FD_ISSET(server, &odd) != 0, "exceptional");
        arrive(client, server, HELLO);
    }
    hang_up(server, client);
}

static void duplicates(void)
{
    int server, client;
    two(&server, &client);
    int twin = dup(server);
    told(twin < 0 ? -1 : 0, "dup");
    told(close(server), "close of the first");
    told(send(twin, HELLO, 5, 0), "send by the second");
    told(close(twin), "close of the second");
    told(close(twin), "close once more");
    hang_up(-1, client);
}

/* --- epoll(7) --- */

static int watch(int set, int operation, int fd, unsigned events)
{
    struct epoll_event event = { .events = events, .data.u64 = 77 };
    return epoll_ctl(set, operation, fd, &event);
}

/* Waits up to a tenth of a second; the events that come, as one line each. */
static void events_of(int set, const char *when)
{
    struct epoll_event events[4];
    memset(events, 0, sizeof events);
    int n = (int)told(epoll_wait(set, events, 4, 100), "%s, epoll_wait", when);
    for (int i = 0; i < n; i++)
        told((long)events[i].events, "%s, events", when);
}

static void creating(void)
{
    int set = epoll_create(0);
    told(set, "epoll_create(0)");
    set = epoll_create(1);
    told(set < 0 ? -1 : 0, "epoll_create(1)");
    close(set);
    told(epoll_create1(5), "epoll_create1 of no flag");
    set = epoll_create1(EPOLL_CLOEXEC);
    told(set < 0 ? -1 : 0, "epoll_create1(EPOLL_CLOEXEC)");
    told(fcntl(set, F_GETFD), "F_GETFD");
    close(set);
}

static void controlling(void)
{
    int set = epoll_create1(0), server, client;
    two(&server, &client);
    told(watch(set, EPOLL_CTL_MOD, server, EPOLLIN), "MOD of what is not there");
    told(watch(set, EPOLL_CTL_ADD, server, EPOLLIN), "ADD");
    told(watch(set, EPOLL_CTL_ADD, server, EPOLLIN), "ADD again");
    told(watch(set, EPOLL_CTL_MOD, server, EPOLLOUT), "MOD");
    told(watch(set, EPOLL_CTL_DEL, server, 0), "DEL");
    told(watch(set, EPOLL_CTL_DEL, server, 0), "DEL again");
    told(watch(set, 9, server, 0), "no operation");
    told(watch(set, EPOLL_CTL_ADD, set, EPOLLIN), "ADD of the set itself");
    told(watch(set, EPOLL_CTL_ADD, -1, EPOLLIN), "ADD of no descriptor");
    told(watch(server, EPOLL_CTL_ADD, set, EPOLLIN), "of what is no set");
    told(epoll_ctl(set, EPOLL_CTL_ADD, server, NULL), "ADD without an event");
    close(set);
    hang_up(server, client);
}

static void waiting(void)
{
    int set = epoll_create1(0), server, client;
    struct epoll_event events[2];
    struct timespec now = { 0, 0 };
    two(&server, &client);
    told(epoll_wait(set, events, 0, 0), "no room");
    told(epoll_wait(set, events, -1, 0), "negative room");
    told(epoll_wait(server, events, 2, 0), "of what is no set");
    watch(set, EPOLL_CTL_ADD, server, EPOLLIN);
    told(epoll_wait(set, events, 2, 0), "of nothing");
    arrive(client, server, HELLO);
    told(epoll_pwait(set, events, 2, 0, NULL), "epoll_pwait");
    told(epoll_pwait2(set, events, 2, &now, NULL), "epoll_pwait2");
    told(events[0].data.u64 == 77, "the event's data");
    close(set);
    hang_up(server, client);
}

/* A connection that is watched with `flags`: idle, with data, again, with more, when the peer has ended. */
static void watched(unsigned flags)
{
    int set = epoll_create1(0), server, client;
    char byte;
    two(&server, &client);
    told(watch(set, EPOLL_CTL_ADD, server, flags), "ADD");
    events_of(set, "idle");
    arrive(client, server, HELLO);
    events_of(set, "with data");
    events_of(set, "once more");
    arrive(client, server, HELLO);
    events_of(set, "with more data");
    told(read(server, &byte, 1), "read of a byte");
    events_of(set, "after it");
    told(watch(set, EPOLL_CTL_MOD, server, flags), "MOD");
    events_of(set, "after MOD");
    raw_close(client);
    await(SERVER, server, POLLRDHUP);
    events_of(set, "after the peer's end");
    close(set);
    hang_up(server, -1);
}

static void level(void) { watched(EPOLLIN); }
static void writable(void) { watched(EPOLLOUT); }
static void half_closed(void) { watched(EPOLLRDHUP); }
static void priority(void) { watched(EPOLLPRI); }
static void edge(void) { watched(EPOLLIN | EPOLLET); }
static void edge_out(void) { watched(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET); }
static void once(void) { watched(EPOLLIN | EPOLLONESHOT); }
static void awake(void) { watched(EPOLLIN | EPOLLWAKEUP); }
static void exclusive(void) { watched(EPOLLIN | EPOLLEXCLUSIVE); }

static void reset(void)
{
    int set = epoll_create1(0), server, client;
    struct linger now = { 1, 0 };
    two(&server, &client);
    watch(set, EPOLL_CTL_ADD, server, 0);
    raw_setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    raw_close(client);
    await(SERVER, server, 0);
    events_of(set, "after a reset");
    close(set);
    hang_up(server, -1);
}

static void nested(void)
{
    int inner = epoll_create1(0), outer = epoll_create1(0), server, client;
    two(&server, &client);
    watch(inner, EPOLL_CTL_ADD, server, EPOLLIN);
    told(watch(outer, EPOLL_CTL_ADD, inner, EPOLLIN), "ADD of a set");
    told(watch(inner, EPOLL_CTL_ADD, outer, EPOLLIN), "ADD in a circle");
    events_of(outer, "idle");
    arrive(client, server, HELLO);
    events_of(outer, "with data");
    told(ready(SERVER, outer, POLLIN), "poll of a set");
    close(inner);
    close(outer);
    hang_up(server, client);
}

static void forgotten(void)
{
    int set = epoll_create1(0), server, client;
    two(&server, &client);
    int twin = dup(server);
    watch(set, EPOLL_CTL_ADD, server, EPOLLIN);
    close(server);
    arrive(client, twin, HELLO);
    events_of(set, "one number closed");
    close(twin);
    events_of(set, "both closed");
    close(set);
    hang_up(-1, client);
}

static void watch_a_listener(void)
{
    int set = epoll_create1(0), fd = bound(AF_INET), client;
    struct sockaddr_in addr = at(SERVER, port);
    listen(fd, 4);
    watch(set, EPOLL_CTL_ADD, fd, EPOLLIN);
    events_of(set, "idle");
    client = (int)raw_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    raw_connect(client, SA(addr));
    ready(SERVER, fd, POLLIN);
    events_of(set, "a connection waits");
    close(set);
    close(fd);
    raw_close(client);
}

static const struct { const char *name; void (*run)(void); } PARTS[] = {
    { "SO_ATTACH_FILTER", attach_filter },
    { "SO_ATTACH_REUSEPORT_CBPF", attach_reuseport },
    { "TCP_MD5SIG", md5sig },
    { "TCP_MD5SIG_EXT", md5sig_ext },
    { "TCP_AO_ADD_KEY", ao_add },
    { "TCP_AO_DEL_KEY", ao_del },
    { "socket", make_sockets },
    { "SOCK_NONBLOCK", nonblock },
    { "SOCK_CLOEXEC", cloexec },
    { "socketpair", make_pair },
    { "bind", binding },
    { "listen", listening },
    { "accept", accepting },
    { "accept4", accepting4 },
    { "a listener on a device", on_a_device },
    { "connect", connecting },
    { "connect to AF_UNSPEC", unconnecting },
    { "getsockname", naming },
    { "getpeername", peer_naming },
    { "shutdown", shutting },
    { "dup, close", duplicates },
    { "read", reading },
    { "write", writing },
    { "readv, writev", vectors },
    { "sendto, recvfrom", to_and_from },
    { "sendmsg, recvmsg", messages },
    { "sendmmsg, recvmmsg", many },
    { "sendfile", send_a_file },
    { "splice", splicing },
    { "poll, ppoll", polling },
    { "select, pselect", selecting },
    { "send, MSG_OOB", send_MSG_OOB },
    { "send, MSG_DONTROUTE", send_MSG_DONTROUTE },
    { "send, MSG_DONTWAIT", send_MSG_DONTWAIT },
    { "send, MSG_NOSIGNAL", send_MSG_NOSIGNAL },
    { "send, MSG_MORE", send_MSG_MORE },
    { "send, MSG_EOR", send_MSG_EOR },
    { "send, MSG_CONFIRM", send_MSG_CONFIRM },
    { "send, MSG_ZEROCOPY", send_MSG_ZEROCOPY },
    { "send, MSG_FASTOPEN", send_MSG_FASTOPEN },
    { "recv, MSG_OOB", recv_MSG_OOB },
    { "recv, MSG_PEEK", recv_MSG_PEEK },
    { "recv, MSG_DONTWAIT", recv_MSG_DONTWAIT },
    { "recv, MSG_WAITALL", recv_MSG_WAITALL },
    { "recv, MSG_TRUNC", recv_MSG_TRUNC },
    { "recv, MSG_ERRQUEUE", recv_MSG_ERRQUEUE },
    { "recv, MSG_CMSG_CLOEXEC", recv_MSG_CMSG_CLOEXEC },
    { "urgent data", urgent },
    { "urgent data, SO_OOBINLINE", urgent_in_line },
    { "SIGPIPE", broken_pipe },
    { "O_ASYNC, SIGIO", asynchronous },
    { "O_ASYNC, FIOASYNC", asynchronous_both_ways },
    { "F_SETOWN, F_SETSIG", owner },
    { "FD_CLOEXEC", close_on_exec },
    { "O_NONBLOCK", blocking },
    { "SIOCINQ", inq },
    { "SIOCOUTQ", outq },
    { "SIOCOUTQNSD", outqnsd },
    { "SIOCATMARK", atmark },
    { "SIOCGSTAMP", gstamp },
    { "SIOCGSTAMPNS", gstampns },
    { "FIOASYNC", fioasync },
    { "FIONBIO", fionbio },
    { "SIOCGPGRP", gpgrp },
    { "SIOCSPGRP", spgrp },
    { "SIOCGIFCONF", gifconf },
    { "SCM_RIGHTS", passing },
    { "epoll_create, epoll_create1", creating },
    { "epoll_ctl", controlling },
    { "epoll_wait, epoll_pwait, epoll_pwait2", waiting },
    { "EPOLLIN", level },
    { "EPOLLOUT", writable },
    { "EPOLLRDHUP", half_closed },
    { "EPOLLPRI", priority },
    { "EPOLLERR, EPOLLHUP", reset },
    { "EPOLLET", edge },
    { "EPOLLET with EPOLLOUT and EPOLLRDHUP", edge_out },
    { "EPOLLONESHOT", once },
    { "EPOLLWAKEUP", awake },
    { "EPOLLEXCLUSIVE", exclusive },
    { "a set in a set", nested },
    { "a watched descriptor that is closed", forgotten },
    { "a watched listener", watch_a_listener },
};
