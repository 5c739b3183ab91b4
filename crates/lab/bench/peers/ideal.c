/* The ideal responder: answers over AF_XDP with prepared segments and keeps no state at all. What it costs is
 * the floor that the link and the client's own kernel leave; no TCP stack can be below it.
 *
 *   ideal IFACE PORT BODY_BYTES [native]
 *
 * SYN -> SYN-ACK (MSS and window scale, no timestamps). Data -> the answer, with FIN when the request says
 * "Connection: close". FIN -> ACK. Everything else -> nothing. Retransmits nothing, checks nothing.
 * Its program runs in the network stack, where ours runs on veth, or in the driver.
 * IPv4 only. Prints "ready", and on SIGTERM its CPU time in microseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAMES 4096
#define FRAME 2048
#define RING 2048

static volatile sig_atomic_t ending;
static void on_term(int sig) { (void)sig; ending = 1; }
static void die(const char *what) { perror(what); exit(1); }
static int bpf(int cmd, union bpf_attr *attr) { return (int)syscall(SYS_bpf, cmd, attr, sizeof *attr); }

struct ring { uint32_t *producer, *consumer, *flags; void *desc; };

static struct ring map_ring(int fd, struct xdp_ring_offset *o, uint64_t at, size_t entry) {
    char *m = mmap(NULL, o->desc + RING * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)at);
    if (m == MAP_FAILED) die("mmap ring");
    return (struct ring){(uint32_t *)(m + o->producer), (uint32_t *)(m + o->consumer), (uint32_t *)(m + o->flags), m + o->desc};
}

static uint32_t load(uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

#define INSN(c, d, s, o, i) ((struct bpf_insn){.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)})

/* if IPv4 (no options), TCP and destination port ours: redirect to the socket of the queue; else pass. */
static int load_program(int map, int port) {
    struct bpf_insn prog[] = {
        INSN(BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0),
        INSN(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 0, 0),          /* data */
        INSN(BPF_LDX | BPF_MEM | BPF_W, 3, 1, 4, 0),          /* data_end */
        INSN(BPF_ALU64 | BPF_MOV | BPF_X, 4, 2, 0, 0),
        INSN(BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, 54),
        INSN(BPF_JMP | BPF_JGT | BPF_X, 4, 3, 14, 0),
        INSN(BPF_LDX | BPF_MEM | BPF_H, 5, 2, 12, 0),
        INSN(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 12, 0x0008),
        INSN(BPF_LDX | BPF_MEM | BPF_B, 5, 2, 14, 0),
        INSN(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 10, 0x45),
        INSN(BPF_LDX | BPF_MEM | BPF_B, 5, 2, 23, 0),
        INSN(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 8, 6),
        INSN(BPF_LDX | BPF_MEM | BPF_H, 5, 2, 36, 0),
        INSN(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 6, htons((uint16_t)port)),
        INSN(BPF_LDX | BPF_MEM | BPF_W, 2, 6, 16, 0),         /* rx_queue_index */
        INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map),
        INSN(0, 0, 0, 0, 0),
        INSN(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS),
        INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map),
        INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
        INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_PASS),
        INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    static char log[65536];
    union bpf_attr a = {.prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)prog, .insn_cnt = sizeof prog / sizeof *prog,
                        .license = (uintptr_t) "MIT", .prog_flags = BPF_F_XDP_HAS_FRAGS, .log_buf = (uintptr_t)log, .log_size = sizeof log, .log_level = 1};
    int fd = bpf(BPF_PROG_LOAD, &a);
    if (fd < 0) { fputs(log, stderr); die("load program"); }
    return fd;
}

static uint64_t sum(const uint8_t *p, size_t n, uint64_t s) {
    for (; n >= 4; p += 4, n -= 4) { uint32_t w; memcpy(&w, p, 4); s += w; }
    if (n >= 2) { uint16_t w; memcpy(&w, p, 2); s += w; p += 2; n -= 2; }
    if (n) s += *p;
    return s;
}

