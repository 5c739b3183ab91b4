/* What closes and copies numbers: close_range, closefrom, dup2, fcntl. */
#include <linux/close_range.h>

static void numbers(void)
{
    int server, client;
    char text[16];
    pair(3040, &server, &client);
    int a = fcntl(server, F_DUPFD, 600), b = fcntl(server, F_DUPFD, 610), c = fcntl(server, F_DUPFD_CLOEXEC, 620);
    told(a, "F_DUPFD from 600 on");
    told(b, "from 610 on");
    told(c, "F_DUPFD_CLOEXEC");
    told(fcntl(a, F_GETFD), "F_GETFD");
    told(fcntl(c, F_GETFD), "F_GETFD of close-on-exec");
    told(fcntl(server, F_DUPFD, -1), "F_DUPFD from -1 on");
    told(fcntl(server, F_DUPFD, 100000000), "F_DUPFD from far above");
    told(close_range(600, 615, CLOSE_RANGE_CLOEXEC), "close_range, to be closed on exec");
    told(fcntl(a, F_GETFD), "the first");
    told(fcntl(b, F_GETFD), "the second");
    told(send(a, "x", 1, 0), "it is still there");
    told(close_range(605, 600, 0), "backwards");
    told(close_range(600, 610, 0x100), "with flags there are not");
    told(close_range(600, 609, 0), "close_range");
    told(fcntl(a, F_GETFD), "the first");
    told(send(a, "x", 1, 0), "is gone");
    told(send(b, "y", 1, 0), "the second is there");
    told(close_range(600, 700, 0), "of all");
    told(send(b, "x", 1, 0), "the second is gone");
    told(send(c, "x", 1, 0), "the third is gone");
    told(send(server, "z", 1, 0), "the first of all is there");
    told(drain(client, text, 3), "the peer has");
    told(memcmp(text, "xyz", 3), "the same");
    a = dup2(server, 650);
    told(dup2(server, server) == server, "dup2 to itself");
    told(dup3(server, server, 0), "dup3 to itself");
    told(dup3(server, 651, O_CLOEXEC), "dup3");
    told(fcntl(651, F_GETFD), "is closed on exec");
    told(dup3(server, 652, 0x40), "dup3 with flags there are not");
    told(dup2(server, -1), "dup2 to -1");
    told(dup2(-1, server), "dup2 of -1");
    told(send(server, "a", 1, 0), "which closed nothing");
    told(dup2(server, 100000000), "dup2 to far above");
    told(fcntl(a, F_GETFL), "F_GETFL of a twin");
    told(fcntl(a, F_SETFL, 0), "F_SETFL");
    told(fcntl(server, F_GETFL), "is the first's, too");
    told(fcntl(server, F_SETFD, FD_CLOEXEC), "F_SETFD");
    told(fcntl(a, F_GETFD), "is not the twin's");
    closefrom(640);
    told(send(a, "x", 1, 0), "closefrom has closed it");
    told(send(server, "b", 1, 0), "and not the first");
    int ends[2];
    pipe(ends);
    told(dup2(ends[0], server) == server, "the kernel's takes the number");
    told(send(server, "x", 1, 0), "which is a pipe now");
    told(drain(client, text, 2), "the peer has");
    told(raw_recv(client, text, 1, 0), "and the end");
    close(server);
    close(ends[0]);
    close(ends[1]);
    raw_close(client);
    pair(3041, &server, &client);
    told(close_range((unsigned)server, (unsigned)server, CLOSE_RANGE_UNSHARE), "unshared");
    told(fcntl(server, F_GETFD), "is gone");
    told(raw_recv(client, text, 1, MSG_DONTWAIT) <= 0 ? 0 : 1, "the peer has nothing");
    raw_close(client);
    /* From here on a call of this thread and the stack's own turn use each other's descriptors. */
    for (int i = 0; i < 7; i++) {
        pair(3043 + i, &server, &client);
        hang_up(server, client);
        told(i % 2 ? unshare(CLONE_FILES) : (int)syscall(SYS_unshare, CLONE_FILES), "a table of one's own");
    }
    pair(3042, &server, &client);
    struct stat status;
    char path[64], link[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", server);
    told(readlink(path, link, sizeof link - 1) > 0 ? strncmp(link, "socket:[", 8) : -1, "/proc/self/fd");
    told(fstat(server, &status), "fstat");
    told(S_ISSOCK(status.st_mode), "is a socket");
    told(stat(path, &status), "stat of its path");
    told(S_ISSOCK(status.st_mode), "is a socket");
    told(open(path, O_RDWR), "which cannot be opened");
    hang_up(server, client);
    told(readlink(path, link, sizeof link), "gone");
}
