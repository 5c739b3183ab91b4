/* lwIP: client and server stack in one thread, joined in memory, checksums in software.
 *
 *   lwip short N SECONDS   one request of 64 bytes a connection, N at a time; the server closes
 *   lwip keep  N SECONDS   requests over N connections that stay
 *   lwip some  N SECONDS   the same over 64 of N connections
 *   lwip bulk  N SECONDS   N flows from client to server
 *   lwip rest  N SECONDS   N connections stay idle: memory of both ends
 *
 * Debian's liblwip.so keeps its state in global variables, so it is loaded twice. Prints one JSON object.
 * Build: cc -O2 -I/usr/include/lwip lwip.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lwip/init.h"
#include "lwip/ip.h"
#include "lwip/netif.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"

#define MESSAGE 64
#define PORT 80
#define ACTIVE 64
#define QUEUE (1u << 17)
/* Rounds between two looks at timers and at how long a measurement has lasted. */
#define ROUNDS 16
#define PIECE 65535

#define CALLS(X)                                                                                                       \
    X(lwip_init) X(netif_add) X(netif_set_up) X(netif_set_link_up) X(netif_set_default) X(tcp_new) X(tcp_bind)         \
    X(tcp_listen_with_backlog) X(tcp_accept) X(tcp_arg) X(tcp_recv) X(tcp_sent) X(tcp_err) X(tcp_connect) X(tcp_write) \
    X(tcp_output) X(tcp_close) X(tcp_abort) X(tcp_recved) X(pbuf_alloc) X(pbuf_free) X(pbuf_copy_partial) X(ip_input)  \
    X(sys_check_timeouts)

struct stack {
#define POINTER(name) __typeof__(name) *name;
    CALLS(POINTER)
    struct netif netif;
    struct tcp_pcb **waiting; /* its TIME-WAIT list */
    struct stack *other;
    struct pbuf **queue; /* what comes */
    unsigned head, tail;
};

struct conn {
    unsigned nth, got;
    int asks;
};

static struct stack stacks[2], *const client = &stacks[0], *const server = &stacks[1];
static ip_addr_t server_addr;
static const ip_addr_t anywhere = IPADDR4_INIT(0);
static enum { SHORT, KEEP, SOME, BULK, REST } load;
static unsigned long long done, bytes;
static unsigned established, again_count, *again; /* places of `short` that connect anew */
static char piece[PIECE];

