/*
 * The two ends of a program that compares calls, SERVER and CLIENT: with the kernel both are its loopback, with us
 * (-DMILLSTREAM) two contexts joined by shared memory (argv[1] is where they meet, the variable MODE their mode). With -DLAUNCHED the server's end is
 * whatever the C library's calls lead to, and the client's end is the kernel's in the network namespace argv[1], past
 * the C library. And what tells of a check, one line each.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

enum { SERVER, CLIENT };

#ifdef MILLSTREAM
#include <millstream.h>
static struct ms_ctx *ctx[2];
#define X(name, side, ...) ms_##name(ctx[side], __VA_ARGS__)
static const char *ADDRESS[] = { "10.9.0.1", "10.9.0.2" };
static const char *ADDRESS6[] = { "fd09::1", "fd09::2" };
#define FCNTL(side, fd, command, arg) ms_fcntl(ctx[side], fd, command, arg)
static void begin(const char *meet)
{
    char link[300];
    const char *mode = getenv("MODE");
    snprintf(link, sizeof link, "shm:%s", meet);
    for (int side = 0; side < 2; side++) {
        const char *list[] = { "link", link, "address", side ? "10.9.0.2/24,fd09::2/64" : "10.9.0.1/24,fd09::1/64",
                               "seed", side ? "5" : "6", "mode", mode ? mode : "direct", NULL };
        if (!(ctx[side] = ms_open(list))) {
            fprintf(stderr, "%s\n", ms_error());
            exit(1);
        }
    }
}
static void end(void)
{
    for (int side = 1; side >= 0; side--)
        ms_close_ctx(ctx[side], 200);
}
#elif defined LAUNCHED
#include <sched.h>
#include <sys/syscall.h>
static const char *ADDRESS[] = { "10.77.0.1", "10.77.1.1" };
static const char *ADDRESS6[] = { "fd77::1", "fd77::2" };
static int home, away;
static long raw(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    if (number == SYS_socket)
        setns(away, CLONE_NEWNET);
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    if (number == SYS_socket)
        setns(home, CLONE_NEWNET);
    if (result < 0) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
#define SYS_recv SYS_recvfrom
#define SYS_send SYS_sendto
#define RAW1(name, A) \
    static long raw_##name(A a) { return raw(SYS_##name, (long)a, 0, 0, 0, 0, 0); }
#define RAW2(name, A, B) \
    static long raw_##name(A a, B b) { return raw(SYS_##name, (long)a, (long)b, 0, 0, 0, 0); }
#define RAW3(name, A, B, C) \
    static long raw_##name(A a, B b, C c) { return raw(SYS_##name, (long)a, (long)b, (long)c, 0, 0, 0); }
#define RAW4(name, A, B, C, D) \
    static long raw_##name(A a, B b, C c, D d) { return raw(SYS_##name, (long)a, (long)b, (long)c, (long)d, 0, 0); }
#define RAW5(name, A, B, C, D, E) \
    static long raw_##name(A a, B b, C c, D d, E e) \
    { \
        return raw(SYS_##name, (long)a, (long)b, (long)c, (long)d, (long)e, 0); \
    }
#define RAW6(name, A, B, C, D, E, F) \
    static long raw_##name(A a, B b, C c, D d, E e, F f) \
    { \
        return raw(SYS_##name, (long)a, (long)b, (long)c, (long)d, (long)e, (long)f); \
    }
RAW3(socket, int, int, int)
RAW3(bind, int, const void *, socklen_t)
RAW2(listen, int, int)
RAW3(accept, int, void *, socklen_t *)
RAW4(accept4, int, void *, socklen_t *, int)
RAW3(connect, int, const void *, socklen_t)
RAW2(shutdown, int, int)
RAW3(getsockname, int, void *, socklen_t *)
RAW3(getpeername, int, void *, socklen_t *)
RAW5(getsockopt, int, int, int, void *, socklen_t *)
RAW5(setsockopt, int, int, int, const void *, socklen_t)
RAW3(read, int, void *, size_t)
RAW3(write, int, const void *, size_t)
RAW3(readv, int, const void *, int)
RAW3(writev, int, const void *, int)
RAW4(recv, int, void *, size_t, int)
RAW4(send, int, const void *, size_t, int)
RAW6(recvfrom, int, void *, size_t, int, void *, socklen_t *)
RAW6(sendto, int, const void *, size_t, int, const void *, socklen_t)
RAW3(recvmsg, int, void *, int)
RAW3(sendmsg, int, const void *, int)
RAW5(recvmmsg, int, void *, unsigned, int, void *)
RAW4(sendmmsg, int, void *, unsigned, int)
RAW1(close, int)
RAW1(dup, int)
RAW3(fcntl, int, int, long)
RAW3(ioctl, int, unsigned long, void *)
RAW3(poll, void *, nfds_t, int)
RAW1(pipe, int *)
RAW2(pipe2, int *, int)
RAW1(epoll_create, int)
RAW1(epoll_create1, int)
RAW4(epoll_ctl, int, int, int, void *)
RAW4(epoll_wait, int, void *, int, int)
#define X(name, side, ...) ((side) == SERVER ? (long)name(__VA_ARGS__) : raw_##name(__VA_ARGS__))
#define FCNTL(side, fd, command, arg) X(fcntl, side, fd, command, arg)
static void begin(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "/var/run/netns/%s", name);
    signal(SIGPIPE, SIG_IGN);
    home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    away = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0 || away < 0) {
        perror(path);
        exit(1);
    }
}
static void end(void) {}
#else
#define X(name, side, ...) ((void)(side), name(__VA_ARGS__))
#define FCNTL(side, fd, command, arg) ((void)(side), fcntl(fd, command, arg))
static const char *ADDRESS[] = { "127.0.0.1", "127.0.0.2" };
static const char *ADDRESS6[] = { "::1", "::1" };
static void begin(const char *meet)
{
    (void)meet;
    signal(SIGPIPE, SIG_IGN);
}
static void end(void) {}
#endif

static int checks;

static const char *name_of(int e)
{
    static char text[32];
    const char *name = e ? strerrorname_np(e) : "";
    snprintf(text, sizeof text, "%s", name ? name : "?");
    return text;
}

/* One check: what was asked, what came back, and errno where it failed. */
static long told(long result, const char *format, ...)
{
    int e = errno;
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf(" = %ld%s%s\n", result, result < 0 ? " " : "", result < 0 ? name_of(e) : "");
    fflush(stdout);
    checks++;
    return result;
}

