/* What calls on descriptors of the kernel's cost, in nanoseconds: run it by itself, and under `millstream run`, in turns.
 *
 *   cost [CALLS]    so many of each (2,000,000); the least of five rounds counts
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static int set, ready, idle;
static struct epoll_event event;

static void write_it(void)
{
    if (write(ready, "", 0) != -1 || errno != EINVAL)
        abort();
}

static void read_it(void)
{
    uint64_t count;
    if (read(idle, &count, sizeof count) != -1 || errno != EAGAIN)
        abort();
}

static void look(void)
{
    if (epoll_wait(set, &event, 1, 0) != 1)
        abort();
}

static void wait_a_second(void)
{
    if (epoll_wait(set, &event, 1, 1000) != 1)
        abort();
}

static void wait_for_ever(void)
{
    if (epoll_wait(set, &event, 1, -1) != 1)
        abort();
}

static void poll_it(void)
{
    struct pollfd row = {.fd = ready, .events = POLLIN};
    if (poll(&row, 1, 0) != 1)
        abort();
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*call)(void);
    } calls[] = {{"write", write_it},
                 {"read", read_it},
                 {"epoll_wait, 0 ms", look},
                 {"epoll_wait, 1000 ms", wait_a_second},
                 {"epoll_wait, for ever", wait_for_ever},
                 {"poll", poll_it}};
    long times = argc > 1 ? atol(argv[1]) : 2000000;
    set = epoll_create1(0);
    ready = eventfd(1, EFD_NONBLOCK);
    idle = eventfd(0, EFD_NONBLOCK);
    event.events = EPOLLIN;
    if (times < 1 || epoll_ctl(set, EPOLL_CTL_ADD, ready, &event))
        return 1;
    for (unsigned which = 0; which < sizeof calls / sizeof *calls; which++) {
        double least = 1e18;
        for (int round = 0; round < 5; round++) {
            double begun = now();
            for (long i = 0; i < times / 5; i++)
                calls[which].call();
            double took = (now() - begun) / (times / 5 > 0 ? times / 5 : 1);
            least = took < least ? took : least;
        }
        printf("%-22s %7.1f ns\n", calls[which].name, least);
    }
    return 0;
}
