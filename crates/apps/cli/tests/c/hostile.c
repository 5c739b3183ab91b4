/* A server of port 7700 with a child for each connection. A child that is told "block", "leak" or "share" gives up root
 * and misuses its way to the parent, past the C library; the others answer with what they got. "count" is answered with
 * how many descriptors the parent has. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static long raw(long number, long a, long b, long c, long d, long e)
{
    long done;
    register long fourth asm("r10") = d;
    register long fifth asm("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(done)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return done;
}

static int option(int fd, int name)
{
    int value = -1, len = sizeof value;
    return raw(SYS_getsockopt, fd, SOL_SOCKET, name, (long)&value, (long)&len) ? -1 : value;
}

/* The way to the parent, which is hidden from this program. */
static int channel(void)
{
    int found = -1;
    for (int fd = 0; fd < 1 << 20; fd++)
        if (option(fd, SO_TYPE) == SOCK_SEQPACKET && option(fd, SO_DOMAIN) == AF_UNIX)
            found = fd;
    return found;
}

static long with(int to, uint64_t request, int count, int fd)
{
    uint64_t words[2] = { request, 0xdeadbeef };
    char control[CMSG_SPACE(8 * sizeof(int))] = "";
    struct iovec part = { words, sizeof words };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control };
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (int i = 0; i < count; i++)
        memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof fd);
    return raw(SYS_sendmsg, to, (long)&message, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
}

static void misuse(const char *how)
{
    int to = channel(), ends[2];
    uint64_t take[2] = { 1, 0xdeadbeef };
    for (int i = 0; i < 3000; i++) {
        long done = 0;
        if (!strcmp(how, "block"))
            done = raw(SYS_sendto, to, (long)take, sizeof take, MSG_NOSIGNAL | MSG_DONTWAIT, 0);
        else if (!strcmp(how, "leak") && pipe(ends) == 0) {
            done = with(to, 2, 4, to);
            raw(SYS_close, ends[0], 0, 0, 0, 0);
            raw(SYS_close, ends[1], 0, 0, 0, 0);
        } else if (!strcmp(how, "share") && raw(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0, (long)ends, 0) == 0) {
            done = with(to, 5, 1, ends[0]);
            raw(SYS_close, ends[0], 0, 0, 0, 0);
        }
        if (done < 0)
            usleep(100);
    }
}

static int descriptors(int pid)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *all = opendir(path);
    while (all && readdir(all))
        count++;
    return count;
}

int main(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(7700) };
    signal(SIGCHLD, SIG_IGN);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&any, sizeof any) || listen(listener, 100))
        return 1;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            return 2;
        if (fork() == 0) {
            char text[64] = "";
            int parent = getppid();
            close(listener);
            long got = read(connection, text, sizeof text - 1);
            text[strcspn(text, "\n")] = 0;
            if (!strcmp(text, "count"))
                got = snprintf(text, sizeof text, "%d", descriptors(parent));
            else if (strcmp(text, "hello")) {
                if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
                    _exit(1);
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                misuse(text);
                write(connection, "done", 4);
                pause();
            }
            write(connection, text, strlen(text));
            _exit(got < 0);
        }
        close(connection);
    }
}
