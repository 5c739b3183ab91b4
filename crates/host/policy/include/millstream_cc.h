/* A congestion control policy of your own for Millstream.
 *
 * Fill in a struct millstream_cc. A program that has the stack in it (millstream.h) gives it to ms_cc_register(). For any
 * other, return it from millstream_cc_policy(), build a shared library, and load it into a running stack:
 * millstream sysctl net.inet.tcp.cc.load=/path/to/libmine.so
 *
 * How it is called. Each connection has a state of its own, of the size and alignment that the table declares: allocated
 * by the stack, zeroed, handed to every hook. Calls for one connection come one at a time; those for different ones may
 * come from different threads at once, so whatever is not in the state must not be written. Hooks must not block, call
 * the stack, or keep pointers that they are given: what these point to is gone when the hook returns.
 *
 * A hook that is NULL is skipped; only the name is mandatory. What a hook wants is written into *window, which comes with
 * what the connection has now. After each call cwnd is taken to be at least one segment and at most 2^30 bytes, and
 * ssthresh at least two segments; where that changes something it is counted (net.inet.tcp.cc.libraries).
 *
 * Times are nanoseconds on a clock that only goes forward and begins anywhere; sizes are bytes of payload.
 */
#ifndef MILLSTREAM_CC_H
#define MILLSTREAM_CC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Another number is another interface: the stack refuses it. Fields may be added at the
 * end of the structs that the stack fills in; struct millstream_cc says how long it is. */
#define MILLSTREAM_CC_ABI 1

/* No threshold yet: slow start. */
#define MILLSTREAM_CC_NO_SSTHRESH UINT32_MAX

/* What the connection has: hooks change it. */
struct millstream_cc_window {
    uint32_t cwnd;        /* congestion window, bytes */
    uint32_t ssthresh;    /* slow-start threshold, bytes; MILLSTREAM_CC_NO_SSTHRESH before the first congestion */
    uint64_t pacing_rate; /* bytes a second to leave at; 0: by window and round trip, if paced at all */
};

/* The path, where a connection begins or resumes. */
struct millstream_cc_path {
    uint64_t srtt_ns;        /* smoothed round-trip time; 0: none yet */
    uint32_t mss;            /* largest segment, bytes of payload */
    uint32_t initial_window; /* bytes (RFC 6928); of a connection that lived by another policy, the window it had */
    uint32_t ssthresh;       /* bytes, remembered or inherited; MILLSTREAM_CC_NO_SSTHRESH: none */
    uint32_t reserved;       /* 0 */
};

/* How fast the path delivered what an acknowledgment is about: with MILLSTREAM_CC_NEEDS_RATES. */
struct millstream_cc_rate {
    uint64_t interval_ns;  /* in which delivered bytes were delivered */
    uint64_t total;        /* bytes ever delivered, this acknowledgment's included */
    uint64_t prior;        /* the same when the transmission left that this is about */
    uint32_t delivered;    /* bytes delivered in the interval */
    uint32_t in_flight;    /* bytes in flight right after it had left */
    uint32_t lost;         /* bytes found lost since it left */
    uint32_t newly_lost;   /* bytes found lost since the acknowledgment before */
    uint32_t app_limited;  /* 1: the application, not the network, bounded what was in flight */
    uint32_t reserved;     /* 0 */
};

/* The stack's numbers for the end of the first slow start by HyStart++ (RFC 9406): net.inet.tcp.cc.hystartplusplus. */
struct millstream_cc_hystart {
    uint32_t minrtt_thresh_us; /* least growth of the round trip that counts, microseconds */
    uint32_t maxrtt_thresh_us; /* most that it takes, microseconds */
    uint32_t n_rttsamples;     /* samples of a round before its least counts */
    uint32_t css_growth_div;   /* how much slower the window grows in doubt */
    uint32_t css_rounds;       /* rounds of that before slow start is over */
    uint32_t reserved;         /* 0 */
};

/* Bits of millstream_cc_ack.flags. */
#define MILLSTREAM_CC_WINDOW_LIMITED 1u /* the window was filled before: grow only then (RFC 7661) */
#define MILLSTREAM_CC_IN_RECOVERY 2u    /* in fast recovery, where NewReno and CUBIC hold the window */
#define MILLSTREAM_CC_PACED 4u          /* a pace spreads departures: slow start needs no limit (RFC 9406, section 4.3) */

/* One acknowledgment of something new. */
struct millstream_cc_ack {
    uint64_t now_ns;                       /* when it came */
    uint64_t rtt_ns;                       /* round-trip time that it measured; 0: none */
    uint64_t srtt_ns;                      /* smoothed round-trip time */
    uint64_t min_rtt_ns;                   /* smallest round-trip time seen */
    const struct millstream_cc_rate *rate; /* delivery rate; NULL: not asked for, or no sample */
    uint32_t bytes;                        /* bytes newly acknowledged cumulatively */
    uint32_t sacked;                       /* bytes newly acknowledged selectively */
    uint32_t in_flight;                    /* bytes in flight before it came (RFC 6675's pipe) */
    uint32_t segments;                     /* segments on the wire that it stands for, merged ones counted; at least 1 */
    uint32_t mss;                          /* largest segment, bytes of payload */
    uint32_t flags;                        /* MILLSTREAM_CC_WINDOW_LIMITED, MILLSTREAM_CC_IN_RECOVERY, MILLSTREAM_CC_PACED */
    const struct millstream_cc_hystart *hystart; /* never NULL; valid until the hook returns */
};

