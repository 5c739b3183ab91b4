/* A master that waits for connections and accepts none: it starts this program, which accepts. The next one is started
 * when that has said that it has a connection, or has ended. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

extern char **environ;

/* Serves a connection, or as many as come within a tenth of a second. */
static int serve(int listener, int told, int again)
{
    char text[100];
    /* None of them stays when the master was killed. */
    alarm(60);
    do {
        int c = accept(listener, NULL, NULL);
        if (c < 0)
            return 1;
        if (told >= 0 && write(told, "a", 1) != 1)
            return 2;
        close(told);
        told = -1;
        usleep(5000);
        if (read(c, text, sizeof text) <= 0 || write(c, "child", 5) != 5)
            return 3;
        close(c);
    } while (again && poll(&(struct pollfd){ listener, POLLIN, 0 }, 1, 100) == 1);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5)
        return serve(atoi(argv[2]), atoi(argv[3]), strcmp(argv[4], "again") == 0);
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])) };
    int listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN };
    if (strcmp(argv[2], "reuse") == 0)
        setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &(int){ 1 }, sizeof(int));
    if (bind(listener, (struct sockaddr *)&name, sizeof name) != 0 || listen(listener, 128) != 0)
        return 1;
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int told[2], busy;
        char number[2][12], byte;
        if (strcmp(argv[2], "epoll") == 0)
            busy = epoll_wait(set, &event, 1, -1);
        else
            busy = poll(&(struct pollfd){ listener, POLLIN, 0 }, 1, -1);
        if (busy != 1 || pipe(told) != 0)
            return 2;
        snprintf(number[0], sizeof number[0], "%d", listener);
        snprintf(number[1], sizeof number[1], "%d", told[1]);
        char *words[] = { argv[0], argv[1], number[0], number[1], argv[2], NULL };
        pid_t child;
        if (strcmp(argv[2], "spawn") == 0) {
            if (posix_spawn(&child, argv[0], NULL, NULL, words, environ) != 0)
                return 3;
        } else if (fork() == 0) {
            execv(argv[0], words);
            _exit(4);
        }
        close(told[1]);
        if (read(told[0], &byte, 1) < 0)
            return 5;
        close(told[0]);
    }
}
