/* lwIP as the other end of a connection, in virtual time: frames in, frames out.
 *
 *   lwip connect|listen send|take BYTES SEED WINDOW
 *
 * The connecting end is 10.0.0.1, the listening one 10.0.0.2, port 5001. The stream is the pattern of SEED; who takes
 * compares it. WINDOW is the most that the receive window opens to, bytes; 0 for lwIP's own.
 *
 * A turn on standard input: u64 time in ns, u32 count, and so many frames: u32 length, bytes. The answer on standard
 * output: u32 count, frames, u64 the next date in ns (all ones: none), u64 bytes done, u8 1 once all is done. Numbers
 * are the machine's. An error is a line on standard error, and the end.
 *
 * Debian's liblwip.so asks for the time by `sys_now`, which this program defines before it.
 * Build: cc -O2 -I/usr/include/lwip lwip.c -l:liblwip.so.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lwip/etharp.h"
#include "lwip/init.h"
#include "lwip/netif.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"
#include "netif/ethernet.h"

#define PORT 5001
#define FRAME_MAX 1514
#define OUT_MAX 4096

static uint64_t now, total, seed, at, withheld, held;
static int sends, ended, shut, done;
static struct tcp_pcb *flow;
static struct netif netif;
static struct frame {
    uint32_t len;
    uint8_t bytes[FRAME_MAX];
} out[OUT_MAX];
static uint32_t out_count;

u32_t sys_now(void) { return (u32_t)(now / 1000000); }

static void die(const char *what) {
    fprintf(stderr, "lwip: %s, after %llu bytes\n", what, (unsigned long long)at);
    exit(1);
}

/* The byte at `place` of the stream; bench::interop::pattern has the same. */
static uint8_t pattern(uint64_t place) {
    static uint64_t word = UINT64_MAX, mixed;
    if (place / 8 != word) {
        word = place / 8;
        uint64_t z = seed + (word + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        mixed = z ^ z >> 31;
    }
    return (uint8_t)(mixed >> place % 8 * 8);
}

static void get(void *into, size_t len) {
    if (fread(into, 1, len, stdin) != len) exit(0); /* the other end has what it wanted */
}

static void put(const void *from, size_t len) {
    if (fwrite(from, 1, len, stdout) != len) die("standard output is gone");
}

static err_t output(struct netif *nif, struct pbuf *p) {
    (void)nif;
    if (out_count == OUT_MAX || p->tot_len > FRAME_MAX) return ERR_MEM;
    struct frame *frame = &out[out_count++];
    frame->len = p->tot_len;
    pbuf_copy_partial(p, frame->bytes, p->tot_len, 0);
    return ERR_OK;
}

static err_t plug(struct netif *nif) {
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
    nif->name[0] = 'm', nif->name[1] = 's';
    nif->mtu = 1500;
    nif->hwaddr_len = 6;
    memcpy(nif->hwaddr, mac, 6);
    nif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    nif->output = etharp_output;
    nif->linkoutput = output;
    return ERR_OK;
}

static err_t on_data(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err) {
    (void)arg;
    if (err != ERR_OK) die("an error with data");
    if (!p) {
        ended = 1;
        return ERR_OK;
    }
    if (sends) die("data for the sender");
    for (struct pbuf *part = p; part; part = part->next) {
        const uint8_t *bytes = part->payload;
        for (unsigned i = 0; i < part->len; i++)
            if (bytes[i] != pattern(at++)) die("a wrong byte arrived");
    }
    /* What is withheld for good leaves WINDOW to the other end. */
    uint64_t keep = LWIP_MIN(withheld, p->tot_len);
    withheld -= keep;
    held += keep;
    tcp_recved(pcb, (u16_t)(p->tot_len - keep));
    pbuf_free(p);
    return ERR_OK;
}

static void on_error(void *arg, err_t err) {
    (void)arg;
    flow = NULL;
    if (done) return;
    fprintf(stderr, "lwip: the connection ended with error %d\n", err);
    die("failed");
}

static void begin(struct tcp_pcb *pcb) {
    flow = pcb;
    tcp_recv(pcb, on_data);
    tcp_err(pcb, on_error);
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err) {
    (void)arg, (void)pcb;
    if (err != ERR_OK) die("connect");
    return ERR_OK;
}

static err_t on_accept(void *arg, struct tcp_pcb *pcb, err_t err) {
    (void)arg;
    if (err != ERR_OK) return err;
    begin(pcb);
    return ERR_OK;
}

/* What the application does in a turn. */
static void work(void) {
    static uint8_t piece[4096];
    if (!flow || done || flow->state < ESTABLISHED) return;
    while (sends && at < total && tcp_sndbuf(flow) > 0) {
        u16_t len = (u16_t)LWIP_MIN(LWIP_MIN(sizeof piece, tcp_sndbuf(flow)), total - at);
        for (u16_t i = 0; i < len; i++) piece[i] = pattern(at + i);
        if (tcp_write(flow, piece, len, TCP_WRITE_FLAG_COPY) != ERR_OK) break;
        at += len;
    }
    if (sends && at == total && !shut) shut = tcp_shutdown(flow, 0, 1) == ERR_OK;
    if (ended) {
        if (at != total) die("the stream ended early");
        if (sends && !shut) die("the other end closed first");
        /* A close with data unread would be a reset. */
        tcp_recved(flow, (u16_t)held);
        held = 0;
        if (tcp_close(flow) == ERR_OK) {
            done = 1;
            return;
        }
    }
    tcp_output(flow);
}

static void frame_in(void) {
    uint32_t len;
    static uint8_t bytes[FRAME_MAX];
    get(&len, sizeof len);
    if (len > FRAME_MAX) die("a frame is too long");
    get(bytes, len);
    struct pbuf *p = pbuf_alloc(PBUF_RAW, (u16_t)len, PBUF_RAM);
    if (!p) die("no memory");
    pbuf_take(p, bytes, (u16_t)len);
    if (netif.input(p, &netif) != ERR_OK) pbuf_free(p);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: lwip connect|listen send|take BYTES SEED WINDOW\n");
        return 2;
    }
    int connects = !strcmp(argv[1], "connect");
    sends = !strcmp(argv[2], "send");
    total = strtoull(argv[3], NULL, 10);
    seed = strtoull(argv[4], NULL, 10);
    uint64_t window = strtoull(argv[5], NULL, 10);
    withheld = window > 0 && window < TCP_WND ? TCP_WND - window : 0;
    srand((unsigned)seed);

    ip4_addr_t addr, mask, gateway;
    ip_addr_t remote = IPADDR4_INIT_BYTES(10, 0, 0, 2);
    IP4_ADDR(&addr, 10, 0, 0, connects ? 1 : 2);
    IP4_ADDR(&mask, 255, 255, 255, 0);
    IP4_ADDR(&gateway, 0, 0, 0, 0);
    lwip_init();
    if (!netif_add(&netif, &addr, &mask, &gateway, NULL, plug, ethernet_input)) die("netif_add");
    netif_set_default(&netif);
    netif_set_up(&netif);
    netif_set_link_up(&netif);

    struct tcp_pcb *pcb = tcp_new();
    if (!pcb) die("tcp_new");
    int begun = 0;
    for (;;) {
        uint32_t frames;
        uint64_t time;
        get(&time, sizeof time);
        get(&frames, sizeof frames);
        now = time;
        if (!begun) {
            begun = 1;
            sys_restart_timeouts();
            if (connects) {
                begin(pcb);
                if (tcp_connect(pcb, &remote, PORT, on_connected) != ERR_OK) die("tcp_connect");
            } else {
                if (tcp_bind(pcb, IP_ANY_TYPE, PORT) != ERR_OK) die("tcp_bind");
                tcp_accept(tcp_listen_with_backlog(pcb, 4), on_accept);
            }
        }
        while (frames-- > 0) frame_in();
        sys_check_timeouts();
        work();
        u32_t wait = sys_timeouts_sleeptime();
        uint64_t next = wait == SYS_TIMEOUTS_SLEEPTIME_INFINITE ? UINT64_MAX : (now / 1000000 + wait) * 1000000;
        uint8_t finished = (uint8_t)done;
        put(&out_count, sizeof out_count);
        for (uint32_t i = 0; i < out_count; i++) {
            put(&out[i].len, sizeof out[i].len);
            put(out[i].bytes, out[i].len);
        }
        put(&next, sizeof next);
        put(&at, sizeof at);
        put(&finished, sizeof finished);
        if (fflush(stdout)) die("standard output is gone");
        out_count = 0;
    }
}