static uint16_t fold(uint64_t s) {
    while (s >> 16) s = (s & 0xffff) + (s >> 16);
    return (uint16_t)~s;
}

static char *answer;
static size_t answer_len;
static uint64_t answer_sum;

static uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return ntohl(v); }
static void put32(uint8_t *p, uint32_t v) { v = htonl(v); memcpy(p, &v, 4); }
static void put16(uint8_t *p, uint16_t v) { v = htons(v); memcpy(p, &v, 2); }

/* Turns the packet in place into its answer; its new length, 0 for none. */
static size_t respond(uint8_t *f, size_t len) {
    uint8_t *ip = f + 14, *t = f + 34, tmp[6];
    if (len < 54) return 0;
    size_t total = (size_t)ip[2] << 8 | ip[3], head = (size_t)(t[12] >> 4) * 4;
    if (total < 20 + head || total + 14 > len) return 0;
    size_t payload = total - 20 - head;
    uint32_t seq = get32(t + 4), ack = get32(t + 8);
    uint8_t flags = t[13], out;
    size_t data = 0, options = 0;
    uint32_t my_seq = ack, my_ack;
    if (flags & 4) return 0;
    if (flags & 2) {
        out = 0x12; my_seq = 1; my_ack = seq + 1; options = 8;
    } else if (payload) {
        int closing = memmem(t + head, payload, "onnection: close", 16) != NULL;
        out = closing ? 0x19 : 0x18; my_ack = seq + (uint32_t)payload; data = answer_len;
    } else if (flags & 1) {
        out = 0x10; my_ack = seq + 1;
    } else return 0;
    memcpy(tmp, f, 6); memcpy(f, f + 6, 6); memcpy(f + 6, tmp, 6);
    memcpy(tmp, ip + 12, 4); memcpy(ip + 12, ip + 16, 4); memcpy(ip + 16, tmp, 4);
    memcpy(tmp, t, 2); memcpy(t, t + 2, 2); memcpy(t + 2, tmp, 2);
    put32(t + 4, my_seq); put32(t + 8, my_ack);
    t[12] = (uint8_t)((20 + options) / 4 << 4); t[13] = out;
    put16(t + 14, 65535); t[16] = t[17] = t[18] = t[19] = 0;
    if (options) memcpy(t + 20, "\x02\x04\x05\xb4\x01\x03\x03\x07", 8);
    if (data) memcpy(t + 20, answer, data);
    size_t tcp_len = 20 + options + data;
    put16(ip + 2, (uint16_t)(20 + tcp_len)); ip[6] = 0x40; ip[7] = 0; ip[8] = 64; ip[10] = ip[11] = 0;
    uint16_t c = fold(sum(ip, 20, 0));
    memcpy(ip + 10, &c, 2);
    uint64_t s = sum(ip + 12, 8, 0) + htons(6) + htons((uint16_t)tcp_len);
    s = sum(t, 20 + options, s) + (data ? answer_sum : 0);
    c = fold(s);
    memcpy(t + 16, &c, 2);
    return 34 + tcp_len;
}

