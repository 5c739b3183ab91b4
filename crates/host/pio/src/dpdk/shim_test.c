/* What tests do behind a device's back. */
#define ALLOW_EXPERIMENTAL_API
#include <errno.h>

#include <rte_mbuf.h>
#include <rte_ring.h>

/* Puts a packet into the ring of a `net_ring` device, as another device on the same ring would. */
int ms_dpdk_test_hand(const char *ring, struct rte_mbuf *mbuf) {
    struct rte_ring *found = rte_ring_lookup(ring);
    return found == NULL ? -ENOENT : rte_ring_enqueue(found, mbuf);
}

/* What a packet says of itself. */
void ms_dpdk_test_look(const struct rte_mbuf *mbuf, uint32_t *seven) {
    seven[0] = mbuf->l2_len;
    seven[1] = mbuf->l3_len;
    seven[2] = mbuf->l4_len;
    seven[3] = mbuf->tso_segsz;
    seven[4] = (mbuf->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) != 0;
    seven[5] = mbuf->nb_segs;
    seven[6] = (mbuf->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0;
}
