/* epoll: one connection under several numbers, sets in sets, one shot, edges, what close leaves. */
#include <sys/eventfd.h>
#include <sys/select.h>

static int by_word(const void *a, const void *b)
{
    const struct epoll_event *x = a, *y = b;
    return x->data.u64 < y->data.u64 ? -1 : x->data.u64 > y->data.u64 ? 1 : (int)x->events - (int)y->events;
}

/* What a set has, in the order of its words. A wait may leave some for the next: what one or several waits give. */
static void found_in(int set, const char *what, int waits)
{
    struct epoll_event list[8], all[8];
    int n = 0;
    for (; waits > 0; waits--) {
        int more = epoll_wait(set, list, 8, n ? 0 : 100);
        if (more < 0)
            n = more;
        for (int i = 0; i < more; i++) {
            int known = 0;
            while (known < n && all[known].data.u64 != list[i].data.u64)
                known++;
            if (known < n)
                all[known].events |= list[i].events;
            else if (n < 8)
                all[n++] = list[i];
        }
    }
    told(n, "%s: ready", what);
    if (n > 1)
        qsort(all, (size_t)n, sizeof *all, by_word);
    for (int i = 0; i < n; i++)
        told((long)all[i].events, "%s: of %d", what, (int)all[i].data.u64);
}

static void found(int set, const char *what)
{
    found_in(set, what, 1);
}

/* Of descriptors that do not all come from one side. */
static void found_of_both(int set, const char *what)
{
    found_in(set, what, 16);
}

static long ctl(int set, int op, int fd, unsigned events, unsigned word)
{
    struct epoll_event event = { .events = events, .data.u64 = word };
    return epoll_ctl(set, op, fd, &event);
}

static void twins(void)
{
    int server, client, set = epoll_create1(0);
    char text[16];
    pair(3010, &server, &client);
    int twin = dup(server), third = fcntl(server, F_DUPFD_CLOEXEC, 0);
    told(ctl(set, EPOLL_CTL_MOD, server, EPOLLIN, 1), "MOD of what is not there");
    told(ctl(set, EPOLL_CTL_DEL, server, EPOLLIN, 1), "DEL of what is not there");
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN, 1), "ADD");
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN, 1), "ADD again");
    told(ctl(set, EPOLL_CTL_MOD, twin, EPOLLIN, 2), "MOD of the twin, which is not there");
    told(ctl(set, EPOLL_CTL_DEL, twin, 0, 0), "DEL of the twin, which is not there");
    told(ctl(set, EPOLL_CTL_ADD, twin, EPOLLIN | EPOLLET, 2), "ADD of the twin");
    told(ctl(set, EPOLL_CTL_ADD, twin, EPOLLIN, 2), "ADD of the twin again");
    told(ctl(set, EPOLL_CTL_ADD, third, EPOLLIN | EPOLLONESHOT, 3), "ADD of the third");
    found(set, "nothing");
    arrive(client, server, "abc");
    found(set, "three bytes");
    found(set, "level");
    told(ctl(set, EPOLL_CTL_MOD, third, EPOLLIN | EPOLLONESHOT, 4), "the shot again, another word");
    found(set, "armed");
    told(ctl(set, EPOLL_CTL_DEL, server, 0, 0), "DEL of the first");
    found(set, "after DEL of the first");
    told(ctl(set, EPOLL_CTL_DEL, server, 0, 0), "DEL of the first again");
    told(ctl(set, EPOLL_CTL_MOD, server, EPOLLIN, 1), "MOD of the first");
    arrive(client, server, "d");
    found(set, "another byte");
    told(close(twin), "close of the twin");
    arrive(client, server, "e");
    found(set, "the closed number's place stays");
    told(ctl(set, EPOLL_CTL_DEL, twin, 0, 0), "DEL of a closed number");
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN, 1), "ADD of the first");
    told(close(server), "close of the first");
    found(set, "its place stays, too");
    told(read(third, text, 16), "read");
    found(set, "nothing");
    told(close(third), "close of the last");
    told(drain(client, text, 1), "the peer has the end");
    found(set, "all is gone");
    raw_close(client);
    pair(3011, &server, &client);
    twin = dup(server);
    int other = epoll_create1(0);
    told(ctl(set, EPOLL_CTL_ADD, twin, EPOLLIN, 1), "the twin in one set");
    told(ctl(other, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLOUT, 2), "the first in another");
    found(set, "one");
    found(other, "the other");
    int moved = dup2(twin, 700);
    told(moved, "dup2");
    close(twin);
    arrive(client, server, "x");
    found(set, "under a number that is closed");
    told(ctl(set, EPOLL_CTL_ADD, moved, EPOLLIN, 3), "under the new one, too");
    found_of_both(set, "both");
    told(dup2(client, moved) == moved, "another takes the number over");
    found(set, "which changes nothing");
    raw_fcntl(client, F_SETFL, O_NONBLOCK);
    told(ctl(set, EPOLL_CTL_ADD, moved, EPOLLOUT, 4), "which is another file");
    found_of_both(set, "all three");
    close(moved);
    hang_up(server, client);
    found(set, "nothing is left");
    found(other, "nothing is left");
    close(set);
    told(ctl(set, EPOLL_CTL_ADD, other, EPOLLIN, 1), "into a set that is closed");
    close(other);
}

