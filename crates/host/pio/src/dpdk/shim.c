/*
 * What DPDK offers only as inline functions, macros and wide structures, as plain functions over plain structures.
 * `ffi.rs` declares the same; every function is called from `eal.rs`, `device.rs` and `frames.rs` alone.
 */
#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_epoll.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_memzone.h>

/* -- What DPDK says in words ------------------------------------------------------------------------------------ */

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[2048];
static size_t said_len;
static int listening;

/* While a caller collects them the last log lines are kept for an error's text; else they are the user's. */
static ssize_t hear(void *cookie, const char *text, size_t len) {
    (void)cookie;
    pthread_mutex_lock(&said_lock);
    if (!listening) {
        fwrite(text, 1, len, stderr);
    } else {
        const char *from = text;
        size_t count = len;
        if (count >= sizeof(said)) {
            from += count - sizeof(said) / 2;
            count = sizeof(said) / 2;
        }
        if (said_len + count > sizeof(said)) {
            size_t drop = said_len + count - sizeof(said);
            memmove(said, said + drop, said_len - drop);
            said_len -= drop;
        }
        memcpy(said + said_len, from, count);
        said_len += count;
    }
    pthread_mutex_unlock(&said_lock);
    return (ssize_t)len;
}

void ms_dpdk_listen(int on) {
    static FILE *ear;
    pthread_mutex_lock(&said_lock);
    listening = on;
    if (on)
        said_len = 0;
    pthread_mutex_unlock(&said_lock);
    if (ear == NULL) {
        cookie_io_functions_t hears = {.write = hear};
        ear = fopencookie(NULL, "w", hears);
        if (ear != NULL) {
            setvbuf(ear, NULL, _IOLBF, 512);
            rte_openlog_stream(ear);
        }
    }
    if (ear != NULL)
        fflush(ear);
}

size_t ms_dpdk_said(char *into, size_t room) {
    pthread_mutex_lock(&said_lock);
    size_t count = said_len < room ? said_len : room;
    memcpy(into, said + said_len - count, count);
    pthread_mutex_unlock(&said_lock);
    return count;
}

/* -- The environment -------------------------------------------------------------------------------------------- */

/* 0, or a positive errno; EALREADY if this process has started it before. */
int ms_dpdk_start(int argc, char **argv) {
    return rte_eal_init(argc, argv) < 0 ? (rte_errno ? rte_errno : EINVAL) : 0;
}

/* 0 if the thread has what DPDK keeps per thread, or had it before. */
int ms_dpdk_enter_thread(void) {
    if (rte_lcore_id() != LCORE_ID_ANY)
        return -EEXIST;
    return rte_thread_register();
}

void ms_dpdk_leave_thread(void) { rte_thread_unregister(); }

/* -- Devices ---------------------------------------------------------------------------------------------------- */

/* The port of a device, by the device's name or the port's; -ENODEV. */
int ms_dpdk_find(const char *name) {
    struct rte_dev_iterator iterator;
    uint16_t port;
    if (rte_eth_dev_get_port_by_name(name, &port) == 0)
        return port;
    int found = -ENODEV;
    /* Left early an iterator must be cleaned up; walked to its end it is. */
    RTE_ETH_FOREACH_MATCHING_DEV(port, name, &iterator) {
        if (found < 0)
            found = port;
    }
    return found;
}

int ms_dpdk_probe(const char *what) {
    int rc = rte_dev_probe(what);
    return rc < 0 ? rc : 0;
}

/* The name of the `nth` port there is; 0 if there are fewer. */
size_t ms_dpdk_known(unsigned nth, char *into, size_t room) {
    uint16_t port;
    char name[RTE_ETH_NAME_MAX_LEN];
    RTE_ETH_FOREACH_DEV(port) {
        if (nth-- == 0 && rte_eth_dev_get_name_by_port(port, name) == 0) {
            size_t len = strnlen(name, sizeof(name));
            len = len < room ? len : room;
            memcpy(into, name, len);
            return len;
        }
    }
    return 0;
}

struct ms_dpdk_info {
    uint64_t rss;
    uint32_t rx_room_min;
    uint16_t max_queues;
    uint16_t min_mtu, max_mtu;
    uint16_t rx_desc, tx_desc;
    uint16_t chain_max;
    uint8_t tx_tcp, tx_ipv4, tx_tso, tx_chains;
    uint8_t rx_tcp, rx_ipv4;
    uint8_t link_news;
    uint8_t is_tap;
    int32_t socket;
    char driver[32];
    char device[64];
};

