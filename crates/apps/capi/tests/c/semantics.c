/*
 * What calls answer, one line each: compiled once against the kernel's calls and once against ours (-DMILLSTREAM), or
 * run with and without the launcher (-DLAUNCHED), it must say the same.
 */
#include "ends.h"
#include "signals.c"

static void sockets(void)
{
    static const struct { int domain, type, protocol; } rows[] = {
        { AF_INET, SOCK_STREAM, 0 },          { AF_INET, SOCK_STREAM, IPPROTO_TCP },
        { AF_INET6, SOCK_STREAM, 0 },         { AF_INET6, SOCK_STREAM, IPPROTO_TCP },
        { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0 }, { AF_INET, SOCK_STREAM, IPPROTO_UDP },
        { AF_INET6, SOCK_STREAM, IPPROTO_UDP }, { AF_INET, SOCK_STREAM, -1 },
        { AF_INET, SOCK_STREAM, 263 },        { AF_INET, 77, 0 },
        { AF_INET, 0x1000 | SOCK_STREAM, 0 }, { 77, SOCK_STREAM, 0 },
        { -1, SOCK_STREAM, 0 },               { AF_INET, SOCK_RDM, 0 },
        { AF_INET, 0, 0 },                    { AF_INET, SOCK_SEQPACKET, IPPROTO_TCP },
        { AF_INET, SOCK_STREAM, IPPROTO_MPTCP }, { AF_INET6, SOCK_STREAM, IPPROTO_MPTCP },
        { AF_INET, SOCK_SEQPACKET, IPPROTO_MPTCP },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = X(socket, SERVER, rows[i].domain, rows[i].type, rows[i].protocol);
        told(fd < 0 ? fd : 0, "socket(%d, %#x, %d)", rows[i].domain, rows[i].type, rows[i].protocol);
        if (fd >= 0)
            told(X(close, SERVER, fd), "close");
    }
    int fd = X(socket, SERVER, AF_INET, SOCK_STREAM, 0);
    told(FCNTL(SERVER, fd, F_GETFL, 0), "F_GETFL of a new socket");
    told(FCNTL(SERVER, fd, F_SETFL, O_NONBLOCK), "F_SETFL O_NONBLOCK");
    told(FCNTL(SERVER, fd, F_GETFL, 0), "F_GETFL");
    int off = 0;
    told(X(ioctl, SERVER, fd, FIONBIO, &off), "FIONBIO 0");
    told(FCNTL(SERVER, fd, F_GETFL, 0), "F_GETFL");
    told(FCNTL(SERVER, fd, 9999, 0), "fcntl of no command");
    told(X(ioctl, SERVER, fd, 0x7777, &off), "ioctl of no request");
    int twin = X(dup, SERVER, fd);
    told(twin < 0 ? -1 : 0, "dup");
    told(X(close, SERVER, fd), "close of the first");
    told(FCNTL(SERVER, twin, F_GETFL, 0), "the second lives");
    told(X(close, SERVER, twin), "close of the second");
    told(X(close, SERVER, twin), "close once more");
    told(X(dup, SERVER, -1), "dup(-1)");
    fd = X(socket, SERVER, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    told(FCNTL(SERVER, fd, F_GETFL, 0), "F_GETFL of SOCK_NONBLOCK");
    X(close, SERVER, fd);
}

static void names(void)
{
    struct sockaddr_in v4 = at(SERVER, 2000);
    struct sockaddr_in6 v6 = at6(SERVER, 2000);
    struct sockaddr_storage space;
    socklen_t len;
    int fd = new_socket(SERVER, AF_INET), fd6 = new_socket(SERVER, AF_INET6);
    told(X(bind, SERVER, fd, (struct sockaddr *)&v4, 15), "bind, too short");
    told(X(bind, SERVER, fd, (struct sockaddr *)&v4, 0), "bind of no bytes");
    told(X(bind, SERVER, fd, (struct sockaddr *)&v4, 200), "bind, too long");
    told(X(bind, SERVER, fd, NULL, 16), "bind to NULL");
    told(X(bind, SERVER, fd, SA(v6)), "bind of an IPv4 socket to IPv6");
    told(X(bind, SERVER, fd6, SA(v4)), "bind of an IPv6 socket to IPv4");
    told(X(bind, SERVER, fd6, (struct sockaddr *)&v6, 23), "bind of IPv6, too short");
    struct sockaddr_in other = v4;
    other.sin_family = 99;
    told(X(bind, SERVER, fd, SA(other)), "bind to no family");
    inet_pton(AF_INET, "192.0.2.55", &other.sin_addr);
    other.sin_family = AF_INET;
    told(X(bind, SERVER, fd, SA(other)), "bind to an address that is not ours");
    len = sizeof space;
    told(X(getsockname, SERVER, fd, (struct sockaddr *)&space, &len), "getsockname before bind");
    told(len, "its length");
    told(((struct sockaddr_in *)&space)->sin_port, "its port");
    other.sin_family = AF_UNSPEC;
    told(X(bind, SERVER, fd, SA(other)), "bind of AF_UNSPEC to an address");
    told(X(bind, SERVER, fd6, SA(other)), "bind of AF_UNSPEC to IPv6, too short");
    other.sin_addr.s_addr = 0;
    told(X(setsockopt, SERVER, fd6, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, NULL, 4), "an option of IPv6 from NULL");
    told(X(setsockopt, SERVER, fd6, IPPROTO_IPV6, 77, &(int){ 1 }, 2), "IPV6_RECVFRAGSIZE of two bytes");
    int unnamed = new_socket(SERVER, AF_INET);
    told(X(bind, SERVER, unnamed, SA(other)), "bind of AF_UNSPEC to any address");
    X(close, SERVER, unnamed);
    told(X(bind, SERVER, fd, SA(v4)), "bind");
    told(X(bind, SERVER, fd, SA(v4)), "bind again");
    memset(&space, 0, sizeof space);
    len = 4;
    told(X(getsockname, SERVER, fd, (struct sockaddr *)&space, &len), "getsockname into 4 bytes");
    told(len, "the whole length");
    told(ntohs(((struct sockaddr_in *)&space)->sin_port), "the port");
    told(((struct sockaddr_in *)&space)->sin_addr.s_addr, "the address did not fit");
    told(X(getsockname, SERVER, fd, NULL, &len), "getsockname into NULL");
    told(X(getsockname, SERVER, fd, (struct sockaddr *)&space, NULL), "getsockname without a length");
    len = (socklen_t)-1;
    told(X(getsockname, SERVER, fd, (struct sockaddr *)&space, &len), "getsockname with a negative length");
    len = sizeof space;
    told(X(getpeername, SERVER, fd, (struct sockaddr *)&space, &len), "getpeername without a peer");
    int second = new_socket(SERVER, AF_INET);
    told(X(bind, SERVER, second, SA(v4)), "bind to an address in use");
    X(close, SERVER, fd);
    told(X(bind, SERVER, second, SA(v4)), "bind when it is free");
    len = sizeof space;
    told(X(bind, SERVER, fd6, SA(v6)), "bind of IPv6");
    told(X(getsockname, SERVER, fd6, (struct sockaddr *)&space, &len), "getsockname of IPv6");
    told(len, "its length");
    told(space.ss_family, "its family");
    X(close, SERVER, second);
    X(close, SERVER, fd6);
    fd = new_socket(SERVER, AF_INET);
    struct sockaddr_in any = { .sin_family = AF_INET };
    told(X(bind, SERVER, fd, SA(any)), "bind to any port");
    len = sizeof space;
    X(getsockname, SERVER, fd, (struct sockaddr *)&space, &len);
    told(((struct sockaddr_in *)&space)->sin_port != 0, "there is one");
    X(close, SERVER, fd);
}

static void listening(void)
{
    struct sockaddr_in addr = at(SERVER, 2001), space;
    socklen_t len = sizeof space;
    int fd = new_socket(SERVER, AF_INET);
    told(X(accept, SERVER, fd, NULL, NULL), "accept of one that does not listen");
    X(bind, SERVER, fd, SA(addr));
    told(X(accept, SERVER, fd, NULL, NULL), "accept of a bound one");
    told(X(listen, SERVER, fd, 5), "listen");
    told(X(listen, SERVER, fd, 0), "listen again");
    told(X(accept, SERVER, fd, NULL, NULL), "accept of no client");
    told(X(accept4, SERVER, fd, NULL, NULL, 0x7), "accept4 with flags there are not");
    int second = new_socket(SERVER, AF_INET);
    told(X(bind, SERVER, second, SA(addr)), "bind beside a listener");
    X(close, SERVER, second);
    told(X(connect, SERVER, fd, SA(addr)), "connect of a listener");
    told(X(read, SERVER, fd, &space, 1), "read of a listener");
    told(X(write, SERVER, fd, &space, 1), "write to a listener");
    told(ready(SERVER, fd, POLLOUT) & POLLOUT, "a listener is not writable");
    struct pollfd row = { .fd = fd, .events = POLLIN | POLLOUT };
    told(X(poll, SERVER, &row, 1, 0), "poll of an idle listener");
    int client = new_socket(CLIENT, AF_INET);
    struct sockaddr_in own = at(CLIENT, 0);
    told(X(bind, CLIENT, client, SA(own)), "bind of the client");
    told(X(connect, CLIENT, client, SA(addr)), "connect");
    told(ready(SERVER, fd, POLLIN), "the listener is readable");
    memset(&space, 0, sizeof space);
    int conn = told_fd(X(accept, SERVER, fd, (struct sockaddr *)&space, &len), "accept");
    told(len, "length of the peer's address");
    struct in_addr from;
    inet_pton(AF_INET, ADDRESS[CLIENT], &from);
    told(space.sin_addr.s_addr == from.s_addr, "it is the client's");
    told(FCNTL(SERVER, conn, F_GETFL, 0), "an accepted socket blocks");
    struct sockaddr_in there;
    len = sizeof there;
    told(X(getsockname, SERVER, conn, (struct sockaddr *)&there, &len), "getsockname of it");
    told(ntohs(there.sin_port), "is the listener's port");
    told(there.sin_addr.s_addr == addr.sin_addr.s_addr, "and address");
    len = sizeof there;
    told(X(getpeername, SERVER, conn, (struct sockaddr *)&there, &len), "getpeername of it");
    told(there.sin_port == space.sin_port, "is what accept said");
    len = sizeof own;
    X(getsockname, CLIENT, client, (struct sockaddr *)&own, &len);
    told(own.sin_port == space.sin_port, "and what the client says");
    ready(CLIENT, client, POLLOUT);
    told(X(connect, CLIENT, client, SA(addr)), "connect once it is done");
    told(X(connect, CLIENT, client, SA(addr)), "and again");
    told(X(listen, SERVER, conn, 5), "listen of a connection");
    told(X(bind, SERVER, conn, SA(addr)), "bind of a connection");
    told(X(accept, SERVER, conn, NULL, NULL), "accept of a connection");
    len = (socklen_t)-1;
    X(close, CLIENT, client);
    X(close, SERVER, conn);
    X(close, SERVER, fd);
}

static void connecting(void)
{
    struct sockaddr_in addr = at(SERVER, 2999);
    int error;
    socklen_t len = sizeof error;
    int fd = new_socket(CLIENT, AF_INET);
    told(X(connect, CLIENT, fd, (struct sockaddr *)&addr, 15), "connect, too short");
    told(X(connect, CLIENT, fd, NULL, 16), "connect to NULL");
    struct sockaddr_in6 v6 = at6(SERVER, 2999);
    told(X(connect, CLIENT, fd, SA(v6)), "connect of IPv4 to IPv6");
    told(X(connect, CLIENT, fd, SA(addr)), "connect to no listener");
    told(ready(CLIENT, fd, POLLOUT), "poll when it is refused");
    told(X(getsockopt, CLIENT, fd, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR");
    told(error, "says");
    told(X(getsockopt, CLIENT, fd, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR again");
    told(error, "says");
    told(X(read, CLIENT, fd, &error, 1), "read of a refused one");
    told(X(send, CLIENT, fd, &error, 1, MSG_NOSIGNAL), "send");
    struct sockaddr_in own = at(CLIENT, 0);
    told(X(bind, CLIENT, fd, SA(own)), "bind of a refused one");
    told(X(bind, CLIENT, fd, SA(own)), "bind once more");
    X(close, CLIENT, fd);
    fd = new_socket(CLIENT, AF_INET);
    X(connect, CLIENT, fd, SA(addr));
    ready(CLIENT, fd, POLLOUT);
    told(X(bind, CLIENT, fd, SA(own)), "bind before SO_ERROR");
    told(X(getsockopt, CLIENT, fd, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR");
    told(error, "says");
    X(close, CLIENT, fd);
    fd = new_socket(CLIENT, AF_INET);
    X(connect, CLIENT, fd, SA(addr));
    ready(CLIENT, fd, POLLOUT);
    told(X(connect, CLIENT, fd, SA(addr)), "a second connect tells the error");
    X(close, CLIENT, fd);
    fd = X(socket, CLIENT, AF_INET, SOCK_STREAM, 0);
    told(X(connect, CLIENT, fd, SA(addr)), "a blocking connect to no listener");
    X(close, CLIENT, fd);
    fd = new_socket(CLIENT, AF_INET6);
    told(X(connect, CLIENT, fd, (struct sockaddr *)&v6, 23), "connect of IPv6, too short");
    told(X(connect, CLIENT, fd, SA(addr)), "connect of IPv6 to an IPv4 address");
    X(close, CLIENT, fd);
}

static void bytes(void)
{
    int server, client, n = 0;
    char buffer[64], text[64];
    pair(2002, &server, &client);
    told(X(read, SERVER, server, buffer, 10), "read of nothing yet");
    told(X(recv, SERVER, server, buffer, 10, MSG_PEEK), "peek of nothing yet");
    told(X(recv, SERVER, server, buffer, 10, MSG_DONTWAIT), "MSG_DONTWAIT");
    told(X(read, SERVER, server, buffer, 0), "read of no bytes");
    told(X(write, CLIENT, client, "hello", 5), "write");
    ready(SERVER, server, POLLIN);
    told(X(ioctl, SERVER, server, FIONREAD, &n), "FIONREAD");
    told(n, "says");
    told(X(recv, SERVER, server, buffer, 3, MSG_PEEK), "peek of 3");
    told(X(recv, SERVER, server, buffer, 64, MSG_PEEK), "peek of 64");
    told(memcmp(buffer, "hello", 5), "the bytes");
    told(X(recv, SERVER, server, buffer, 2, MSG_TRUNC), "MSG_TRUNC drops 2");
    told(X(read, SERVER, server, buffer, 64), "read of the rest");
    told(memcmp(buffer, "llo", 3), "the bytes");
    told(X(write, CLIENT, client, "x", 0), "write of no bytes");
    told(X(send, CLIENT, client, "x", 0, 0), "send of no bytes");
    told(X(write, CLIENT, client, NULL, 5), "write from NULL");
    told(X(send, CLIENT, client, NULL, 5, 0), "send from NULL");
    say(CLIENT, client, SERVER, server, "abcdef");
    told(X(read, SERVER, server, NULL, 0), "read of no bytes to NULL");
    struct iovec parts[3] = { { text, 2 }, { text + 10, 0 }, { text + 20, 10 } };
    told(X(readv, SERVER, server, parts, 3), "readv of three");
    told(memcmp(text, "ab", 2) || memcmp(text + 20, "cdef", 4), "the bytes");
    told(X(readv, SERVER, server, parts, 0), "readv of none");
    told(X(readv, SERVER, server, parts, -1), "readv of -1");
    told(X(readv, SERVER, server, parts, 1025), "readv of 1025");
    told(X(writev, CLIENT, client, parts, 1025), "writev of 1025");
    told(X(writev, CLIENT, client, NULL, 1), "writev from NULL");
    parts[0] = (struct iovec){ "one", 3 }, parts[1] = (struct iovec){ NULL, 0 }, parts[2] = (struct iovec){ "two", 3 };
    told(X(writev, CLIENT, client, parts, 3), "writev");
    ready(SERVER, server, POLLIN);
    struct iovec into = { buffer, sizeof buffer };
    struct msghdr message = { .msg_iov = &into, .msg_iovlen = 1 };
    told(X(recvmsg, SERVER, server, &message, 0), "recvmsg");
    told(message.msg_flags, "its flags");
    told((long)message.msg_namelen, "its name");
    told(memcmp(buffer, "onetwo", 6), "the bytes");
    told(X(recvmsg, SERVER, server, NULL, 0), "recvmsg into NULL");
    told(X(recvmsg, SERVER, server, &message, MSG_ERRQUEUE), "recvmsg of no reports");
    told(X(sendmsg, CLIENT, client, NULL, 0), "sendmsg from NULL");
    told(X(sendmsg, CLIENT, client, &(struct msghdr){ .msg_iov = parts, .msg_iovlen = 3 }, 0), "sendmsg");
    ready(SERVER, server, POLLIN);
    told(X(recv, SERVER, server, buffer, 6, MSG_WAITALL), "MSG_WAITALL of what is there");
    told(X(recv, SERVER, server, buffer, 6, MSG_OOB), "MSG_OOB");
    struct sockaddr_in addr = at(SERVER, 1);
    told(X(sendto, CLIENT, client, "zz", 2, 0, SA(addr)), "sendto another peer");
    ready(SERVER, server, POLLIN);
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    told(X(recvfrom, SERVER, server, buffer, 9, 0, (struct sockaddr *)&from, &len), "recvfrom");
    told(len, "names no peer");
    told(X(ioctl, CLIENT, client, TIOCOUTQ, &n), "SIOCOUTQ");
    told(X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVLOWAT, &(int){ 4 }, 4), "SO_RCVLOWAT 4");
    say(CLIENT, client, SERVER, client, "ab");
    usleep(20000);
    struct pollfd row = { .fd = server, .events = POLLIN };
    told(X(poll, SERVER, &row, 1, 0), "two bytes are not enough");
    say(CLIENT, client, SERVER, server, "cd");
    told(X(poll, SERVER, &row, 1, 1000), "four are");
    told(X(read, SERVER, server, buffer, 9), "read");
    X(close, CLIENT, client);
    X(close, SERVER, server);
}

static void ends(void)
{
    int server, client, error = -1;
    socklen_t len = sizeof error;
    char buffer[64];
    pair(2003, &server, &client);
    told(X(shutdown, CLIENT, client, 77), "shutdown in no way");
    told(X(shutdown, CLIENT, client, -1), "shutdown(-1)");
    say(CLIENT, client, SERVER, server, "last");
    told(X(shutdown, CLIENT, client, SHUT_WR), "SHUT_WR");
    told(X(shutdown, CLIENT, client, SHUT_WR), "SHUT_WR again");
    told(X(send, CLIENT, client, "x", 1, MSG_NOSIGNAL), "send after it");
    told(ready(CLIENT, client, POLLIN | POLLOUT | POLLRDHUP) & ~POLLRDNORM, "poll of the one that shut");
    await(SERVER, server, POLLRDHUP);
    told(ready(SERVER, server, POLLIN | POLLOUT | POLLRDHUP), "poll of its peer");
    told(X(read, SERVER, server, buffer, 64), "what came before");
    told(X(read, SERVER, server, buffer, 64), "the end");
    told(X(read, SERVER, server, buffer, 64), "the end again");
    told(X(recv, SERVER, server, buffer, 64, MSG_PEEK), "peek at the end");
    told(X(write, SERVER, server, "back", 4), "the other half lives");
    ready(CLIENT, client, POLLIN);
    told(X(read, CLIENT, client, buffer, 64), "read");
    told(X(close, SERVER, server), "close");
    await(CLIENT, client, 0);
    told(ready(CLIENT, client, POLLIN | POLLOUT | POLLRDHUP), "poll when both are over");
    told(X(read, CLIENT, client, buffer, 64), "the end");
    told(X(shutdown, CLIENT, client, SHUT_RD), "SHUT_RD of the dead");
    X(close, CLIENT, client);

    pair(2004, &server, &client);
    told(X(shutdown, SERVER, server, SHUT_RD), "SHUT_RD");
    told(X(read, SERVER, server, buffer, 64), "read after it");
    told(ready(SERVER, server, POLLIN | POLLRDHUP), "poll after it");
    told(X(write, SERVER, server, "x", 1), "write after it");
    ready(CLIENT, client, POLLIN);
    told(X(read, CLIENT, client, buffer, 64), "arrives");
    X(close, SERVER, server);
    X(close, CLIENT, client);

    pair(2005, &server, &client);
    struct linger now = { .l_onoff = 1, .l_linger = 0 };
    told(X(setsockopt, CLIENT, client, SOL_SOCKET, SO_LINGER, &now, sizeof now), "SO_LINGER 0");
    told(X(close, CLIENT, client), "close resets");
    await(SERVER, server, 0);
    told(ready(SERVER, server, POLLIN | POLLOUT | POLLRDHUP), "poll of the one that is reset");
    told(X(read, SERVER, server, buffer, 64), "read");
    told(X(read, SERVER, server, buffer, 64), "read again");
    told(X(send, SERVER, server, "x", 1, MSG_NOSIGNAL), "send");
    told(X(getsockopt, SERVER, server, SOL_SOCKET, SO_ERROR, &error, &len), "SO_ERROR");
    told(error, "is taken");
    told(X(shutdown, SERVER, server, SHUT_RDWR), "shutdown of the dead");
    len = sizeof(struct sockaddr_in);
    struct sockaddr_in there;
    told(X(getpeername, SERVER, server, (struct sockaddr *)&there, &len), "getpeername of the dead");
    X(close, SERVER, server);

    pair(2006, &server, &client);
    told(X(send, CLIENT, client, "unread", 6, 0), "send");
    ready(SERVER, server, POLLIN);
    told(X(close, SERVER, server), "close with bytes unread");
    await(CLIENT, client, 0);
    told(ready(CLIENT, client, POLLIN | POLLOUT), "resets");
    told(X(read, CLIENT, client, buffer, 64), "read");
    told(X(send, CLIENT, client, "x", 1, MSG_NOSIGNAL), "send");
    X(close, CLIENT, client);
}

static void timeouts(void)
{
    int server, client;
    char byte;
    pair(2007, &server, &client);
    struct timeval short_time = { .tv_usec = 30000 }, got;
    socklen_t len = sizeof got;
    FCNTL(SERVER, server, F_SETFL, 0);
    told(X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof short_time), "SO_RCVTIMEO");
    told(X(recv, SERVER, server, &byte, 1, 0), "recv waits and gives up");
    told(X(recv, SERVER, server, &byte, 1, MSG_DONTWAIT), "recv without waiting");
    told(X(getsockopt, SERVER, server, SOL_SOCKET, SO_RCVTIMEO, &got, &len), "SO_RCVTIMEO");
    told(len, "its length");
    told(got.tv_sec, "its seconds");
    struct timeval odd = { .tv_usec = 2000000 };
    told(X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVTIMEO, &odd, sizeof odd), "two seconds of microseconds");
    told(X(setsockopt, SERVER, server, SOL_SOCKET, SO_RCVTIMEO, &odd, 4), "SO_RCVTIMEO, too short");
    told(X(setsockopt, SERVER, server, SOL_SOCKET, SO_SNDTIMEO, &short_time, sizeof short_time), "SO_SNDTIMEO");
    int small = 4096;
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    static char much[1 << 20];
    long sent = 0, n;
    while ((n = X(send, SERVER, server, much, sizeof much, 0)) > 0)
        sent += n;
    told(n, "send waits and gives up");
    told(sent > 0, "after some");
    X(close, SERVER, server);
    X(close, CLIENT, client);
    int fd = listener(2008);
    FCNTL(SERVER, fd, F_SETFL, 0);
    X(setsockopt, SERVER, fd, SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof short_time);
    told(X(accept, SERVER, fd, NULL, NULL), "accept waits and gives up");
    X(close, SERVER, fd);
}

struct option {
    int level, name;
    const char *text;
    int shows; /* is the value the same everywhere? */
};
#define OPTION(level, name, shows) { level, name, #name, shows }
static const struct option OPTIONS[] = {
    OPTION(SOL_SOCKET, SO_REUSEADDR, 1),    OPTION(SOL_SOCKET, SO_KEEPALIVE, 1),
    OPTION(SOL_SOCKET, SO_TYPE, 1),         OPTION(SOL_SOCKET, SO_PROTOCOL, 1),
    OPTION(SOL_SOCKET, SO_DOMAIN, 1),       OPTION(SOL_SOCKET, SO_ACCEPTCONN, 1),
    OPTION(SOL_SOCKET, SO_ERROR, 1),        OPTION(SOL_SOCKET, SO_RCVLOWAT, 1),
    OPTION(SOL_SOCKET, SO_SNDLOWAT, 1),     OPTION(SOL_SOCKET, SO_PRIORITY, 1),
    OPTION(SOL_SOCKET, SO_ZEROCOPY, 1),     OPTION(SOL_SOCKET, SO_RCVBUF, 0),
    OPTION(SOL_SOCKET, SO_SNDBUF, 0),       OPTION(IPPROTO_TCP, TCP_NODELAY, 1),
    OPTION(IPPROTO_TCP, TCP_CORK, 1),       OPTION(IPPROTO_TCP, TCP_KEEPIDLE, 1),
    OPTION(IPPROTO_TCP, TCP_KEEPINTVL, 1),  OPTION(IPPROTO_TCP, TCP_KEEPCNT, 1),
    OPTION(IPPROTO_TCP, TCP_SYNCNT, 1),     OPTION(IPPROTO_TCP, TCP_USER_TIMEOUT, 1),
    OPTION(IPPROTO_TCP, TCP_QUICKACK, 0),   OPTION(IPPROTO_TCP, TCP_MAXSEG, 0),
    OPTION(SOL_SOCKET, SO_INCOMING_CPU, 0), OPTION(SOL_SOCKET, SO_PEEK_OFF, 1),
    OPTION(IPPROTO_TCP, TCP_DEFER_ACCEPT, 1), OPTION(IPPROTO_TCP, TCP_INQ, 1),        OPTION(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0),
    OPTION(IPPROTO_IP, IP_TOS, 1),          OPTION(IPPROTO_IP, IP_TTL, 1),
    OPTION(IPPROTO_IP, IP_FREEBIND, 1),     OPTION(SOL_SOCKET, 9999, 1),
    OPTION(IPPROTO_TCP, 9999, 1),           OPTION(9999, 1, 1),
};

/* Every option: told, set to several values, told again. */
static void options_of(int side, int fd, const char *kind)
{
    static const int VALUES[] = { 1, 0, 2, -1, 300 };
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        const struct option *option = &OPTIONS[i];
        int value = 0;
        socklen_t len = sizeof value;
        long rc = told(X(getsockopt, side, fd, option->level, option->name, &value, &len), "%s: get %s", kind, option->text);
        if (rc == 0)
            told(option->shows ? value : (long)len, "%s: %s", kind, option->text);
        for (size_t v = 0; v < sizeof VALUES / sizeof *VALUES; v++) {
            told(X(setsockopt, side, fd, option->level, option->name, &VALUES[v], sizeof(int)), "%s: %s to %d", kind,
                      option->text, VALUES[v]);
            if (option->shows) {
                len = sizeof value;
                X(getsockopt, side, fd, option->level, option->name, &value, &len);
                errno = 0;
                told(value, "%s: %s to %d is", kind, option->text, VALUES[v]);
            }
        }
        told(X(setsockopt, side, fd, option->level, option->name, &value, 1), "%s: %s, one byte", kind, option->text);
        told(X(setsockopt, side, fd, option->level, option->name, NULL, 4), "%s: %s from NULL", kind, option->text);
        told(X(getsockopt, side, fd, option->level, option->name, NULL, &len), "%s: %s into NULL", kind, option->text);
    }
}

static void options(void)
{
    int fd = new_socket(SERVER, AF_INET), server, client;
    options_of(SERVER, fd, "new");
    X(close, SERVER, fd);
    fd = listener(2009);
    options_of(SERVER, fd, "listener");
    X(close, SERVER, fd);
    pair(2010, &server, &client);
    options_of(SERVER, server, "connection");
    char name[16] = "";
    socklen_t len = sizeof name;
    told(X(setsockopt, SERVER, server, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), "TCP_CONGESTION reno");
    told(X(setsockopt, SERVER, server, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5), "TCP_CONGESTION cubic");
    told(X(getsockopt, SERVER, server, IPPROTO_TCP, TCP_CONGESTION, name, &len), "TCP_CONGESTION");
    told(strcmp(name, "cubic"), "is cubic");
    told(len, "its length");
    told(X(setsockopt, SERVER, server, IPPROTO_TCP, TCP_CONGESTION, "nosuch", 6), "TCP_CONGESTION nosuch");
    struct linger linger = { 0 };
    len = sizeof linger;
    told(X(getsockopt, SERVER, server, SOL_SOCKET, SO_LINGER, &linger, &len), "SO_LINGER");
    told(linger.l_onoff, "is off");
    linger = (struct linger){ 1, 7 };
    told(X(setsockopt, SERVER, server, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), "SO_LINGER 7");
    told(X(setsockopt, SERVER, server, SOL_SOCKET, SO_LINGER, &linger, 4), "SO_LINGER, too short");
    told(X(getsockopt, SERVER, server, SOL_SOCKET, SO_LINGER, &linger, &len), "SO_LINGER");
    told(linger.l_linger, "is");
    linger.l_onoff = 0;
    X(setsockopt, SERVER, server, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    struct tcp_info info;
    len = sizeof info;
    told(X(getsockopt, SERVER, server, IPPROTO_TCP, TCP_INFO, &info, &len), "TCP_INFO");
    told(info.tcpi_state, "tcpi_state");
    told(len == sizeof info, "is whole");
    len = 1;
    told(X(getsockopt, SERVER, server, IPPROTO_TCP, TCP_INFO, &info, &len), "TCP_INFO of one byte");
    told(len, "is as long");
    X(close, SERVER, server);
    X(close, CLIENT, client);
}

/* Every call on every kind of descriptor. */
static void kinds(void)
{
    int ends[2], server, client, epoll = X(epoll_create1, SERVER, 0), n;
    X(pipe2, SERVER, ends, O_NONBLOCK);
    pair(2011, &server, &client);
    int fresh = new_socket(SERVER, AF_INET), set = X(epoll_create1, SERVER, 0), listens = listener(2012);
    int gone = new_socket(SERVER, AF_INET);
    X(close, SERVER, gone);
    gone = 9999;
    int spare = new_socket(SERVER, AF_INET);
    struct { const char *name; int fd; } kind[] = {
        { "new", fresh }, { "listener", listens }, { "connection", server }, { "read end", ends[0] },
        { "write end", ends[1] }, { "set", set }, { "none", gone }, { "-1", -1 },
    };
    struct sockaddr_in addr = at(SERVER, 2012);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        const char *k = kind[i].name;
        int fd = kind[i].fd;
        char buffer[8] = "bytes";
        struct sockaddr_in space;
        socklen_t len = sizeof space;
        struct iovec part = { buffer, 4 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
        told(X(read, SERVER, fd, buffer, 4), "%s: read", k);
        told(X(readv, SERVER, fd, &part, 1), "%s: readv", k);
        told(X(recv, SERVER, fd, buffer, 4, 0), "%s: recv", k);
        told(X(recvfrom, SERVER, fd, buffer, 4, 0, NULL, NULL), "%s: recvfrom", k);
        told(X(recvmsg, SERVER, fd, &message, 0), "%s: recvmsg", k);
        told(X(recvmsg, SERVER, fd, &message, MSG_ERRQUEUE), "%s: recvmsg of reports", k);
        message = (struct msghdr){ .msg_iov = &part, .msg_iovlen = 1 };
        told(X(send, SERVER, fd, buffer, 4, MSG_NOSIGNAL), "%s: send", k);
        told(X(sendto, SERVER, fd, buffer, 4, MSG_NOSIGNAL, NULL, 0), "%s: sendto", k);
        told(X(sendmsg, SERVER, fd, &message, MSG_NOSIGNAL), "%s: sendmsg", k);
        told(X(write, SERVER, fd, buffer, 4), "%s: write", k);
        told(X(writev, SERVER, fd, &part, 1), "%s: writev", k);
        told(X(read, SERVER, fd, NULL, 4), "%s: read into NULL", k);
        told(X(getsockname, SERVER, fd, (struct sockaddr *)&space, &len), "%s: getsockname", k);
        told(X(getpeername, SERVER, fd, (struct sockaddr *)&space, &len), "%s: getpeername", k);
        told(X(getsockopt, SERVER, fd, SOL_SOCKET, SO_TYPE, &n, &len), "%s: getsockopt", k);
        told(X(setsockopt, SERVER, fd, SOL_SOCKET, SO_KEEPALIVE, &n, sizeof n), "%s: setsockopt", k);
        told(X(bind, SERVER, fd, NULL, 16), "%s: bind to NULL", k);
        told(X(connect, SERVER, fd, NULL, 16), "%s: connect to NULL", k);
        told(X(ioctl, SERVER, fd, FIONBIO, &(int){ 1 }), "%s: FIONBIO", k);
        told(X(ioctl, SERVER, fd, FIONREAD, &n), "%s: FIONREAD", k);
        told(FCNTL(SERVER, fd, F_SETFL, O_NONBLOCK), "%s: F_SETFL", k);
        struct epoll_event event = { .events = EPOLLIN | EPOLLOUT, .data.u64 = 7 };
        told(X(epoll_ctl, SERVER, epoll, EPOLL_CTL_MOD, fd, &event), "%s: watched by none yet", k);
        told(X(epoll_ctl, SERVER, epoll, EPOLL_CTL_ADD, fd, NULL), "%s: EPOLL_CTL_ADD from NULL", k);
        told(X(epoll_ctl, SERVER, epoll, EPOLL_CTL_ADD, fd, &event), "%s: EPOLL_CTL_ADD", k);
        told(X(epoll_ctl, SERVER, epoll, EPOLL_CTL_ADD, fd, &event), "%s: EPOLL_CTL_ADD again", k);
        told(X(epoll_ctl, SERVER, fd, EPOLL_CTL_ADD, spare, &event), "%s: as a set", k);
        told(X(epoll_wait, SERVER, fd, &event, 1, 0), "%s: epoll_wait", k);
        struct epoll_event found = { 0 };
        told(X(epoll_wait, SERVER, epoll, &found, 1, 0), "%s: what is ready", k);
        told((long)found.events, "%s: its events", k);
        told(X(epoll_ctl, SERVER, epoll, EPOLL_CTL_DEL, fd, NULL), "%s: EPOLL_CTL_DEL", k);
        struct pollfd row = { .fd = fd, .events = POLLIN | POLLOUT };
        told(X(poll, SERVER, &row, 1, 0), "%s: poll", k);
        told(row.revents, "%s: says", k);
        told(X(accept, SERVER, fd, NULL, NULL), "%s: accept", k);
        told(X(listen, SERVER, fd, 3) == 0 ? 0 : -1, "%s: listen", k);
        told(X(connect, SERVER, fd, SA(addr)), "%s: connect", k);
        told(X(shutdown, SERVER, fd, 9), "%s: shutdown in no way", k);
        told(X(shutdown, SERVER, fd, SHUT_WR), "%s: SHUT_WR", k);
        told(X(close, SERVER, fd), "%s: close", k);
    }
    X(close, SERVER, epoll);
    X(close, SERVER, spare);
    X(close, CLIENT, client);
}

static void sets(void)
{
    int server, client;
    char buffer[64];
    struct epoll_event found[4], event;
    told(X(epoll_create, SERVER, 0), "epoll_create(0)");
    told(X(epoll_create1, SERVER, 77), "epoll_create1(77)");
    int set = X(epoll_create1, SERVER, EPOLL_CLOEXEC), outer = X(epoll_create, SERVER, 1);
    pair(2013, &server, &client);
    told(X(epoll_wait, SERVER, set, found, 0, 0), "no events wanted");
    told(X(epoll_wait, SERVER, set, found, -1, 0), "-1 events wanted");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "an empty set");
    told(X(epoll_wait, SERVER, set, found, 4, 20), "for a while");
    event = (struct epoll_event){ .events = EPOLLIN, .data.u64 = 0x123456789abcdef };
    told(X(epoll_ctl, SERVER, set, 77, server, &event), "epoll_ctl of no kind");
    told(X(epoll_ctl, SERVER, set, EPOLL_CTL_ADD, set, &event), "a set in itself");
    told(X(epoll_ctl, SERVER, set, EPOLL_CTL_DEL, server, NULL), "deleted before");
    told(X(epoll_ctl, SERVER, set, EPOLL_CTL_ADD, server, &event), "added");
    told(X(epoll_ctl, SERVER, outer, EPOLL_CTL_ADD, set, &event), "a set in a set");
    told(X(epoll_ctl, SERVER, set, EPOLL_CTL_ADD, outer, &event), "in a circle");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "nothing yet");
    say(CLIENT, client, SERVER, server, "abc");
    told(X(epoll_wait, SERVER, set, found, 4, 1000), "level");
    told((long)found[0].events, "events");
    told(found[0].data.u64 == 0x123456789abcdef, "the word");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "level again");
    told(X(epoll_wait, SERVER, outer, found, 4, 0), "the outer set");
    told((long)found[0].events, "events");
    event.events = EPOLLIN | EPOLLET;
    told(X(epoll_ctl, SERVER, set, EPOLL_CTL_MOD, server, &event), "to edges");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "an edge");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "once");
    say(CLIENT, client, SERVER, server, "d");
    usleep(20000);
    told(X(epoll_wait, SERVER, set, found, 4, 1000), "another edge");
    event.events = EPOLLIN | EPOLLONESHOT;
    told(X(epoll_ctl, SERVER, set, EPOLL_CTL_MOD, server, &event), "to one shot");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "the shot");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "no more");
    told(X(epoll_ctl, SERVER, set, EPOLL_CTL_MOD, server, &event), "armed again");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "the shot");
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    X(epoll_ctl, SERVER, set, EPOLL_CTL_MOD, server, &event);
    told(X(epoll_wait, SERVER, set, found, 4, 0), "both");
    told((long)found[0].events, "events");
    X(read, SERVER, server, buffer, 64);
    told(X(epoll_wait, SERVER, set, found, 4, 0), "after read");
    told((long)found[0].events, "events");
    X(shutdown, CLIENT, client, SHUT_WR);
    await(SERVER, server, POLLRDHUP);
    told(X(epoll_wait, SERVER, set, found, 4, 1000), "the end");
    told((long)found[0].events, "events");
    int twin = X(dup, SERVER, server);
    told(X(epoll_ctl, SERVER, set, EPOLL_CTL_ADD, twin, &event), "its twin");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "both are ready");
    X(close, SERVER, twin);
    X(close, SERVER, server);
    told(X(epoll_wait, SERVER, set, found, 4, 0), "both are gone");
    X(close, CLIENT, client);
    int ends[2];
    told(X(pipe2, SERVER, ends, 1), "pipe2 with flags there are not");
    told(X(pipe, SERVER, NULL), "pipe into NULL");
    told(X(pipe2, SERVER, ends, O_NONBLOCK), "pipe2");
    event = (struct epoll_event){ .events = EPOLLIN };
    X(epoll_ctl, SERVER, set, EPOLL_CTL_ADD, ends[0], &event);
    told(X(epoll_wait, SERVER, set, found, 4, 0), "an empty pipe");
    told(X(write, SERVER, ends[1], "wake", 4), "write");
    told(X(epoll_wait, SERVER, set, found, 4, 0), "a pipe");
    told(X(read, SERVER, ends[0], buffer, 64), "read");
    told(X(read, SERVER, ends[0], buffer, 64), "read");
    X(close, SERVER, ends[1]);
    told(X(epoll_wait, SERVER, set, found, 4, 0), "a pipe nothing writes to");
    told((long)found[0].events, "events");
    told(X(read, SERVER, ends[0], buffer, 64), "read");
    X(close, SERVER, ends[0]);
    struct pollfd rows[3] = { { .fd = -1, .events = POLLIN }, { .fd = 9999, .events = POLLIN }, { .fd = -5 } };
    told(X(poll, SERVER, rows, 3, 0), "poll");
    told(rows[0].revents, "-1");
    told(rows[1].revents, "9999");
    told(X(poll, SERVER, NULL, 0, 10), "poll of nothing");
    told(X(poll, SERVER, NULL, 1, 10), "poll from NULL");
    X(close, SERVER, set);
    X(close, SERVER, outer);
}

