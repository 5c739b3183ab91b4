/*
 * A plugin of QEMU's TCG that counts in a guest, for `cargo xtask cards --scaling`: executed instructions by processor,
 * atomic instructions, system calls, and cache lines that move between processors.
 *
 * Arguments: socket=PATH, where it answers; first=ADDR, last=ADDR, twice: the ranges of addresses of the program under
 * test, which runs without randomized addresses. Questions are single letters:
 *   r  one line for each processor: instructions of the program, of the kernel and of other programs; atomic
 *      instructions and system calls of the program; accesses to memory that were followed, and lines that moved
 *   l  follow lines from here on, with nothing known of any line; s  follow them no more
 *   t  the lines that several processors used and one of them wrote: how often they moved, how often they could move at
 *      most, address in the program, program counters of the last two accesses by different processors
 *   a  every atomic instruction of the program: how often it was executed, its program counter
 *
 * A line has a set of processors that have a copy, and is dirty if one of these wrote it last (MSI, caches without end).
 * A read moves a line that another processor wrote; a write moves one that another processor used last. Which
 * accesses follow one another is an accident of the emulation. So there is a bound, too, for any order of the same
 * accesses: a line cannot move more often than twice for each access of those processors that use it less than the one
 * that uses it most, nor more often than it was written times the processors that use it.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The part of QEMU's plugin interface, version 4, that is used here. */
struct tb;
struct insn;
struct scoreboard;
struct hwaddr;
struct entry {
    struct scoreboard *score;
    size_t offset;
};
struct info {
    const char *target;
    struct {
        int min, cur;
    } version;
    bool system;
    struct {
        int smp, max;
    } vcpus;
};
enum { ADD = 0, NO_REGS = 0, READ_WRITE = 3 };
typedef void (*translated)(uint64_t id, struct tb *tb);
typedef void (*accessed)(unsigned vcpu, uint32_t access, uint64_t address, void *data);
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated callback);
extern size_t qemu_plugin_tb_n_insns(const struct tb *tb);
extern struct insn *qemu_plugin_tb_get_insn(const struct tb *tb, size_t index);
extern uint64_t qemu_plugin_insn_vaddr(const struct insn *insn);
extern size_t qemu_plugin_insn_data(const struct insn *insn, void *to, size_t len);
extern struct scoreboard *qemu_plugin_scoreboard_new(size_t size);
extern uint64_t qemu_plugin_u64_get(struct entry entry, unsigned vcpu);
extern void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct insn *insn, int op, struct entry entry, uint64_t by);
typedef void (*executed)(unsigned vcpu, void *data);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *insn, executed callback, int flags, void *data);
extern void qemu_plugin_register_vcpu_mem_cb(struct insn *insn, accessed callback, int flags, int what, void *data);
extern struct hwaddr *qemu_plugin_get_hwaddr(uint32_t access, uint64_t address);
extern bool qemu_plugin_hwaddr_is_io(const struct hwaddr *address);
extern uint64_t qemu_plugin_hwaddr_phys_addr(const struct hwaddr *address);
extern bool qemu_plugin_mem_is_store(uint32_t access);

#define PUBLIC __attribute__((visibility("default")))
PUBLIC int qemu_plugin_version = 4;

enum { PROGRAM, KERNEL, OTHERS, ATOMIC, CALLS, FOLLOWED, MOVED, KINDS };
/* The guest's memory, in lines of 64 bytes: more than it has is not followed. */
enum { LINES = 1 << 25, VCPUS = 8, SITES = 4096 };

static struct entry entries[KINDS];
static unsigned vcpus;
static uint64_t ranges[2][2];
static volatile bool following;
/* Accesses that were followed and lines that moved, each processor's far from the others'. */
static struct {
    uint64_t followed, moved, pad[14];
} memory[VCPUS];

/* An atomic instruction, which may be translated several times. */
static struct site {
    uint64_t counter, times[VCPUS];
} sites[SITES];
static pthread_mutex_t translating = PTHREAD_MUTEX_INITIALIZER;

