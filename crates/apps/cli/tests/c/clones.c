/* A server of port 7600 that makes a child for each connection, another way each time, and says which. The last way is
 * none that a library can see: its child finds that it has no connection, and the parent serves on. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char stack[1 << 18];
static int connection;

static void answer(const char *who, int way)
{
    char text[64];
    read(connection, text, sizeof text);
    int len = snprintf(text, sizeof text, "%s %d", who, way);
    if (write(connection, text, len) != len)
        perror(who);
}

static int child(void *way)
{
    answer("child", (int)(long)way);
    _exit(0);
}

static long unseen(long flags)
{
    long made;
    register long none asm("r10") = 0;
    __asm__ volatile("syscall"
                     : "=a"(made)
                     : "a"((long)SYS_clone), "D"(flags), "S"(0L), "d"(0L), "r"(none)
                     : "rcx", "r11", "memory");
    return made;
}

static long make(int way)
{
    struct clone_args args = { .exit_signal = SIGCHLD }, waits = { .exit_signal = SIGCHLD };
    waits.flags = CLONE_VM | CLONE_VFORK;
    switch (way) {
    case 0: return fork();
    case 1: return syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    case 2: return syscall(SYS_clone, (long)(SIGCHLD | CLONE_NEWNS), 0L, 0L, 0L, 0L);
    case 3: return clone(child, stack + sizeof stack, SIGCHLD, (void *)3L);
    case 4: return clone(child, stack + sizeof stack, SIGCHLD | CLONE_VM | CLONE_VFORK, (void *)4L);
    case 5: return syscall(SYS_clone3, &args, sizeof args);
    case 6: return syscall(SYS_clone3, &waits, sizeof waits);
    case 7: return syscall(SYS_fork);
    case 8: return _Fork();
    default: return unseen(SIGCHLD);
    }
}

int main(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(7600) };
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&any, sizeof any) || listen(listener, 50))
        return 1;
    for (int way = 0;; way = (way + 1) % 10) {
        connection = accept(listener, NULL, NULL);
        if (connection < 0)
            return 2;
        if (way == 0) {
            /* What shares one of memory and descriptors is refused. */
            errno = 0;
            if (clone(child, stack + sizeof stack, SIGCHLD | CLONE_VM, NULL) != -1 || errno != EINVAL)
                return 3;
        }
        long made = make(way);
        if (made < 0)
            return 4;
        if (made == 0 && way < 9)
            child((void *)(long)way);
        if (made == 0)
            _exit(read(connection, stack, 1) == -1 && errno == ENOTCONN ? 9 : 1);
        int status = -1;
        if (waitpid((pid_t)made, &status, 0) != made || !WIFEXITED(status))
            return 5;
        if (WEXITSTATUS(status) == 9)
            answer("parent", way);
        close(connection);
    }
}
