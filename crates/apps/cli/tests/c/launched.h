/*
 * What the parts of launched.c share. The server's end is asked by the C library's own names; `raw_NAME` is the
 * kernel's socket in the other namespace, past the C library.
 */
#ifndef LAUNCHED_H
#define LAUNCHED_H
#include "ends.h"
#include <pthread.h>
#include <sys/stat.h>

/* A pair whose server's end blocks. */
static inline void blocking_pair(int port, int *server, int *client)
{
    pair(port, server, client);
    fcntl(*server, F_SETFL, 0);
    raw_fcntl(*client, F_SETFL, 0);
}

static inline void hang_up(int server, int client)
{
    if (server >= 0)
        close(server);
    if (client >= 0)
        raw_close(client);
}

/* Writes until nothing more goes, whatever buffers grow meanwhile; a window that is less than a segment is filled by a
 * probe, after a retransmission timeout. */
static inline void stuff(int server, const char *from, size_t len)
{
    for (int quiet = 0; quiet < 12; usleep(50000), quiet++)
        while (send(server, from, len, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            quiet = 0;
}

/* Sends from the client's end and waits until all of it can be read. */
static inline void arrive(int client, int server, const char *text)
{
    int there = 0, before = 0;
    ioctl(server, FIONREAD, &before);
    raw_send(client, text, strlen(text), MSG_NOSIGNAL);
    for (int i = 0; i < 2000 && there < before + (int)strlen(text); i++) {
        usleep(1000);
        ioctl(server, FIONREAD, &there);
    }
}

/* Reads `len` bytes at the client's end; how many came. */
static inline long drain(int client, char *to, size_t len)
{
    size_t all = 0;
    struct pollfd row = { .fd = client, .events = POLLIN };
    while (all < len && raw_poll(&row, 1, 3000) > 0) {
        long got = raw_recv(client, to + all, len - all, 0);
        if (got <= 0)
            break;
        all += (size_t)got;
    }
    return (long)all;
}

static inline void fill(char *to, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (char)((i * 2654435761u + seed) >> 13);
}

static inline long ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