struct line {
    uint8_t copies, dirty, last;
    uint32_t moved, written, used[VCPUS];
    uint64_t address, counters[2];
};
static struct line *lines;
/* Numbers of the lines in use, so that they are found again. */
enum { USED_MOST = 1 << 22 };
static uint32_t used_lines[USED_MOST];
static volatile uint32_t used_count;

static bool is_program(uint64_t address) {
    for (int n = 0; n < 2; n++)
        if (address >= ranges[n][0] && address < ranges[n][1]) return true;
    return false;
}

/* Tells an atomic instruction: one with a LOCK prefix, or XCHG with memory, which implies it. */
static bool is_atomic(const uint8_t *code, size_t len) {
    size_t at = 0;
    for (; at < len && memchr("\x66\x67\xf2\xf3\x2e\x36\x3e\x26\x64\x65", code[at], 10); at++) continue;
    if (at < len && code[at] == 0xf0) return true;
    if (at < len && (code[at] & 0xf0) == 0x40) at++;
    return at + 1 < len && (code[at] & 0xfe) == 0x86 && code[at + 1] < 0xc0;
}

static void on_access(unsigned vcpu, uint32_t access, uint64_t address, void *counter) {
    if (!following || vcpu >= VCPUS) return;
    struct hwaddr *place = qemu_plugin_get_hwaddr(access, address);
    if (!place || qemu_plugin_hwaddr_is_io(place)) return;
    uint64_t number = qemu_plugin_hwaddr_phys_addr(place) / 64;
    if (number >= LINES) return;
    struct line *line = lines + number;
    memory[vcpu].followed++;
    uint8_t own = 1 << vcpu, copies = line->copies;
    if (!copies && !__atomic_fetch_or(&line->copies, own, __ATOMIC_RELAXED)) {
        uint32_t place = __atomic_fetch_add(&used_count, 1, __ATOMIC_RELAXED);
        if (place < USED_MOST) used_lines[place] = number;
        line->last = vcpu;
    }
    line->used[vcpu]++;
    bool moves;
    /* Two processors may look at one line at once: a move may be missed or told twice, never of a line of one alone. */
    if (qemu_plugin_mem_is_store(access)) {
        moves = (copies & ~own) && line->last != vcpu;
        line->copies = own;
        line->dirty = 1;
        line->written++;
    } else {
        moves = line->dirty && copies && !(copies & own);
        if (moves) line->dirty = 0;
        if (!(copies & own)) __atomic_fetch_or(&line->copies, own, __ATOMIC_RELAXED);
    }
    if (moves) {
        memory[vcpu].moved++;
        line->moved++;
    }
    if (line->last != vcpu) {
        line->counters[1] = line->counters[0];
        line->address = address;
    }
    line->last = vcpu;
    line->counters[0] = (uint64_t)counter;
}

static void on_atomic(unsigned vcpu, void *site) {
    if (vcpu < VCPUS) ((struct site *)site)->times[vcpu]++;
}

/* Returns the place of an atomic instruction; NULL if there are too many. */
static struct site *site_of(uint64_t counter) {
    struct site *found = NULL;
    pthread_mutex_lock(&translating);
    for (size_t at = 0; at < SITES && !found; at++) {
        if (!sites[at].counter) sites[at].counter = counter;
        if (sites[at].counter == counter) found = sites + at;
    }
    pthread_mutex_unlock(&translating);
    return found;
}

static void on_translation(uint64_t id, struct tb *tb) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(tb);
    for (size_t at = 0; at < count; at++) {
        struct insn *insn = qemu_plugin_tb_get_insn(tb, at);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        bool kernel = address >> 63, program = is_program(address);
        int kind = kernel ? KERNEL : program ? PROGRAM : OTHERS;
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, entries[kind], 1);
        if (!program) continue;
        uint8_t code[16];
        size_t len = qemu_plugin_insn_data(insn, code, sizeof code);
        struct site *site = is_atomic(code, len) ? site_of(address) : NULL;
        if (site) {
            qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, entries[ATOMIC], 1);
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_atomic, NO_REGS, site);
        }
        if (len == 2 && code[0] == 0x0f && code[1] == 0x05)
            qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, entries[CALLS], 1);
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, NO_REGS, READ_WRITE, (void *)address);
    }
}

