/* One direction of data between two hosts, with ordinary calls, so that either TCP can carry it.
 *
 *   transfer receive ADDR PORT CONNECTIONS [half]
 *   transfer send ADDR PORT FLOWS ROUNDS BYTES PIECE EVERY_US [half]
 *
 * The sender opens FLOWS connections at a time, ROUNDS times one after the other. On each it writes BYTES bytes, PIECE
 * with one call (0: 64 KiB) and EVERY_US microseconds from one call to the next, then half-closes and waits for the
 * receiver's FIN.
 * The receiver prints "ready" when it listens. It reads each connection to its end, closes it, and prints in microseconds
 * how long each took from being accepted to its end: {"us":[...],"bytes":N}.
 * With "half" the receiver half-closes first and the sender waits for that, so that data flows on a half-closed
 * connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 65536

static struct sockaddr_in peer;
static int half;
static unsigned long long total, piece, every_us;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static unsigned long long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000 + (unsigned long long)t.tv_nsec / 1000;
}

static void wait_for_end(int fd, const char *what) {
    char byte;
    ssize_t got = read(fd, &byte, 1);
    if (got < 0) die(what);
    if (got > 0) fprintf(stderr, "transfer: data where none was due\n"), exit(1);
}

static void *send_one(void *arg) {
    static char data[64 << 10];
    (void)arg;
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0) die("socket");
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer)) die("connect");
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) die("TCP_NODELAY");
    if (half) wait_for_end(fd, "read");
    unsigned long long due = now_us();
    for (unsigned long long left = total; left > 0;) {
        unsigned long long some = piece && piece < sizeof data ? piece : sizeof data;
        ssize_t put = write(fd, data, left < some ? left : some);
        if (put < 0) die("write");
        left -= (unsigned long long)put;
        due += every_us;
        unsigned long long now = now_us();
        if (every_us && due > now) usleep((useconds_t)(due - now));
    }
    if (shutdown(fd, SHUT_WR)) die("shutdown");
    if (!half) wait_for_end(fd, "read");
    close(fd);
    return NULL;
}

static int sending(char **argv) {
    int flows = atoi(argv[0]), rounds = atoi(argv[1]);
    total = strtoull(argv[2], NULL, 10), piece = strtoull(argv[3], NULL, 10), every_us = strtoull(argv[4], NULL, 10);
    pthread_t threads[64];
    if (flows < 1 || flows > 64) return 2;
    for (int round = 0; round < rounds; round++) {
        for (int i = 1; i < flows; i++)
            if (pthread_create(&threads[i], NULL, send_one, NULL)) die("thread");
        send_one(NULL);
        for (int i = 1; i < flows; i++)
            if (pthread_join(threads[i], NULL)) die("thread");
    }
    return 0;
}

static unsigned long long took[MOST], bytes;

static void *receive_one(void *arg) {
    int *which = arg, fd = which[0];
    unsigned long long began = now_us(), mine = 0;
    char *data = malloc(1 << 20);
    if (!data) die("memory");
    if (half && shutdown(fd, SHUT_WR)) die("shutdown");
    for (;;) {
        ssize_t got = read(fd, data, 1 << 20);
        if (got < 0) die("read");
        if (got == 0) break;
        mine += (unsigned long long)got;
    }
    took[which[1]] = now_us() - began;
    __atomic_add_fetch(&bytes, mine, __ATOMIC_SEQ_CST);
    close(fd);
    free(data);
    free(which);
    return NULL;
}

static int receiving(int connections) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    pthread_t *threads = calloc((size_t)connections, sizeof *threads);
    if (listener < 0 || !threads || connections < 1 || connections > MOST) die("socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&peer, sizeof peer) || listen(listener, 1024)) die("listen");
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < connections; i++) {
        int *which = malloc(2 * sizeof *which);
        if (!which) die("memory");
        which[0] = accept(listener, NULL, NULL), which[1] = i;
        if (which[0] < 0) die("accept");
        if (pthread_create(&threads[i], NULL, receive_one, which)) die("thread");
    }
    for (int i = 0; i < connections; i++)
        if (pthread_join(threads[i], NULL)) die("thread");
    printf("{\"us\":[");
    for (int i = 0; i < connections; i++) printf("%s%llu", i ? "," : "", took[i]);
    printf("],\"bytes\":%llu}\n", bytes);
    return 0;
}

int main(int argc, char **argv) {
    half = argc > 1 && !strcmp(argv[argc - 1], "half");
    argc -= half;
    if (argc >= 4) {
        peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[3]))};
        if (inet_pton(AF_INET, argv[2], &peer.sin_addr) != 1) die("address");
        if (!strcmp(argv[1], "receive") && argc == 5) return receiving(atoi(argv[4]));
        if (!strcmp(argv[1], "send") && argc == 9) return sending(argv + 4);
    }
    fprintf(stderr, "usage: transfer receive ADDR PORT CONNECTIONS [half]\n"
                    "       transfer send ADDR PORT FLOWS ROUNDS BYTES PIECE EVERY_US [half]\n");
    return 2;
}