int main(int argc, char **argv) {
    if (argc < 4) { fprintf(stderr, "usage: ideal IFACE PORT BODY_BYTES [native]\n"); return 2; }
    int ifindex = (int)if_nametoindex(argv[1]), port = atoi(argv[2]);
    size_t body = strtoul(argv[3], NULL, 10);
    int native = argc > 4 && !strcmp(argv[4], "native");
    if (!ifindex) die(argv[1]);
    if (body > 1200) { fprintf(stderr, "ideal: at most 1200 bytes of body\n"); return 2; }
    struct sigaction term = {.sa_handler = on_term};
    sigaction(SIGTERM, &term, NULL);
    answer = calloc(1, body + 256);
    answer_len = (size_t)sprintf(answer, "HTTP/1.1 200 OK\r\nServer: ideal\r\nContent-Length: %zu\r\n\r\n", body) + body;
    memset(answer + answer_len - body, 'x', body);
    answer_sum = sum((uint8_t *)answer, answer_len, 0);
    struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &unlimited);

    uint8_t *umem = mmap(NULL, FRAMES * FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    int fd = socket(AF_XDP, SOCK_RAW, 0);
    if (fd < 0) die("socket AF_XDP");
    struct xdp_umem_reg reg = {.addr = (uintptr_t)umem, .len = FRAMES * FRAME, .chunk_size = FRAME};
    if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof reg)) die("umem");
    int size = RING;
    for (int o = XDP_RX_RING; o <= XDP_UMEM_COMPLETION_RING; o++)
        if (o != XDP_UMEM_REG && setsockopt(fd, SOL_XDP, o, &size, sizeof size)) die("ring");
    struct xdp_mmap_offsets off;
    socklen_t off_len = sizeof off;
    if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &off, &off_len)) die("offsets");
    struct ring rx = map_ring(fd, &off.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
    struct ring tx = map_ring(fd, &off.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
    struct ring fill = map_ring(fd, &off.fr, XDP_UMEM_PGOFF_FILL_RING, 8);
    struct ring comp = map_ring(fd, &off.cr, XDP_UMEM_PGOFF_COMPLETION_RING, 8);
    for (uint32_t i = 0; i < RING; i++) ((uint64_t *)fill.desc)[i] = (uint64_t)i * FRAME;
    store(fill.producer, RING);
    struct sockaddr_xdp sxdp = {.sxdp_family = AF_XDP, .sxdp_ifindex = (uint32_t)ifindex, .sxdp_flags = XDP_USE_NEED_WAKEUP | XDP_COPY};
    /* The kernel gives a queue back a moment after its last owner closed it. */
    for (int tries = 0; bind(fd, (struct sockaddr *)&sxdp, sizeof sxdp); tries++) {
        if (errno != EBUSY || tries == 100) die("bind");
        usleep(10000);
    }

    union bpf_attr a = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
    int map = bpf(BPF_MAP_CREATE, &a);
    if (map < 0) die("map");
    uint32_t key = 0;
    a = (union bpf_attr){.map_fd = (uint32_t)map, .key = (uintptr_t)&key, .value = (uintptr_t)&fd};
    if (bpf(BPF_MAP_UPDATE_ELEM, &a)) die("map update");
    int prog = load_program(map, port);
    a = (union bpf_attr){.link_create = {.prog_fd = (uint32_t)prog, .target_ifindex = (uint32_t)ifindex, .attach_type = BPF_XDP, .flags = native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE}};
    if (bpf(BPF_LINK_CREATE, &a) < 0) die("attach");
    printf("ready\n");
    fflush(stdout);

    uint32_t rx_at = 0, tx_at = 0, fill_at = RING, comp_at = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (!ending) {
        uint32_t have = load(rx.producer) - rx_at, sent = 0;
        while (comp_at != load(comp.producer)) {
            ((uint64_t *)fill.desc)[fill_at++ % RING] = ((uint64_t *)comp.desc)[comp_at++ % RING] / FRAME * FRAME;
            store(comp.consumer, comp_at);
        }
        if (have > 64) have = 64;
        for (uint32_t i = 0; i < have; i++) {
            struct xdp_desc d = ((struct xdp_desc *)rx.desc)[rx_at++ % RING];
            size_t n = respond(umem + d.addr, d.len);
            if (n) {
                ((struct xdp_desc *)tx.desc)[tx_at++ % RING] = (struct xdp_desc){.addr = d.addr, .len = (uint32_t)n};
                sent++;
            } else {
                ((uint64_t *)fill.desc)[fill_at++ % RING] = d.addr / FRAME * FRAME;
            }
        }
        store(rx.consumer, rx_at);
        store(fill.producer, fill_at);
        if (sent) {
            store(tx.producer, tx_at);
            if (load(tx.flags) & XDP_RING_NEED_WAKEUP && sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 &&
                errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
                die("sendto");
        }
        if (!have) poll(&p, 1, 500);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("{\"cpu_us\":%lld}\n",
           (long long)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    return 0;
}