/* What ECN told with one acknowledgment. */
struct millstream_cc_ecn {
    uint64_t now_ns;          /* when it came */
    uint32_t segments;        /* segments newly known to have arrived */
    uint32_t marked_segments; /* packets of these with CE */
    uint32_t bytes;           /* bytes newly known to have arrived */
    uint32_t marked_bytes;    /* bytes of these with CE */
};

/* Kinds of congestion. */
#define MILLSTREAM_CC_LOSS 1u    /* found by duplicate acknowledgments, SACK or RACK; once an episode */
#define MILLSTREAM_CC_ECN 2u     /* an echo; once a window of data */
#define MILLSTREAM_CC_TIMEOUT 3u /* the retransmission timer fired; cwnd is one segment already when the hook is called */

/* Numbers that go with congestion and with the end of its repair. */
struct millstream_cc_congestion {
    uint64_t now_ns;      /* when */
    uint32_t signal;      /* MILLSTREAM_CC_LOSS, _ECN or _TIMEOUT; 0 at the end of a recovery */
    uint32_t nth;         /* of timeouts in a row for the same data, 1 being the first; 0 for other signals */
    uint32_t flight_size; /* bytes sent and not yet acknowledged */
    uint32_t mss;         /* largest segment, bytes of payload */
    uint32_t metered;     /* 1: sending was metered by what arrived (RFC 9937), so nothing waits to leave in a burst */
    uint32_t after_mark;  /* 1: a mark has reduced the window, and what was in flight then is not acknowledged yet */
};

/* Something that can be tuned: a node net.inet.tcp.cc.NAME.TUNABLE. */
struct millstream_cc_tunable {
    const char *name; /* letters, digits and _ */
    const char *help; /* a sentence, with the unit */
    int64_t min;      /* least value */
    int64_t max;      /* greatest value */
};

/* Bits of millstream_cc.needs. */
#define MILLSTREAM_CC_NEEDS_PACING 1u    /* departures are spread by pacing_rate, or by window and round trip */
#define MILLSTREAM_CC_NEEDS_RATES 2u     /* delivery rate samples come with acknowledgments */
#define MILLSTREAM_CC_NEEDS_UNMETERED 4u /* recovery sends what cwnd leaves room for, without RFC 9937 */
#define MILLSTREAM_CC_NEEDS_ECHOES 8u    /* ecn() hears of every acknowledgment, classic ECN's echoes or not */
#define MILLSTREAM_CC_NEEDS_LOSSES_AFTER_MARKS 16u /* losses are told where a mark has reduced already: after_mark */

/* A policy. */
struct millstream_cc {
    uint32_t abi;  /* MILLSTREAM_CC_ABI */
    uint32_t size; /* sizeof(struct millstream_cc) */

    const char *name; /* mandatory: 1 to 15 lower-case letters, digits, - and _ */

    size_t state_size;  /* bytes of a connection's state; 65536 at most, 0: none */
    size_t state_align; /* its alignment, a power of two, 4096 at most; 0: 1 */

    const struct millstream_cc_tunable *tunables; /* what can be tuned; NULL if nothing */
    uint32_t tunables_len;                        /* how many; 64 at most */
    uint32_t needs;                               /* MILLSTREAM_CC_NEEDS_... */

    /* A connection takes this policy: the state is zeroed and has its place. 0, or anything else to refuse, and the
     * connection keeps the policy it has. */
    int (*init)(void *state);
    /* The connection lets go of it. */
    void (*destroy)(void *state);

    /* The value of tunables[index], and a new one, which lies in its range. */
    int64_t (*get_tunable)(const void *state, uint32_t index);
    void (*set_tunable)(void *state, uint32_t index, int64_t value);

    /* The connection is established, or lives and takes this policy, or begins anew on its path with nothing known:
     * the window is path->initial_window and path->ssthresh. Tunables stay. */
    void (*established)(void *state, struct millstream_cc_window *window, const struct millstream_cc_path *path);
    /* New data left: that many bytes; in_flight has them in it. */
    void (*sent)(void *state, struct millstream_cc_window *window, uint64_t now_ns, uint32_t bytes, uint32_t in_flight);
    /* An acknowledgment of something new. */
    void (*ack)(void *state, struct millstream_cc_window *window, const struct millstream_cc_ack *ack);
    /* What ECN told, before ack() and congestion() for the same acknowledgment. */
    void (*ecn)(void *state, struct millstream_cc_window *window, const struct millstream_cc_ecn *ecn);
    /* Does the policy answer marks as RFC 9331 asks, so that what it sends may say ECT(1)? */
    int (*wants_ect1)(const void *state);
    /* Congestion: reduce. */
    void (*congestion)(void *state, struct millstream_cc_window *window, const struct millstream_cc_congestion *info);
    /* All that was outstanding when congestion was met has arrived. */
    void (*recovery_end)(void *state, struct millstream_cc_window *window, const struct millstream_cc_congestion *info);
    /* The last signal of this kind was a mistake: restore what it took. */
    void (*spurious)(void *state, struct millstream_cc_window *window, uint32_t signal, uint64_t now_ns);
    /* Sending resumes after idle_ns without a transmission, longer than the retransmission timeout. */
    void (*idle_restart)(void *state, struct millstream_cc_window *window, uint64_t now_ns, uint64_t idle_ns,
                         const struct millstream_cc_path *path);
    /* Segments are mss bytes from now on. */
    void (*mss_change)(void *state, struct millstream_cc_window *window, uint32_t mss);
};

/* The symbol that the stack looks for in a shared library. The table stays as it is while the library is loaded. */
const struct millstream_cc *millstream_cc_policy(void);

#ifdef __cplusplus
}
#endif

#endif