/* Sockets that are watched before they are what they become. */
static void before(void)
{
    int set = epoll_create1(0), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in addr = at(SERVER, 3012);
    int twin = dup(fd);
    told(ctl(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1), "ADD of a new socket");
    told(ctl(set, EPOLL_CTL_ADD, twin, EPOLLIN | EPOLLET, 2), "ADD of its twin");
    found(set, "new");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    told(bind(fd, SA(addr)), "bind");
    told(listen(fd, 5), "listen");
    found(set, "listens");
    int client = new_socket(CLIENT, AF_INET);
    raw_connect(client, SA(addr));
    ready(SERVER, fd, POLLIN);
    found(set, "a connection comes");
    found(set, "it has not been taken");
    told(ctl(set, EPOLL_CTL_DEL, twin, 0, 0), "DEL of the twin");
    found(set, "still");
    int server = accept(fd, NULL, NULL);
    told(server < 0 ? -1 : 0, "accept");
    found(set, "it has been taken");
    told(ctl(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 3), "one shot");
    int second = new_socket(CLIENT, AF_INET);
    raw_connect(second, SA(addr));
    ready(SERVER, fd, POLLIN);
    found(set, "the shot");
    found(set, "no more");
    close(accept(fd, NULL, NULL));
    raw_close(second);
    hang_up(server, client);
    told(ctl(set, EPOLL_CTL_DEL, fd, 0, 0), "DEL of the listener");
    close(fd);
    close(twin);
    /* A client's socket that is watched before it connects, under two numbers. */
    int peer = raw_socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in there = at(CLIENT, 3013);
    raw_setsockopt(peer, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    raw_bind(peer, SA(there));
    raw_listen(peer, 5);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    twin = dup(fd);
    told(ctl(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET, 5), "ADD before connect");
    told(ctl(set, EPOLL_CTL_ADD, twin, EPOLLOUT | EPOLLONESHOT, 6), "ADD of its twin");
    found(set, "before connect");
    found(set, "an edge is told once");
    told(ctl(set, EPOLL_CTL_MOD, twin, EPOLLOUT | EPOLLONESHOT, 6), "the shot again");
    told(connect(fd, SA(there)), "connect");
    ready(SERVER, fd, POLLOUT);
    found(set, "connected");
    int accepted = (int)raw_accept(peer, NULL, NULL);
    raw_send(accepted, "hello", 5, MSG_NOSIGNAL);
    ready(SERVER, fd, POLLIN);
    found(set, "bytes");
    told(ctl(set, EPOLL_CTL_MOD, twin, EPOLLIN, 7), "MOD of the twin");
    found(set, "the twin's level");
    raw_close(accepted);
    raw_close(peer);
    close(fd);
    found(set, "the twin holds it");
    close(twin);
    found(set, "gone");
    close(set);
}

static void nested(void)
{
    int server, client, counter = eventfd(0, EFD_NONBLOCK);
    char text[16];
    unsigned long word;
    int outer = epoll_create1(0), inner = epoll_create1(0), innermost = epoll_create1(0);
    told(ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 1), "an empty set in a set");
    told(ctl(inner, EPOLL_CTL_ADD, innermost, EPOLLIN, 2), "and one in that");
    told(ctl(innermost, EPOLL_CTL_ADD, outer, EPOLLIN, 3), "a circle");
    found(outer, "empty");
    pair(3014, &server, &client);
    told(ctl(innermost, EPOLL_CTL_ADD, server, EPOLLIN, 4), "a connection in the innermost");
    found(outer, "nothing yet");
    arrive(client, server, "abc");
    found(outer, "bytes");
    found(inner, "bytes");
    found(innermost, "bytes");
    struct pollfd row = { .fd = outer, .events = POLLIN };
    told(poll(&row, 1, 0), "poll of the outer set");
    told(row.revents, "says");
    told(read(server, text, 16), "read");
    told(poll(&row, 1, 0), "poll of the outer set");
    found(outer, "nothing");
    told(ctl(inner, EPOLL_CTL_ADD, counter, EPOLLIN, 5), "the kernel's beside it");
    eventfd_write(counter, 1);
    found(outer, "the kernel's");
    found(inner, "the kernel's");
    arrive(client, server, "d");
    found_of_both(outer, "both");
    found_of_both(inner, "both");
    eventfd_read(counter, &word);
    told(read(server, text, 16), "read");
    found(outer, "nothing");
    told(ctl(outer, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLET, 6), "edges of a set");
    arrive(client, server, "e");
    found(outer, "an edge");
    found(outer, "once");
    told(ctl(outer, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLONESHOT, 7), "one shot of a set");
    found(outer, "the shot");
    found(outer, "no more");
    told(ctl(outer, EPOLL_CTL_DEL, inner, 0, 0), "DEL");
    found(outer, "without it");
    int set = epoll_create1(0);
    told(ctl(set, EPOLL_CTL_ADD, counter, EPOLLIN, 8), "a set of the kernel's alone");
    told(ctl(outer, EPOLL_CTL_ADD, set, EPOLLIN, 9), "in the outer one");
    told(ctl(outer, EPOLL_CTL_ADD, server, EPOLLIN, 10), "beside a connection");
    found(outer, "the connection");
    eventfd_write(counter, 1);
    found_of_both(outer, "both");
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN, 11), "the connection in both");
    found_of_both(outer, "both");
    found_of_both(set, "both");
    close(counter);
    found(set, "the connection alone");
    told(close(set), "close of the inner set");
    found(outer, "the connection alone");
    int twin = dup(outer);
    close(outer);
    found(twin, "the outer set under another number");
    told(ctl(twin, EPOLL_CTL_ADD, outer, EPOLLIN, 1), "a number that is closed");
    outer = dup(twin);
    told(ctl(twin, EPOLL_CTL_ADD, outer, EPOLLIN, 1), "a set in itself, by another number");
    close(twin);
    close(outer);
    close(inner);
    close(innermost);
    hang_up(server, client);
}