static void die(const char *what) {
    fprintf(stderr, "lwip: %s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The other end's copy: no pbuf of one instance may reach the other. */
static err_t output(struct netif *netif, struct pbuf *p, const ip4_addr_t *to) {
    struct stack *from = netif->state, *into = from->other;
    (void)to;
    if (into->tail - into->head == QUEUE) return ERR_MEM;
    struct pbuf *copy = into->pbuf_alloc(PBUF_RAW, p->tot_len, PBUF_RAM);
    if (!copy) return ERR_MEM;
    from->pbuf_copy_partial(p, copy->payload, p->tot_len, 0);
    into->queue[into->tail++ % QUEUE] = copy;
    return ERR_OK;
}

static err_t plug(struct netif *netif) {
    netif->name[0] = 'm', netif->name[1] = 's';
    netif->mtu = 1500;
    netif->output = output;
    return ERR_OK;
}

static void start(struct stack *s, unsigned last) {
    void *library = dlmopen(LM_ID_NEWLM, "liblwip.so.0", RTLD_NOW);
    if (!library) die(dlerror());
#define FIND(name) if (!(s->name = dlsym(library, #name))) die(#name);
    CALLS(FIND)
    if (!(s->waiting = dlsym(library, "tcp_tw_pcbs"))) die("tcp_tw_pcbs");
    s->queue = calloc(QUEUE, sizeof *s->queue);
    s->lwip_init();
    ip4_addr_t addr, mask, gateway;
    IP4_ADDR(&addr, 10, 0, 0, last);
    IP4_ADDR(&mask, 255, 0, 0, 0);
    IP4_ADDR(&gateway, 0, 0, 0, 0);
    if (!s->netif_add(&s->netif, &addr, &mask, &gateway, s, plug, s->ip_input)) die("netif_add");
    s->netif_set_default(&s->netif);
    s->netif_set_up(&s->netif);
    s->netif_set_link_up(&s->netif);
}

/* All that waits for a stack. */
static void turn(struct stack *s) {
    while (s->head != s->tail) {
        struct pbuf *p = s->queue[s->head++ % QUEUE];
        if (s->netif.input(p, &s->netif) != ERR_OK) s->pbuf_free(p);
    }
    /* Nothing lingers: each segment to no connection would walk a list of those that do. */
    while (*s->waiting) s->tcp_abort(*s->waiting);
}

static void send_message(struct stack *s, struct tcp_pcb *pcb) {
    if (s->tcp_write(pcb, piece, MESSAGE, TCP_WRITE_FLAG_COPY) != ERR_OK) die("tcp_write");
    s->tcp_output(pcb);
}

static void send_bulk(struct tcp_pcb *pcb) {
    u16_t room = (u16_t)LWIP_MIN(tcp_sndbuf(pcb), PIECE);
    while (room > 0 && client->tcp_write(pcb, piece, room, TCP_WRITE_FLAG_COPY) != ERR_OK) room /= 2;
    client->tcp_output(pcb);
}

static err_t on_sent(void *arg, struct tcp_pcb *pcb, u16_t len) {
    (void)arg, (void)len;
    send_bulk(pcb);
    return ERR_OK;
}

static void on_error(void *arg, err_t err) {
    (void)arg;
    fprintf(stderr, "lwip: a connection ended with error %d\n", err);
    exit(1);
}

static err_t on_answer(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err) {
    struct conn *c = arg;
    (void)err;
    if (!p) {
        client->tcp_err(pcb, NULL);
        client->tcp_close(pcb);
        done++;
        again[again_count++] = c->nth;
        free(c);
        return ERR_OK;
    }
    c->got += p->tot_len;
    client->tcp_recved(pcb, p->tot_len);
    client->pbuf_free(p);
    if (c->got == MESSAGE && load != SHORT) {
        done++;
        c->got = 0;
        send_message(client, pcb);
    }
    return ERR_OK;
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err) {
    struct conn *c = arg;
    if (err != ERR_OK) die("connect");
    established++;
    if (load == BULK) {
        client->tcp_sent(pcb, on_sent);
        send_bulk(pcb);
    } else if (c->asks) {
        send_message(client, pcb);
    }
    return ERR_OK;
}

static void open_one(unsigned nth) {
    struct tcp_pcb *pcb = client->tcp_new();
    struct conn *c = calloc(1, sizeof *c);
    if (!pcb || !c) die("memory");
    c->nth = nth;
    c->asks = load == SHORT || load == KEEP || (load == SOME && nth < ACTIVE);
    tcp_nagle_disable(pcb);
    client->tcp_arg(pcb, c);
    client->tcp_recv(pcb, on_answer);
    client->tcp_err(pcb, on_error);
    if (client->tcp_connect(pcb, &server_addr, PORT, on_connected) != ERR_OK) die("tcp_connect");
}

static err_t on_request(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err) {
    (void)arg, (void)err;
    if (!p) {
        server->tcp_close(pcb);
        return ERR_OK;
    }
    bytes += p->tot_len;
    server->tcp_recved(pcb, p->tot_len);
    int whole = p->tot_len == MESSAGE;
    server->pbuf_free(p);
    if (load == BULK) return ERR_OK;
    if (!whole) die("a request arrives whole");
    send_message(server, pcb);
    if (load == SHORT) server->tcp_close(pcb);
    return ERR_OK;
}

static err_t on_accept(void *arg, struct tcp_pcb *pcb, err_t err) {
    (void)arg;
    if (err != ERR_OK) return err;
    tcp_nagle_disable(pcb);
    server->tcp_recv(pcb, on_request);
    return ERR_OK;
}

static void round_of_both(void) {
    turn(server);
    turn(client);
    while (again_count > 0) open_one(again[--again_count]);
}

static void timers(void) {
    client->sys_check_timeouts();
    server->sys_check_timeouts();
}

static double resident(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long size, pages;
    if (!f || fscanf(f, "%lu %lu", &size, &pages) != 2) die("statm");
    fclose(f);
    return (double)pages * 4096;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"short", "keep", "some", "bulk", "rest"};
    if (argc < 4) die("usage: lwip short|keep|some|bulk|rest N SECONDS");
    for (load = SHORT; load <= REST && strcmp(argv[1], names[load]); load++) {}
    if (load > REST) die("no such load");
    unsigned count = (unsigned)atoi(argv[2]);
    double seconds = atof(argv[3]);
    again = calloc(count, sizeof *again);
    client->other = server, server->other = client;
    start(client, 2);
    start(server, 1);
    IP_ADDR4(&server_addr, 10, 0, 0, 1);
    struct tcp_pcb *listener = server->tcp_new();
    if (!listener || server->tcp_bind(listener, &anywhere, PORT) != ERR_OK) die("tcp_bind");
    listener = server->tcp_listen_with_backlog(listener, 255);
    server->tcp_accept(listener, on_accept);
    timers();

    double before = resident();
    unsigned opened = 0;
    while (opened < count || (load != SHORT && established < count)) {
        while (opened < count && (load == SHORT || opened - established < 64)) open_one(opened++);
        round_of_both();
        timers();
    }
    if (load == REST) {
        printf("{\"bytes\":%f}\n", (resident() - before) / (2.0 * count));
        return 0;
    }
    double warm = now();
    while (now() - warm < seconds / 4 || (load != BULK && done < LWIP_MIN(count, ACTIVE))) {
        round_of_both();
        timers();
    }
    unsigned long long first = done, first_bytes = bytes;
    double begin = now(), took;
    do {
        for (int i = 0; i < ROUNDS; i++) round_of_both();
        timers();
    } while ((took = now() - begin) < seconds);
    if (load == BULK) printf("{\"gbit\":%f}\n", (double)(bytes - first_bytes) * 8e-9 / took);
    else printf("{\"per_s\":%f}\n", (double)(done - first) / took);
    return 0;
}