static uint16_t nearest(uint32_t wanted, const struct rte_eth_desc_lim *limits) {
    uint32_t count = wanted;
    if (limits->nb_align > 1)
        count = RTE_ALIGN_CEIL(count, limits->nb_align);
    if (limits->nb_max > 0 && count > limits->nb_max)
        count = limits->nb_max;
    if (count < limits->nb_min)
        count = limits->nb_min;
    return (uint16_t)(count > UINT16_MAX ? UINT16_MAX : count);
}

/* What a device can do; `rx_desc` and `tx_desc` hold requests and then what it grants. */
int ms_dpdk_info(uint16_t port, struct ms_dpdk_info *into) {
    struct rte_eth_dev_info info;
    int rc = rte_eth_dev_info_get(port, &info);
    if (rc < 0)
        return rc;
    into->rss = info.flow_type_rss_offloads;
    into->rx_room_min = info.min_rx_bufsize;
    into->max_queues = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
    into->min_mtu = info.min_mtu;
    into->max_mtu = info.max_mtu;
    into->rx_desc = nearest(into->rx_desc, &info.rx_desc_lim);
    into->tx_desc = nearest(into->tx_desc, &info.tx_desc_lim);
    into->chain_max = info.tx_desc_lim.nb_seg_max;
    into->tx_tcp = !!(info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_CKSUM);
    into->tx_ipv4 = !!(info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
    into->tx_tso = !!(info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_TSO);
    into->tx_chains = !!(info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    into->rx_tcp = !!(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TCP_CKSUM);
    into->rx_ipv4 = !!(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM);
    into->link_news = info.dev_flags != NULL && (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
    into->is_tap = info.driver_name != NULL && strcmp(info.driver_name, "net_tap") == 0;
    into->socket = rte_eth_dev_socket_id(port);
    snprintf(into->driver, sizeof(into->driver), "%s", info.driver_name ? info.driver_name : "");
    snprintf(into->device, sizeof(into->device), "%s", info.device ? rte_dev_name(info.device) : "");
    return 0;
}

struct ms_dpdk_setup {
    uint64_t rss;
    uint32_t mtu;
    uint16_t queues;
    uint8_t sums, cuts, interrupts, link_news;
};

/* Before the queues. VLAN offloads stay off, and so does what gathers received segments. */
int ms_dpdk_configure(uint16_t port, const struct ms_dpdk_setup *request, const struct ms_dpdk_info *info) {
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof(conf));
    conf.rxmode.mtu = request->mtu;
    if (request->queues > 1 && request->rss != 0) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf =
            request->rss & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP);
    }
    if (request->sums) {
        conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
        if (info->tx_ipv4)
            conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
        if (info->rx_tcp)
            conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
        if (info->rx_ipv4)
            conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
    }
    if (request->cuts)
        conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    conf.intr_conf.rxq = request->interrupts;
    conf.intr_conf.lsc = request->link_news;
    return rte_eth_dev_configure(port, request->queues, request->queues, &conf);
}

int ms_dpdk_queue(uint16_t port, uint16_t queue, const struct ms_dpdk_info *info, struct rte_mempool *pool) {
    unsigned socket = info->socket < 0 ? (unsigned)SOCKET_ID_ANY : (unsigned)info->socket;
    /* NULL: the driver's own thresholds, and the offloads of the whole port. */
    int rc = rte_eth_rx_queue_setup(port, queue, info->rx_desc, socket, NULL, pool);
    return rc < 0 ? rc : rte_eth_tx_queue_setup(port, queue, info->tx_desc, socket, NULL);
}

/* After the queues. `all`: every frame, for any destination. */
int ms_dpdk_run(uint16_t port, int all) {
    int rc = rte_eth_dev_start(port);
    if (rc < 0)
        return rc;
    /* Neighbour Discovery asks groups. What cannot choose among groups hears everything, and the stack chooses. */
    if (all || rte_eth_allmulticast_enable(port) < 0)
        (void)rte_eth_promiscuous_enable(port);
    return 0;
}

/*
 * The rule by which the device chooses receive queues: a key of `key_len` bytes, which holds the room and then the
 * length, the queue of each entry of `table`, and whether TCP over IPv4 and IPv6 is spread by addresses and ports (bits
 * 0 and 1 of `families`). The entries of the table; less than 1 if the device does not tell.
 */