static void exclusive(void)
{
    int server, client, set = epoll_create1(0), other = epoll_create1(0), fd = listener(3015);
    pair(3016, &server, &client);
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLEXCLUSIVE, 1), "EPOLLEXCLUSIVE");
    told(ctl(set, EPOLL_CTL_MOD, server, EPOLLIN, 1), "MOD of it");
    told(ctl(set, EPOLL_CTL_MOD, server, EPOLLIN | EPOLLEXCLUSIVE, 1), "MOD with it");
    told(ctl(set, EPOLL_CTL_DEL, server, 0, 0), "DEL of it");
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1), "with one shot");
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLEXCLUSIVE | EPOLLRDHUP, 1), "with EPOLLRDHUP");
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLEXCLUSIVE | EPOLLET | EPOLLWAKEUP, 1), "with edges");
    told(ctl(set, EPOLL_CTL_DEL, server, 0, 0), "DEL of it");
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN, 1), "without");
    told(ctl(set, EPOLL_CTL_MOD, server, EPOLLIN | EPOLLEXCLUSIVE, 1), "MOD to EPOLLEXCLUSIVE");
    told(ctl(set, EPOLL_CTL_ADD, other, EPOLLIN | EPOLLEXCLUSIVE, 1), "of a set");
    told(ctl(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLEXCLUSIVE, 2), "of a listener");
    told(ctl(set, EPOLL_CTL_MOD, fd, EPOLLIN, 2), "MOD of it");
    told(ctl(other, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLEXCLUSIVE, 3), "in another set");
    found(set, "nothing");
    struct sockaddr_in addr = at(SERVER, 3015);
    int second = new_socket(CLIENT, AF_INET);
    raw_connect(second, SA(addr));
    ready(SERVER, fd, POLLIN);
    found(set, "a connection comes");
    close(accept(fd, NULL, NULL));
    found(set, "it has been taken");
    raw_close(second);
    close(fd);
    close(set);
    close(other);
    hang_up(server, client);
}

