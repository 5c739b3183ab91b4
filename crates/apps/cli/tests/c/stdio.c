/* A connection on the numbers 0 and 1, used by the C library's streams: `stdio PORT same|child`. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int serve(int connection)
{
    dup2(connection, 0);
    dup2(connection, 1);
    close(connection);
    char line[100];
    if (!fgets(line, sizeof line, stdin)) {
        perror("fgets");
        return 1;
    }
    int on = 1, is = 0;
    socklen_t len = sizeof is;
    setsockopt(1, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    getsockopt(0, IPPROTO_TCP, TCP_NODELAY, &is, &len);
    struct sockaddr_storage peer;
    len = sizeof peer;
    getpeername(0, (struct sockaddr *)&peer, &len);
    /* It is emptied by exit. */
    printf("echo %s nodelay %d family %d", line, is, peer.ss_family);
    return 0;
}

int main(int argc, char **argv)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])) };
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (argc < 3 || bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 5)) {
        perror("listen");
        return 1;
    }
    int connection = accept(listener, NULL, NULL);
    if (!strcmp(argv[2], "same"))
        return serve(connection);
    if (fork() == 0)
        return serve(connection);
    close(connection);
    wait(NULL);
    return 0;
}