int ms_dpdk_rss(uint16_t port, uint8_t *key, uint8_t *key_len, uint16_t *table, uint16_t room, uint8_t *families) {
    struct rte_eth_dev_info info;
    struct rte_eth_rss_conf conf = {.rss_key = key, .rss_key_len = *key_len};
    struct rte_eth_rss_reta_entry64 groups[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];
    int rc = rte_eth_dev_info_get(port, &info);
    if (rc < 0)
        return rc;
    if (info.reta_size == 0 || info.reta_size > RTE_ETH_RSS_RETA_SIZE_512 || info.reta_size > room ||
        info.hash_key_size == 0 || info.hash_key_size > *key_len)
        return -ENOTSUP;
    rc = rte_eth_dev_rss_hash_conf_get(port, &conf);
    if (rc < 0)
        return rc;
    memset(groups, 0, sizeof(groups));
    for (uint16_t at = 0; at < info.reta_size; at += RTE_ETH_RETA_GROUP_SIZE)
        groups[at / RTE_ETH_RETA_GROUP_SIZE].mask = UINT64_MAX;
    rc = rte_eth_dev_rss_reta_query(port, groups, info.reta_size);
    if (rc < 0)
        return rc;
    for (uint16_t at = 0; at < info.reta_size; at++)
        table[at] = groups[at / RTE_ETH_RETA_GROUP_SIZE].reta[at % RTE_ETH_RETA_GROUP_SIZE];
    *key_len = info.hash_key_size;
    *families = ((conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_TCP) != 0) |
                ((conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV6_TCP) != 0) << 1;
    return info.reta_size;
}

/* `ours`: this program has made it. */
int ms_dpdk_close(uint16_t port, int ours) {
    struct rte_eth_dev_info info;
    struct rte_device *device = rte_eth_dev_info_get(port, &info) < 0 ? NULL : info.device;
    int rc = rte_eth_dev_stop(port);
    if (!ours)
        return rc;
    int closed = rte_eth_dev_close(port);
    int removed = device == NULL ? 0 : rte_dev_remove(device);
    return rc < 0 ? rc : closed < 0 ? closed : removed;
}

/* Stops between two attempts to configure. */
void ms_dpdk_halt(uint16_t port) { (void)rte_eth_dev_stop(port); }

int ms_dpdk_mac(uint16_t port, uint8_t *mac) {
    struct rte_ether_addr address;
    int rc = rte_eth_macaddr_get(port, &address);
    memcpy(mac, address.addr_bytes, sizeof(address.addr_bytes));
    return rc;
}

uint16_t ms_dpdk_mtu(uint16_t port) {
    uint16_t mtu = 0;
    return rte_eth_dev_get_mtu(port, &mtu) < 0 ? 0 : mtu;
}

/* 1 up, 0 down, or a negative errno. */
int ms_dpdk_link(uint16_t port) {
    struct rte_eth_link link;
    int rc = rte_eth_link_get_nowait(port, &link);
    return rc < 0 ? rc : link.link_status == RTE_ETH_LINK_UP;
}

/* Counters of the device: received, sent, missed, bad, without a buffer, not sent. */
int ms_dpdk_stats(uint16_t port, uint64_t *six) {
    struct rte_eth_stats stats;
    int rc = rte_eth_stats_get(port, &stats);
    if (rc < 0)
        return rc;
    uint64_t all[6] = {stats.ipackets, stats.opackets, stats.imissed, stats.ierrors, stats.rx_nombuf, stats.oerrors};
    memcpy(six, all, sizeof(all));
    return 0;
}

/* -- Interrupts ------------------------------------------------------------------------------------------------- */

int ms_dpdk_intr_join(uint16_t port, uint16_t queue, int epoll) {
    return rte_eth_dev_rx_intr_ctl_q(port, queue, epoll, RTE_INTR_EVENT_ADD, NULL);
}

int ms_dpdk_intr_leave(uint16_t port, uint16_t queue, int epoll) {
    return rte_eth_dev_rx_intr_ctl_q(port, queue, epoll, RTE_INTR_EVENT_DEL, NULL);
}

int ms_dpdk_intr(uint16_t port, uint16_t queue, int on) {
    return on ? rte_eth_dev_rx_intr_enable(port, queue) : rte_eth_dev_rx_intr_disable(port, queue);
}

/* Above 0 if there was one since the last call. */
int ms_dpdk_intr_heard(int epoll) {
    struct rte_epoll_event event;
    return rte_epoll_wait(epoll, &event, 1, 0);
}

/* -- Memory ----------------------------------------------------------------------------------------------------- */