static void waits(void)
{
    int server, client, set = epoll_create1(0);
    struct epoll_event list[4];
    pair(3017, &server, &client);
    ctl(set, EPOLL_CTL_ADD, server, EPOLLIN, 1);
    struct timespec none = { 0, 0 }, some = { 0, 30000000 }, odd = { 0, 1000000000 }, negative = { -1, 0 };
    told(epoll_pwait2(set, list, 4, &none, NULL), "epoll_pwait2, not to wait");
    long begun = ms();
    told(epoll_pwait2(set, list, 4, &some, NULL), "for 30 ms");
    told(ms() - begun >= 29 && ms() - begun < 1000, "it took so long");
    told(epoll_pwait2(set, list, 4, &odd, NULL), "for too many nanoseconds");
    told(epoll_pwait2(set, list, 4, &negative, NULL), "for a negative time");
    told(epoll_pwait2(set, list, 0, &none, NULL), "no events wanted");
    told(epoll_pwait2(-1, list, 4, &none, NULL), "of -1");
    told(epoll_pwait2(server, list, 4, &none, NULL), "of a connection");
    told(epoll_wait(server, list, 4, 0), "epoll_wait of a connection");
    told(epoll_wait(set, list, 0x7fffffff, 0), "too many events wanted");
    arrive(client, server, "x");
    told(epoll_pwait2(set, list, 4, NULL, NULL), "without a time");
    told(epoll_wait(set, list, 4, -1), "epoll_wait without a time");
    told(epoll_wait(set, NULL, 4, 0), "events at NULL");
    told(ctl(set, EPOLL_CTL_MOD, server, 0, 1), "watched for nothing");
    told(epoll_wait(set, list, 4, 0), "says nothing");
    told(ctl(set, EPOLL_CTL_MOD, server, EPOLLRDNORM | EPOLLWRNORM, 1), "by other names");
    found(set, "by other names");
    told(ctl(set, EPOLL_CTL_MOD, server, EPOLLPRI | EPOLLMSG | EPOLLRDBAND, 1), "for what there is not");
    found(set, "for what there is not");
    told(epoll_ctl(set, EPOLL_CTL_MOD, server, NULL), "MOD from NULL");
    told(ctl(-1, EPOLL_CTL_ADD, server, EPOLLIN, 1), "in -1");
    told(ctl(server, EPOLL_CTL_ADD, server, EPOLLIN, 1), "in itself");
    told(ctl(set, 0, server, EPOLLIN, 1), "no operation");
    close(set);
    hang_up(server, client);
}

struct waiter {
    int set, n;
    struct epoll_event event;
};

static void *waits_long(void *arg)
{
    struct waiter *waiter = arg;
    waiter->n = epoll_wait(waiter->set, &waiter->event, 1, 3000);
    return NULL;
}