/* The same for calls that give a descriptor, whose number does not matter. */
static int told_fd(int fd, const char *what)
{
    told(fd < 0 ? fd : 0, "%s", what);
    return fd;
}

static struct sockaddr_in at(int side, int port)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    inet_pton(AF_INET, ADDRESS[side], &addr.sin_addr);
    return addr;
}

static struct sockaddr_in6 at6(int side, int port)
{
    struct sockaddr_in6 addr = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    inet_pton(AF_INET6, ADDRESS6[side], &addr.sin6_addr);
    return addr;
}

#define SA(addr) (struct sockaddr *)&(addr), sizeof(addr)

/* Waits until any of `events` is there; what is. */
static int ready(int side, int fd, int events)
{
    struct pollfd row = { .fd = fd, .events = (short)events };
    return X(poll, side, &row, 1, 2000) < 0 ? -1 : row.revents;
}

/* Waits for what a peer has caused, however long that takes; events of 0 wait for the end (POLLHUP, POLLERR). */
static void await(int side, int fd, int events)
{
    struct pollfd row = { .fd = fd, .events = (short)events };
    if (X(poll, side, &row, 1, 20000) != 1) {
        fprintf(stderr, "nothing of %#x came to %d in 20 s\n", events, fd);
        exit(1);
    }
}

static int new_socket(int side, int family)
{
    return X(socket, side, family, SOCK_STREAM | SOCK_NONBLOCK, 0);
}

static int listener(int port)
{
    int fd = new_socket(SERVER, AF_INET), on = 1;
    struct sockaddr_in addr = at(SERVER, port);
    X(setsockopt, SERVER, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (X(bind, SERVER, fd, SA(addr)) < 0 || X(listen, SERVER, fd, 16) < 0) {
        perror("listener");
        exit(1);
    }
    return fd;
}

/* A pair of connected, non-blocking sockets. */
static void pair(int port, int *server, int *client)
{
    int fd = listener(port);
    struct sockaddr_in addr = at(SERVER, port);
    *client = new_socket(CLIENT, AF_INET);
    if (X(connect, CLIENT, *client, SA(addr)) < 0 && errno != EINPROGRESS) {
        perror("connect");
        exit(1);
    }
    ready(SERVER, fd, POLLIN);
    *server = X(accept4, SERVER, fd, NULL, NULL, SOCK_NONBLOCK);
    ready(CLIENT, *client, POLLOUT);
    X(close, SERVER, fd);
    if (*server < 0) {
        perror("accept");
        exit(1);
    }
}

/* Sends and waits until it is there. */
static void say(int from, int fd, int to, int peer, const char *text)
{
    X(send, from, fd, text, strlen(text), MSG_NOSIGNAL);
    ready(to, peer, POLLIN);
}
