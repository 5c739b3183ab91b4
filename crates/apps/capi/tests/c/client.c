/* The kernel's side of the tests: connects, sends a pattern, wants the same back, and then the end.
 *
 *     client ADDRESS PORT BYTES
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned char byte(size_t at)
{
    return (unsigned char)(at * 2654435761u >> 13);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    size_t len = strtoul(argv[3], NULL, 10), sent = 0, got = 0;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2])) };
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval timeout = { .tv_sec = 20 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        perror("connect");
        return 1;
    }
    unsigned char buffer[10000];
    while (got < len) {
        struct pollfd row = { .fd = fd, .events = (short)(POLLIN | (sent < len ? POLLOUT : 0)) };
        if (poll(&row, 1, 20000) != 1) {
            fprintf(stderr, "nothing for 20 s: %zu sent, %zu received\n", sent, got);
            return 1;
        }
        if (row.revents & POLLOUT) {
            size_t piece = len - sent < sizeof buffer ? len - sent : sizeof buffer;
            for (size_t i = 0; i < piece; i++)
                buffer[i] = byte(sent + i);
            ssize_t n = send(fd, buffer, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN) {
                perror("send");
                return 1;
            }
            sent += n > 0 ? (size_t)n : 0;
            if (sent == len)
                shutdown(fd, SHUT_WR);
        }
        if (row.revents & POLLIN) {
            ssize_t n = recv(fd, buffer, sizeof buffer, 0);
            if (n <= 0) {
                fprintf(stderr, "the end after %zu of %zu bytes\n", got, len);
                return 1;
            }
            for (ssize_t i = 0; i < n; i++)
                if (buffer[i] != byte(got + (size_t)i)) {
                    fprintf(stderr, "byte %zu differs\n", got + (size_t)i);
                    return 1;
                }
            got += (size_t)n;
        }
    }
    if (recv(fd, buffer, 1, 0) != 0) {
        fprintf(stderr, "no end after %zu bytes\n", got);
        return 1;
    }
    printf("%zu bytes are the same\n", got);
    return 0;
}