/* Threads that wait for sets into which others put something. */
static void waking(void)
{
    int server, client, counter = eventfd(0, EFD_NONBLOCK);
    pair(3018, &server, &client);
    arrive(client, server, "x");
    for (int how = 0; how < 4; how++) {
        static const char *names[] = { "a connection", "one in an inner set", "a listener", "the kernel's" };
        int outer = epoll_create1(0), inner = epoll_create1(0), fd = -1, second = -1;
        struct waiter waiter = { .set = outer };
        pthread_t thread;
        ctl(outer, EPOLL_CTL_ADD, counter, EPOLLIN, 1);
        ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 2);
        pthread_create(&thread, NULL, waits_long, &waiter);
        usleep(50000);
        if (how == 0)
            told(ctl(outer, EPOLL_CTL_ADD, server, EPOLLIN, 3), "%s comes into a set that is waited for", names[how]);
        else if (how == 1)
            told(ctl(inner, EPOLL_CTL_ADD, server, EPOLLIN, 3), "%s", names[how]);
        else if (how == 2) {
            struct sockaddr_in addr = at(SERVER, 3019);
            fd = listener(3019);
            told(ctl(outer, EPOLL_CTL_ADD, fd, EPOLLIN, 4), "%s", names[how]);
            usleep(50000);
            second = new_socket(CLIENT, AF_INET);
            raw_connect(second, SA(addr));
        } else
            told(eventfd_write(counter, 1), "%s", names[how]);
        pthread_join(thread, NULL);
        told(waiter.n, "%s: the thread has", names[how]);
        told((long)waiter.event.data.u64, "%s: of", names[how]);
        told(epoll_wait(outer, &waiter.event, 1, 0), "%s: it is still there", names[how]);
        told((long)waiter.event.data.u64, "%s: of", names[how]);
        close(outer);
        close(inner);
        close(fd);
        if (second >= 0)
            raw_close(second);
    }
    close(counter);
    hang_up(server, client);
}

/* A thread polls a set in which there is nothing; then there is. */
struct poller {
    int set, how, n;
    long took;
};

static void *polls(void *arg)
{
    struct poller *poller = arg;
    struct pollfd row = { .fd = poller->set, .events = POLLIN };
    struct timespec limit = { 3, 0 };
    fd_set in;
    FD_ZERO(&in);
    FD_SET(poller->set, &in);
    long begun = ms();
    poller->n = poller->how == 0   ? poll(&row, 1, 3000)
                : poller->how == 1 ? ppoll(&row, 1, &limit, NULL)
                                   : pselect(poller->set + 1, &in, NULL, NULL, &limit, NULL);
    poller->took = ms() - begun;
    return NULL;
}

static void woken_polls(void)
{
    static const char *names[] = { "poll", "ppoll", "pselect" };
    int server, client;
    pair(3142, &server, &client);
    arrive(client, server, "a");
    for (int how = 0; how < 3; how++) {
        struct poller poller = { .set = epoll_create1(0), .how = how };
        pthread_t thread;
        pthread_create(&thread, NULL, polls, &poller);
        usleep(100000);
        told(ctl(poller.set, EPOLL_CTL_ADD, server, EPOLLIN, 1), "%s of a set: ADD", names[how]);
        pthread_join(thread, NULL);
        told(poller.n, "%s of a set", names[how]);
        told(poller.took < 1500, "%s of a set: at once", names[how]);
        found(poller.set, names[how]);
        told(ctl(poller.set, EPOLL_CTL_DEL, server, 0, 0), "%s of a set: DEL", names[how]);
        poller.n = ready(SERVER, poller.set, 0);
        told(poller.n, "%s of a set: nothing is left", names[how]);
        close(poller.set);
    }
    hang_up(server, client);
}

static void *polls_for_nothing(void *set)
{
    struct pollfd row = { .fd = *(int *)set, .events = POLLPRI };
    return (void *)(long)poll(&row, 1, 1000);
}