/* A piece of DPDK's memory for slots, which devices may read and write; its handle, or NULL. */
const void *ms_dpdk_memory(const char *name, size_t len, unsigned align, int socket, void **at) {
    const struct rte_memzone *zone =
        rte_memzone_reserve_aligned(name, len, socket < 0 ? SOCKET_ID_ANY : socket, 0, align);
    *at = zone == NULL ? NULL : zone->addr;
    return zone;
}

void ms_dpdk_memory_free(const void *zone) { (void)rte_memzone_free(zone); }

struct layout {
    uint8_t *base;
    uint32_t slot, step, steps;
    void **table;
};

/* Each buffer starts at one of several places of its slot, else the first lines of all would compete in the cache. */
static void place(struct rte_mempool *pool, void *context, void *object, unsigned nth) {
    struct layout *layout = context;
    struct rte_mbuf *mbuf = object;
    (void)pool;
    (void)nth;
    uint32_t index = (uint32_t)(((uint8_t *)mbuf->buf_addr - layout->base) / layout->slot);
    uint32_t offset = index % layout->steps * layout->step;
    mbuf->buf_addr = (uint8_t *)mbuf->buf_addr + offset;
    mbuf->buf_iova += offset;
    mbuf->buf_len = (uint16_t)(layout->slot - offset);
    layout->table[index] = mbuf;
}

#define PAGES_MAX 4096

/*
 * Packet buffers for `count` slots of `slot` bytes from `base` on, one for each, in `table`; at least `room` bytes of
 * each are a buffer, wherever it starts.
 */
struct rte_mempool *ms_dpdk_pool(const char *name, const void *zone, uint8_t *base, uint32_t count, uint32_t slot,
                                 uint32_t step, uint32_t steps, uint32_t room, int socket, void **table) {
    static struct rte_pktmbuf_extmem pages[PAGES_MAX];
    const struct rte_memzone *memory = zone;
    size_t len = (size_t)count * slot;
    unsigned used = 0;
    if (rte_eal_iova_mode() == RTE_IOVA_PA) {
        /* Devices see the memory page by page. */
        size_t page = memory->hugepage_sz;
        for (size_t at = 0; at < len && used < PAGES_MAX; used++) {
            size_t piece = RTE_MIN(page - ((uintptr_t)(base + at) & (page - 1)), len - at);
            pages[used] = (struct rte_pktmbuf_extmem){base + at, rte_mem_virt2iova(base + at), piece, (uint16_t)slot};
            at += piece;
        }
        if (page < slot || used == PAGES_MAX) {
            rte_errno = ENOMEM;
            return NULL;
        }
    } else {
        pages[used++] = (struct rte_pktmbuf_extmem){base, (uintptr_t)base, len, (uint16_t)slot};
    }
    struct rte_mempool *pool = rte_pktmbuf_pool_create_extbuf(
        name, count, RTE_MIN(256u, count / 8), 0, (uint16_t)room, socket < 0 ? SOCKET_ID_ANY : socket, pages, used);
    if (pool != NULL) {
        struct layout layout = {base, slot, step, steps, table};
        rte_mempool_obj_iter(pool, place, &layout);
    }
    return pool;
}

void ms_dpdk_pool_free(struct rte_mempool *pool) { rte_mempool_free(pool); }

uint32_t ms_dpdk_pool_holds(struct rte_mempool *pool) { return rte_mempool_avail_count(pool); }

/* Takes `n` buffers out of the pool, all or none (not 0). */
int ms_dpdk_get(struct rte_mempool *pool, void **mbufs, unsigned n) { return rte_mempool_get_bulk(pool, mbufs, n); }

void ms_dpdk_put(struct rte_mempool *pool, void *const *mbufs, unsigned n) { rte_mempool_put_bulk(pool, mbufs, n); }

void *ms_dpdk_buffer(const void *mbuf) { return ((const struct rte_mbuf *)mbuf)->buf_addr; }

/* -- Packets ---------------------------------------------------------------------------------------------------- */

struct ms_dpdk_received {
    struct rte_mbuf *mbuf;
    uint8_t *data;
    uint32_t len;
    /* 0 nothing is known of the TCP checksum, 1 it is right, 2 it is missing, 3 it is wrong. */
    uint8_t sum;
    /* It lies whole in one buffer of this queue's pool, which nothing else looks at. */
    uint8_t ours;
};