static void several(void)
{
    int server, client;
    char text[3][4];
    struct iovec part[3];
    struct mmsghdr list[3];
    memset(list, 0, sizeof list);
    for (int i = 0; i < 3; i++) {
        part[i] = (struct iovec){ text[i], 4 };
        list[i].msg_hdr.msg_iov = &part[i];
        list[i].msg_hdr.msg_iovlen = 1;
        memcpy(text[i], "abcd", 4);
    }
    pair(2017, &server, &client);
    told(X(sendmmsg, SERVER, server, list, 3, MSG_NOSIGNAL), "sendmmsg");
    told(list[2].msg_len, "the third's length");
    told(X(sendmmsg, SERVER, server, list, 0, MSG_NOSIGNAL), "of none");
    told(X(sendmmsg, SERVER, server, NULL, 1, MSG_NOSIGNAL), "from NULL");
    told(X(sendmmsg, SERVER, -1, list, 1, MSG_NOSIGNAL), "to -1");
    told(X(recvmmsg, SERVER, server, list, 3, 0, NULL), "recvmmsg of nothing");
    say(CLIENT, client, SERVER, server, "0123456789");
    struct timespec limit = { 1, 0 }, odd = { 0, -1 };
    told(X(recvmmsg, SERVER, server, list, 3, 0, &odd), "for a negative time");
    told(X(recvmmsg, SERVER, server, list, 3, 0, &limit), "of ten bytes");
    told(list[0].msg_len, "the first's length");
    told(list[2].msg_len, "the third's length");
    told(limit.tv_sec == 0 && limit.tv_nsec > 0, "what is left of the time");
    told(memcmp(text[1], "4567", 4), "the second");
    say(CLIENT, client, SERVER, server, "01");
    told(X(recvmmsg, SERVER, server, list, 3, MSG_WAITFORONE, NULL), "MSG_WAITFORONE");
    told(X(recvmmsg, SERVER, server, list, 0, 0, NULL), "of none");
    told(X(recvmmsg, SERVER, server, NULL, 1, 0, NULL), "into NULL");
    told(X(recvmmsg, SERVER, -1, list, 1, 0, NULL), "of -1");
    X(shutdown, CLIENT, client, SHUT_WR);
    await(SERVER, server, POLLRDHUP);
    told(X(recvmmsg, SERVER, server, list, 3, 0, NULL), "of the end");
    told(list[2].msg_len, "the third's length");
    X(close, SERVER, server);
    X(close, CLIENT, client);
}