static long cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* A poll that a set cannot end sleeps on, and other threads that wait for the set sleep too. */
static void deaf_polls(void)
{
    int server, client, set = epoll_create1(0);
    struct epoll_event got;
    pthread_t thread;
    void *n;
    pair(3145, &server, &client);
    pthread_create(&thread, NULL, polls_for_nothing, &set);
    usleep(100000);
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLIN, 1), "ADD beside a poll for POLLPRI");
    long used = cpu_ms();
    told(epoll_wait(set, &got, 1, 500), "nothing comes");
    told(cpu_ms() - used < 100, "the wait sleeps");
    arrive(client, server, "a");
    told(epoll_wait(set, &got, 1, 500), "something comes");
    pthread_join(thread, &n);
    told((long)n, "poll for POLLPRI");
    hang_up(server, client);
    close(set);
}

/* A socket that is still the kernel's, beside a connection that is ready. */
static void beside_a_connection(void)
{
    int server, client, set = epoll_create1(0), fresh = socket(AF_INET, SOCK_STREAM, 0);
    struct epoll_event got[4];
    pair(3146, &server, &client);
    told(ctl(set, EPOLL_CTL_ADD, server, EPOLLOUT, 1), "ADD of a connection");
    told(epoll_wait(set, got, 4, 0), "it is ready");
    told(ctl(set, EPOLL_CTL_ADD, fresh, EPOLLOUT, 2), "ADD of a new socket");
    told(epoll_wait(set, got, 4, 0), "both are");
    told(ctl(set, EPOLL_CTL_DEL, fresh, 0, 0), "DEL");
    told(epoll_wait(set, got, 4, 0), "one is");
    close(fresh);
    close(set);
    hang_up(server, client);
}

/* A listener that was shut before any wait, polled and watched. */
static void shut_listener(void)
{
    int set = epoll_create1(0), fd = socket(AF_INET, SOCK_STREAM, 0);
    struct epoll_event got[4];
    told(listen(fd, 4), "listen without a name");
    told(ctl(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, 1), "ADD of the listener");
    told(shutdown(fd, SHUT_RD), "SHUT_RD");
    told(ready(SERVER, fd, POLLIN | POLLOUT | POLLRDHUP), "poll of it");
    told(epoll_wait(set, got, 4, 0) == 1 ? (long)got[0].events : -1, "the set tells");
    close(fd);
    close(set);
}

/* A listener that is told of once, whichever process comes, goes or is killed. */
static void shots(void)
{
    int set = epoll_create1(0), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    int near = socket(AF_INET, SOCK_STREAM, 0), far = new_socket(CLIENT, AF_INET);
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(3143) }, addr = at(SERVER, 3143);
    struct sockaddr_in loopback = any;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    told(bind(fd, SA(any)), "bind to any");
    told(listen(fd, 5), "listen");
    told(ctl(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLONESHOT, 77), "one shot");
    found(set, "no client comes");
    raw_connect(far, SA(addr));
    told(connect(near, SA(loopback)), "connect over the loopback");
    ready(SERVER, fd, POLLIN);
    usleep(100000);
    found(set, "two come");
    for (int i = 0; i < 20; i++)
        if (epoll_wait(set, &(struct epoll_event){ 0 }, 1, 5))
            told(i, "a second shot");
    told(ctl(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 78), "armed again");
    found(set, "two still wait");
    for (int i = 0; i < 20; i++)
        if (epoll_wait(set, &(struct epoll_event){ 0 }, 1, 5))
            told(i, "a second shot");
    told(ctl(set, EPOLL_CTL_MOD, fd, EPOLLIN, 79), "not once any more");
    found_of_both(set, "always");
    for (int i = 0; i < 2; i++) {
        int conn = accept(fd, NULL, NULL);
        told(conn < 0 ? -1 : 0, "accept");
        close(conn);
    }
    found(set, "all were taken");
    close(near);
    raw_close(far);
    close(fd);
    close(set);
}

static void watching(void)
{
    woken_polls();
    deaf_polls();
    beside_a_connection();
    shut_listener();
    shots();
    waking();
    twins();
    before();
    nested();
    exclusive();
    waits();
}