uint16_t ms_dpdk_rx(uint16_t port, uint16_t queue, struct rte_mempool *pool, struct ms_dpdk_received *into,
                    uint16_t n) {
    struct rte_mbuf *mbufs[64];
    uint16_t got = rte_eth_rx_burst(port, queue, mbufs, RTE_MIN(n, (uint16_t)64));
    for (uint16_t i = 0; i < got; i++) {
        struct rte_mbuf *mbuf = mbufs[i];
        into[i].mbuf = mbuf;
        into[i].data = rte_pktmbuf_mtod(mbuf, uint8_t *);
        into[i].len = rte_pktmbuf_pkt_len(mbuf);
        switch (mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
        case RTE_MBUF_F_RX_L4_CKSUM_GOOD: into[i].sum = 1; break;
        case RTE_MBUF_F_RX_L4_CKSUM_NONE: into[i].sum = 2; break;
        case RTE_MBUF_F_RX_L4_CKSUM_BAD: into[i].sum = 3; break;
        default: into[i].sum = 0;
        }
        into[i].ours = mbuf->pool == pool && mbuf->nb_segs == 1 && rte_mbuf_refcnt_read(mbuf) == 1;
    }
    return got;
}

/* Copies a packet, however many buffers it lies in; 0 if it is longer than `room`. */
uint32_t ms_dpdk_copy(const struct rte_mbuf *mbuf, uint8_t *into, uint32_t room) {
    uint32_t len = rte_pktmbuf_pkt_len(mbuf);
    if (len > room)
        return 0;
    for (; mbuf != NULL; mbuf = mbuf->next) {
        memcpy(into, rte_pktmbuf_mtod(mbuf, const uint8_t *), mbuf->data_len);
        into += mbuf->data_len;
    }
    return len;
}

void ms_dpdk_free(struct rte_mbuf *mbuf) { rte_pktmbuf_free(mbuf); }

struct ms_dpdk_request {
    /* Bytes of the headers, and of the payload of each segment if it is to be cut. */
    uint16_t network, transport, size;
    uint8_t link;
    /* The TCP checksum is to be filled in. */
    uint8_t sum;
    uint8_t v6;
};

/* Describes a packet of `len` bytes at `data`, which lies in the buffer of `mbuf`. */
void ms_dpdk_describe(struct rte_mbuf *mbuf, const uint8_t *data, uint32_t len, const struct ms_dpdk_request *request) {
    mbuf->data_off = (uint16_t)(data - (const uint8_t *)mbuf->buf_addr);
    mbuf->data_len = (uint16_t)len;
    mbuf->pkt_len = len;
    mbuf->nb_segs = 1;
    mbuf->next = NULL;
    mbuf->tx_offload = 0;
    uint64_t flags = RTE_MBUF_F_EXTERNAL;
    if (request->sum) {
        flags |= RTE_MBUF_F_TX_TCP_CKSUM | (request->v6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4);
        mbuf->l2_len = request->link;
        mbuf->l3_len = request->network;
        mbuf->l4_len = request->transport;
        if (request->size > 0) {
            /* Each segment has a length, and so a header checksum, of its own. */
            flags |= RTE_MBUF_F_TX_TCP_SEG | (request->v6 ? 0 : RTE_MBUF_F_TX_IP_CKSUM);
            mbuf->tso_segsz = request->size;
        }
    }
    mbuf->ol_flags = flags;
}

/* One packet goes on in another buffer. */
void ms_dpdk_chain(struct rte_mbuf *first, struct rte_mbuf *last, struct rte_mbuf *more) {
    last->next = more;
    first->pkt_len += more->data_len;
    first->nb_segs++;
}

/*
 * Hands over packets, of which some request something if `requests`. How many were taken; the next of them is one that the
 * device will never take if `invalid` is 1 afterwards.
 */
uint16_t ms_dpdk_tx(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, int requests, int *invalid) {
    uint16_t fit = n;
    *invalid = 0;
    if (requests)
        fit = rte_eth_tx_prepare(port, queue, mbufs, n);
    uint16_t sent = fit == 0 ? 0 : rte_eth_tx_burst(port, queue, mbufs, fit);
    *invalid = sent == fit && fit < n;
    return sent;
}

/* Asks the device for buffers that it has sent. */
void ms_dpdk_sent(uint16_t port, uint16_t queue) { (void)rte_eth_tx_done_cleanup(port, queue, 0); }

/* Bytes of the structures that both languages know, for the test that they agree. */
void ms_dpdk_sizes(size_t *four) {
    size_t all[4] = {sizeof(struct ms_dpdk_info), sizeof(struct ms_dpdk_setup), sizeof(struct ms_dpdk_received),
                     sizeof(struct ms_dpdk_request)};
    memcpy(four, all, sizeof(all));
}