static void six(void)
{
    struct sockaddr_in6 addr = at6(SERVER, 2014), space;
    struct sockaddr_in addr4 = at(SERVER, 2015);
    socklen_t len = sizeof space;
    int on = 1, fd = new_socket(SERVER, AF_INET6);
    told(X(bind, SERVER, fd, SA(addr)), "bind");
    told(X(setsockopt, SERVER, fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), "IPV6_V6ONLY too late");
    told(X(listen, SERVER, fd, 5), "listen");
    int client = new_socket(CLIENT, AF_INET6);
    told(X(connect, CLIENT, client, SA(addr)), "connect");
    ready(SERVER, fd, POLLIN);
    int conn = told_fd(X(accept, SERVER, fd, (struct sockaddr *)&space, &len), "accept");
    told(len, "length");
    told(space.sin6_family, "family");
    X(close, SERVER, conn);
    X(close, SERVER, fd);
    X(close, CLIENT, client);
    fd = new_socket(SERVER, AF_INET6);
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(2015) };
    X(setsockopt, SERVER, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    told(X(bind, SERVER, fd, SA(any)), "bind to any");
    told(X(listen, SERVER, fd, 5), "listen");
    client = new_socket(CLIENT, AF_INET);
    told(X(connect, CLIENT, client, SA(addr4)), "connect of IPv4");
    ready(SERVER, fd, POLLIN);
    len = sizeof space;
    conn = told_fd(X(accept, SERVER, fd, (struct sockaddr *)&space, &len), "accept");
    told(len, "length");
    told(IN6_IS_ADDR_V4MAPPED(&space.sin6_addr), "is mapped");
    int domain;
    len = sizeof domain;
    told(X(getsockopt, SERVER, conn, SOL_SOCKET, SO_DOMAIN, &domain, &len), "SO_DOMAIN");
    told(domain, "is that of its listener");
    len = sizeof space;
    told(X(getsockname, SERVER, conn, (struct sockaddr *)&space, &len), "getsockname");
    told(len, "length");
    X(close, SERVER, conn);
    X(close, CLIENT, client);
    X(close, SERVER, fd);
    fd = new_socket(SERVER, AF_INET6);
    told(X(setsockopt, SERVER, fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), "IPV6_V6ONLY");
    struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(2016) };
    char text[64];
    snprintf(text, sizeof text, "::ffff:%s", ADDRESS[SERVER]);
    inet_pton(AF_INET6, text, &mapped.sin6_addr);
    told(X(bind, SERVER, fd, SA(mapped)), "bind of an IPv6-only socket to a mapped address");
    X(close, SERVER, fd);
    fd = new_socket(SERVER, AF_INET6);
    told(X(bind, SERVER, fd, SA(mapped)), "bind to a mapped address");
    told(X(listen, SERVER, fd, 5), "listen");
    X(close, SERVER, fd);
}

