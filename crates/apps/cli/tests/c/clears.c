/* A server that clears its environment before its first socket: `clears PORT`. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    clearenv();
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0) };
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 5)) {
        perror("listen");
        return 1;
    }
    int connection = accept(listener, NULL, NULL);
    char line[100];
    read(connection, line, sizeof line);
    write(connection, "hi", 2);
    close(connection);
    /* Long enough to be looked at. */
    sleep(5);
    return 0;
}
