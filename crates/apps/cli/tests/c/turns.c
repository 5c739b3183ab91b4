/* Descriptors of the kernel's and connections that are ready at once take turns where a wait has room for few. */
#include <sys/eventfd.h>
#include <sys/select.h>

/* Of 1,200 waits, how many told of the kernel's and of the connections: as a share of what a fair one tells, in tenths. */
static void takes_turns(int ep, int of_kernel, int of_ours, int max)
{
    int all = of_kernel + of_ours, kernel = 0, ours = 0, most = 0, seen[16] = { 0 };
    for (int i = 0; i < 1200; i++) {
        struct epoll_event events[16];
        int n = epoll_wait(ep, events, max, 1000);
        for (int j = 0; j < n; j++) {
            seen[events[j].data.u32]++;
            *(events[j].data.u32 < 8 ? &ours : &kernel) += 1;
        }
        most = n > most ? n : most;
    }
    int fair = 1200 * (max < all ? max : all) / all, few = 0;
    for (int i = 0; i < 16; i++)
        if (i < 8 ? i < of_ours : i - 8 < of_kernel)
            few += seen[i] < fair / 2;
    told(few, "%d of the kernel's, %d connections, room for %d: starved", of_kernel, of_ours, max);
    told(most, "most at once");
}

static void turns(void)
{
    int server[4], client[4], others[4], ep = epoll_create1(0);
    for (int i = 0; i < 4; i++) {
        blocking_pair(3210 + i, &server[i], &client[i]);
        arrive(client[i], server[i], "x");
        others[i] = eventfd(1, 0);
    }
    /* What has just come into the set is told at once, beside a connection that is ready. */
    for (int i = 0; i < 20; i++) {
        struct epoll_event event = { .events = EPOLLIN }, both[4];
        epoll_ctl(ep, EPOLL_CTL_ADD, server[0], &event);
        for (int wait = 0; wait < i % 10; wait++)
            epoll_wait(ep, both, 4, 0);
        epoll_ctl(ep, EPOLL_CTL_ADD, others[0], &event);
        told(epoll_wait(ep, both, 4, 0), "a connection, and an eventfd since then, %d", i);
        epoll_ctl(ep, EPOLL_CTL_DEL, server[0], NULL);
        epoll_ctl(ep, EPOLL_CTL_DEL, others[0], NULL);
    }
    for (int ours = 0; ours <= 4; ours++) {
        for (int kernels = 0; kernels <= 4; kernels++) {
            for (int max = 1; max <= 9 && ours + kernels > 0; max += max < 5 ? 1 : 4)
                takes_turns(ep, kernels, ours, max);
            struct epoll_event event = { .events = EPOLLIN, .data.u32 = 8 + (unsigned)kernels };
            if (kernels < 4)
                epoll_ctl(ep, EPOLL_CTL_ADD, others[kernels], &event);
        }
        for (int i = 0; i < 4; i++)
            epoll_ctl(ep, EPOLL_CTL_DEL, others[i], NULL);
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = (unsigned)ours };
        if (ours < 4)
            epoll_ctl(ep, EPOLL_CTL_ADD, server[ours], &event);
    }
    /* Edges and single shots are told once each, whatever there was room for. */
    for (int i = 0; i < 4; i++) {
        struct epoll_event event = { .events = EPOLLIN | (i % 2 ? EPOLLET : EPOLLONESHOT), .data.u32 = (unsigned)i };
        epoll_ctl(ep, EPOLL_CTL_MOD, server[i], &event);
        event.data.u32 += 8;
        epoll_ctl(ep, EPOLL_CTL_ADD, others[i], &event);
    }
    int seen[16] = { 0 }, n;
    struct epoll_event events[16];
    while ((n = epoll_wait(ep, events, 2, 100)) > 0)
        for (int j = 0; j < n; j++)
            seen[events[j].data.u32]++;
    for (int i = 0; i < 4; i++)
        told(seen[i] * 10 + seen[8 + i], "told of, %d", i);
    /* poll and select tell of all. */
    struct pollfd rows[8];
    fd_set set;
    FD_ZERO(&set);
    int highest = 0;
    for (int i = 0; i < 8; i++) {
        rows[i] = (struct pollfd){ .fd = i % 2 ? server[i / 2] : others[i / 2], .events = POLLIN };
        FD_SET(rows[i].fd, &set);
        highest = rows[i].fd > highest ? rows[i].fd : highest;
    }
    told(poll(rows, 8, 1000), "poll of eight that are ready");
    told(select(highest + 1, &set, NULL, NULL, NULL), "select of eight that are ready");
    for (int i = 0; i < 4; i++) {
        hang_up(server[i], client[i]);
        close(others[i]);
    }
    close(ep);
}