/* A connection that waits for its first data, and one whose client has nothing to say. */
static void deferred(void)
{
    int fd = listener(2019), seconds = 2, cpu = 0, offset = 3;
    struct sockaddr_in addr = at(SERVER, 2019);
    told(X(setsockopt, SERVER, fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds), "TCP_DEFER_ACCEPT");
    told(X(setsockopt, SERVER, fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset), "SO_PEEK_OFF");
    socklen_t len = sizeof cpu;
    told(X(getsockopt, SERVER, fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &len), "SO_INCOMING_CPU");
    told(cpu, "of a listener");
    for (int says = 0; says < 2; says++) {
        int client = new_socket(CLIENT, AF_INET), conn;
        X(connect, CLIENT, client, SA(addr));
        await(CLIENT, client, POLLOUT);
        told(X(accept, SERVER, fd, NULL, NULL), "accept at once");
        if (says)
            told(X(send, CLIENT, client, "question", 8, MSG_NOSIGNAL), "send");
        await(SERVER, fd, POLLIN);
        conn = told_fd(X(accept4, SERVER, fd, NULL, NULL, SOCK_NONBLOCK), says ? "accept after data" : "accept in the end");
        len = sizeof seconds;
        told(X(getsockopt, SERVER, conn, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, &len), "TCP_DEFER_ACCEPT");
        told(seconds, "of what was accepted");
        if (!says)
            say(CLIENT, client, SERVER, conn, "question");
        char text[8];
        told(X(recv, SERVER, conn, text, sizeof text, MSG_PEEK), "peek from where the listener's peeks began");
        told(text[0], "its first byte");
        told(X(recv, SERVER, conn, text, 4, 0), "recv");
        len = sizeof offset;
        told(X(getsockopt, SERVER, conn, SOL_SOCKET, SO_PEEK_OFF, &offset, &len), "SO_PEEK_OFF");
        told(offset, "moved back");
        len = sizeof cpu;
        told(X(getsockopt, SERVER, conn, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &len), "SO_INCOMING_CPU");
        told(cpu >= 0, "of a connection that has received");
        X(close, SERVER, conn);
        X(close, CLIENT, client);
    }
    X(close, SERVER, fd);
}

int main(int argc, char **argv)
{
    begin(argc > 1 ? argv[1] : "");
    static const struct { const char *name; void (*run)(void); } parts[] = {
        { "sockets", sockets },   { "names", names }, { "listening", listening }, { "connecting", connecting },
        { "bytes", bytes },     { "ends", ends },   { "timeouts", timeouts },   { "options", options },
        { "kinds", kinds },       { "sets", sets },   { "several", several }, { "six", six },
        { "signals", signals },   { "deferred", deferred },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        printf("# %s\n", parts[i].name);
        parts[i].run();
    }
    printf("# %d checks\n", checks);
    end();
    return 0;
}
