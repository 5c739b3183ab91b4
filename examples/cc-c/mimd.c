/* Multiplicative increase, multiplicative decrease, after "Scalable TCP" (T. Kelly, 2003): one segment more for every
 * hundred acknowledged, an eighth less for a loss. However large the window is, it is back after as many round trips.
 *
 *     make && millstream sysctl net.inet.tcp.cc.load=$PWD/libmimd.so net.inet.tcp.cc.algorithm=mimd
 */
#include "millstream_cc.h"

struct mimd {
    int64_t per_segment; /* acknowledged segments that widen the window by one */
    int64_t keep;        /* what a loss leaves, percent */
    uint32_t credit;     /* bytes acknowledged towards the next segment */
    uint32_t mss;        /* bytes */
};

static const struct millstream_cc_tunable tunables[] = {
    {"per_segment", "Acknowledged segments that widen the window by one.", 1, 10000},
    {"keep", "What a loss leaves of the window, percent.", 10, 99},
};

static int init(void *state)
{
    struct mimd *mimd = state;
    mimd->per_segment = 100;
    mimd->keep = 88;
    return 0;
}

static int64_t get_tunable(const void *state, uint32_t index)
{
    const struct mimd *mimd = state;
    return index == 0 ? mimd->per_segment : mimd->keep;
}

static void set_tunable(void *state, uint32_t index, int64_t value)
{
    struct mimd *mimd = state;
    *(index == 0 ? &mimd->per_segment : &mimd->keep) = value;
}

static void established(void *state, struct millstream_cc_window *window, const struct millstream_cc_path *path)
{
    struct mimd *mimd = state;
    (void)window; /* it is path->initial_window already */
    mimd->mss = path->mss;
    mimd->credit = 0;
}

static void ack(void *state, struct millstream_cc_window *window, const struct millstream_cc_ack *ack)
{
    struct mimd *mimd = state;
    uint64_t share = (uint64_t)mimd->per_segment * mimd->mss;
    uint64_t credit;

    if (!(ack->flags & MILLSTREAM_CC_WINDOW_LIMITED) || (ack->flags & MILLSTREAM_CC_IN_RECOVERY))
        return;
    if (window->cwnd < window->ssthresh) { /* slow start, two segments an acknowledgment at most (RFC 3465) */
        uint64_t most = 2ull * ack->segments * mimd->mss;
        window->cwnd += (uint32_t)(ack->bytes < most ? ack->bytes : most);
        return;
    }
    credit = mimd->credit + (uint64_t)ack->bytes;
    window->cwnd += (uint32_t)(credit / share * mimd->mss);
    mimd->credit = (uint32_t)(credit % share);
}

static void congestion(void *state, struct millstream_cc_window *window, const struct millstream_cc_congestion *info)
{
    struct mimd *mimd = state;
    uint64_t flight = info->flight_size < window->cwnd || info->signal == MILLSTREAM_CC_TIMEOUT ? info->flight_size
                                                                                                : window->cwnd;
    uint64_t kept = flight * (uint64_t)mimd->keep / 100;
    uint64_t least = 2ull * info->mss;

    mimd->credit = 0;
    if (info->nth <= 1) /* a timeout that is backed off says nothing new */
        window->ssthresh = (uint32_t)(kept > least ? kept : least);
    if (info->signal != MILLSTREAM_CC_TIMEOUT && window->cwnd > window->ssthresh)
        window->cwnd = window->ssthresh;
}

static void idle_restart(void *state, struct millstream_cc_window *window, uint64_t now_ns, uint64_t idle_ns,
                         const struct millstream_cc_path *path)
{
    (void)state, (void)now_ns, (void)idle_ns;
    if (window->cwnd > path->initial_window) /* RFC 5681, section 4.1 */
        window->cwnd = path->initial_window;
}

static void mss_change(void *state, struct millstream_cc_window *window, uint32_t mss)
{
    struct mimd *mimd = state;
    (void)window;
    mimd->mss = mss;
}

static const struct millstream_cc policy = {
    .abi = MILLSTREAM_CC_ABI,
    .size = sizeof(struct millstream_cc),
    .name = "mimd",
    .state_size = sizeof(struct mimd),
    .state_align = _Alignof(struct mimd),
    .tunables = tunables,
    .tunables_len = sizeof tunables / sizeof *tunables,
    .init = init,
    .get_tunable = get_tunable,
    .set_tunable = set_tunable,
    .established = established,
    .ack = ack,
    .congestion = congestion,
    .idle_restart = idle_restart,
    .mss_change = mss_change,
};

const struct millstream_cc *millstream_cc_policy(void)
{
    return &policy;
}
