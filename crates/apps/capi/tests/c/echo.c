/* A server of the kernel's: what comes goes back, one connection after the other.
 *
 *     echo PORT
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argc > 1 ? argv[1] : "7")) };
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, fd;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) < 0 || listen(listener, 16) < 0) {
        perror("listen");
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        char buffer[65536];
        ssize_t n;
        while ((n = read(fd, buffer, sizeof buffer)) > 0)
            for (ssize_t sent = 0, put; sent < n; sent += put)
                if ((put = send(fd, buffer + sent, (size_t)(n - sent), MSG_NOSIGNAL)) < 0)
                    break;
        close(fd);
    }
    return 0;
}