static void tell_counts(FILE *out) {
    for (unsigned vcpu = 0; vcpu < vcpus; vcpu++) {
        for (int kind = PROGRAM; kind <= CALLS; kind++) fprintf(out, "%" PRIu64 " ", qemu_plugin_u64_get(entries[kind], vcpu));
        fprintf(out, "%" PRIu64 " %" PRIu64 "\n", memory[vcpu].followed, memory[vcpu].moved);
    }
}

/* Returns how often a line can have moved at most, whatever the order of the accesses. */
static uint64_t bound(const struct line *line) {
    uint64_t all = 0, most = 0, users = 0;
    for (int vcpu = 0; vcpu < VCPUS; vcpu++) {
        all += line->used[vcpu];
        users += line->used[vcpu] > 0;
        if (line->used[vcpu] > most) most = line->used[vcpu];
    }
    uint64_t by_use = 2 * (all - most), by_writes = users * line->written;
    return users < 2 ? 0 : by_use < by_writes ? by_use : by_writes;
}

static void tell_lines(FILE *out) {
    uint32_t count = used_count < USED_MOST ? used_count : USED_MOST;
    for (uint32_t at = 0; at < count; at++) {
        struct line *line = lines + used_lines[at];
        if (bound(line))
            fprintf(out, "%u %" PRIu64 " %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", line->moved, bound(line), line->address,
                    line->counters[0], line->counters[1]);
    }
    if (used_count > USED_MOST) fprintf(out, "more lines than can be followed\n");
}

static void tell_sites(FILE *out) {
    for (size_t at = 0; at < SITES && sites[at].counter; at++) {
        uint64_t times = 0;
        for (int vcpu = 0; vcpu < VCPUS; vcpu++) times += sites[at].times[vcpu];
        fprintf(out, "%" PRIu64 " %" PRIx64 "\n", times, sites[at].counter);
    }
}

static void *answer(void *listener) {
    for (;;) {
        int fd = accept((int)(intptr_t)listener, NULL, NULL);
        FILE *peer = fd < 0 ? NULL : fdopen(fd, "r+");
        if (!peer) continue;
        int question = fgetc(peer);
        fseek(peer, 0, SEEK_CUR);
        if (question == 'r') tell_counts(peer);
        if (question == 't') tell_lines(peer);
        if (question == 'a') tell_sites(peer);
        if (question == 's') following = false;
        if (question == 'l') {
            /* No thread follows while it is cleared. What was mapped before reads as zeroes. */
            following = false;
            madvise(lines, LINES * sizeof *lines, MADV_DONTNEED);
            used_count = 0;
            following = true;
        }
        fclose(peer);
    }
    return NULL;
}

static int failed(const char *what) {
    fprintf(stderr, "counts: %s: %s\n", what, strerror(errno));
    return 1;
}

PUBLIC int qemu_plugin_install(uint64_t id, const struct info *info, int argc, char **argv) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int first = 0, last = 0;
    for (int at = 0; at < argc; at++) {
        if (!strncmp(argv[at], "socket=", 7)) snprintf(name.sun_path, sizeof name.sun_path, "%s", argv[at] + 7);
        if (!strncmp(argv[at], "first=", 6) && first < 2) ranges[first++][0] = strtoull(argv[at] + 6, NULL, 0);
        if (!strncmp(argv[at], "last=", 5) && last < 2) ranges[last++][1] = strtoull(argv[at] + 5, NULL, 0);
    }
    vcpus = info->vcpus.smp;
    if (!name.sun_path[0] || first != 2 || last != 2 || vcpus > VCPUS) return errno = EINVAL, failed("arguments");
    struct scoreboard *score = qemu_plugin_scoreboard_new(KINDS * sizeof(uint64_t));
    for (int kind = 0; kind < KINDS; kind++) entries[kind] = (struct entry){score, kind * sizeof(uint64_t)};
    lines = mmap(NULL, LINES * sizeof *lines, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lines == MAP_FAILED) return failed("memory");
    unlink(name.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (void *)&name, sizeof name) || listen(listener, 4)) return failed(name.sun_path);
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, answer, (void *)(intptr_t)listener))) return failed("thread");
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
