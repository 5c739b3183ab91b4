/* splice, tee, vmsplice, sendfile, copy_file_range with a connection at one end. */
#include <sys/mman.h>
#include <sys/sendfile.h>

static volatile sig_atomic_t pipes_broken;

static void broken(int signal)
{
    (void)signal;
    pipes_broken++;
}

static void wrong_arguments(int server, int ends[2], int file)
{
    off_t zero = 0;
    told(splice(server, &zero, ends[1], NULL, 10, 0), "from a connection, with its offset");
    told(splice(server, NULL, ends[1], &zero, 10, 0), "from a connection, with the pipe's offset");
    told(splice(ends[0], &zero, server, NULL, 10, 0), "to a connection, with the pipe's offset");
    told(splice(ends[0], NULL, server, &zero, 10, 0), "to a connection, with its offset");
    told(splice(server, NULL, server, NULL, 10, 0), "to itself");
    told(splice(server, NULL, file, NULL, 10, 0), "to a file");
    told(splice(file, NULL, server, NULL, 10, 0), "from a file");
    told(splice(-1, NULL, server, NULL, 10, 0), "from -1");
    told(splice(server, NULL, -1, NULL, 10, 0), "to -1");
    told(splice(9999, NULL, server, NULL, 10, 0), "from what is not open");
    told(splice(server, NULL, ends[0], NULL, 10, 0), "to the end that is read");
    told(splice(ends[1], NULL, server, NULL, 10, 0), "from the end that is written");
    told(splice(server, NULL, ends[1], NULL, 0, 0), "no bytes from it");
    told(splice(ends[0], NULL, server, NULL, 0, 0), "no bytes to it");
    told(splice(server, NULL, ends[1], NULL, 10, 0x100), "from it with flags there are not");
    told(splice(ends[0], NULL, server, NULL, 10, 0x100), "to it with flags there are not");
    told(splice(server, (off_t *)8, ends[1], NULL, 10, 0), "from it with an offset nowhere");
    told(splice(ends[0], NULL, server, (off_t *)8, 10, 0), "to it with an offset nowhere");
    told(tee(server, ends[1], 10, 0), "tee from it");
    told(tee(ends[0], server, 10, 0), "tee to it");
    struct iovec part = { "letter", 6 };
    told(vmsplice(server, &part, 1, 0), "vmsplice to it");
    told(copy_file_range(file, NULL, server, NULL, 10, 0), "copy_file_range to it");
    told(copy_file_range(server, NULL, file, NULL, 10, 0), "copy_file_range from it");
    told(copy_file_range(server, &zero, server, &zero, 10, 0), "copy_file_range to itself");
}

static void into_pipes(void)
{
    int server, client, ends[2];
    char text[70000], sent[70000];
    pair(3000, &server, &client);
    pipe(ends);
    told(splice(server, NULL, ends[1], NULL, 10, 0), "nothing is there");
    told(splice(server, NULL, ends[1], NULL, 10, SPLICE_F_NONBLOCK), "nothing is there, not to wait");
    arrive(client, server, "hello world");
    told(splice(server, NULL, ends[1], NULL, 5, 0), "five of eleven");
    told(splice(server, NULL, ends[1], NULL, 100, SPLICE_F_MOVE | SPLICE_F_MORE), "the rest");
    memset(text, 0, sizeof text);
    told(read(ends[0], text, 100), "the pipe has");
    told(strcmp(text, "hello world"), "the same bytes");
    int there = -1;
    ioctl(server, FIONREAD, &there);
    told(there, "nothing is left");
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], text, 4096) > 0)
        ;
    arrive(client, server, "more");
    told(splice(server, NULL, ends[1], NULL, 100, 0), "into a full pipe that does not block");
    fcntl(ends[1], F_SETFL, 0);
    told(splice(server, NULL, ends[1], NULL, 100, SPLICE_F_NONBLOCK), "into a full pipe, not to wait");
    ioctl(server, FIONREAD, &there);
    told(there, "nothing was taken");
    while (ioctl(ends[0], FIONREAD, &there) == 0 && there > 0)
        read(ends[0], text, sizeof text);
    told(splice(server, NULL, ends[1], NULL, 100, 0), "into an empty pipe");
    told(read(ends[0], text, 100), "the pipe has");
    fill(sent, sizeof sent, 5);
    long all = 0, got;
    raw_fcntl(client, F_SETFL, 0);
    raw_send(client, sent, sizeof sent, MSG_NOSIGNAL);
    while (all < (long)sizeof sent && ready(SERVER, server, POLLIN) > 0
           && (got = splice(server, NULL, ends[1], NULL, sizeof sent, 0)) > 0)
        for (long left = got; left > 0; left -= got, all += got)
            if ((got = read(ends[0], text + all, (size_t)left)) <= 0)
                break;
    told(all, "a lot");
    told(memcmp(sent, text, sizeof sent), "is the same");
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    raw_send(client, sent, sizeof sent, MSG_NOSIGNAL);
    all = 0;
    while (all < (long)sizeof sent && ready(SERVER, server, POLLIN) > 0
           && (got = splice(server, NULL, ends[1], NULL, sizeof sent, SPLICE_F_NONBLOCK)) > 0)
        for (long left = got; left > 0; left -= got, all += got)
            if ((got = read(ends[0], text + all, (size_t)left)) <= 0)
                break;
    told(all, "through a pipe of a page");
    told(memcmp(sent, text, sizeof sent), "is the same");
    fcntl(server, F_SETFL, 0);
    struct timeval limit = { 0, 30000 };
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    told(splice(server, NULL, ends[1], NULL, 10, 0), "SO_RCVTIMEO ends the wait");
    raw_send(client, "late", 4, MSG_NOSIGNAL);
    raw_shutdown(client, SHUT_WR);
    ready(SERVER, server, POLLRDHUP);
    told(splice(server, NULL, ends[1], NULL, 10, 0), "before the end");
    told(read(ends[0], text, 100), "the pipe has");
    told(splice(server, NULL, ends[1], NULL, 10, 0), "at the end");
    shutdown(server, SHUT_RD);
    told(splice(server, NULL, ends[1], NULL, 10, 0), "after SHUT_RD");
    close(ends[0]);
    told(splice(server, NULL, ends[1], NULL, 10, 0), "into a pipe that nothing reads, at the end");
    close(ends[1]);
    hang_up(server, client);
    pair(3001, &server, &client);
    pipe(ends);
    close(ends[0]);
    arrive(client, server, "lost");
    pipes_broken = 0;
    told(splice(server, NULL, ends[1], NULL, 10, 0), "into a pipe that nothing reads");
    told(pipes_broken, "SIGPIPE");
    ioctl(server, FIONREAD, &there);
    told(there, "what is left");
    close(ends[1]);
    struct linger now = { 1, 0 };
    raw_setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    raw_close(client);
    pipe(ends);
    ready(SERVER, server, POLLHUP);
    told(splice(server, NULL, ends[1], NULL, 10, 0), "after a reset");
    told(splice(server, NULL, ends[1], NULL, 10, 0), "once more");
    told(splice(ends[0], NULL, server, NULL, 10, SPLICE_F_NONBLOCK), "to it, of an empty pipe");
    write(ends[1], "letter", 6);
    pipes_broken = 0;
    told(splice(ends[0], NULL, server, NULL, 10, 0), "to it");
    told(pipes_broken, "SIGPIPE");
    ioctl(ends[0], FIONREAD, &there);
    told(there, "the pipe has still");
    close(ends[0]);
    close(ends[1]);
    close(server);
}

static void from_pipes(void)
{
    int server, client, ends[2], there;
    static char text[1 << 20], back[1 << 20];
    blocking_pair(3002, &server, &client);
    pipe(ends);
    told(splice(ends[0], NULL, server, NULL, 10, SPLICE_F_NONBLOCK), "of an empty pipe, not to wait");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    told(splice(ends[0], NULL, server, NULL, 10, 0), "of an empty pipe that does not block");
    fcntl(ends[0], F_SETFL, 0);
    fill(text, sizeof text, 9);
    told(write(ends[1], text, 1000), "write");
    told(splice(ends[0], NULL, server, NULL, 400, SPLICE_F_MORE), "four hundred");
    told(splice(ends[0], NULL, server, NULL, 4000, 0), "the rest");
    told(drain(client, back, 1000), "the peer has");
    told(memcmp(text, back, 1000), "the same");
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    long all = write(ends[1], text, 300000);
    told(all, "write of a lot");
    long gone = 0, step, bad = 0;
    fcntl(server, F_SETFL, O_NONBLOCK);
    while (gone < all) {
        step = splice(ends[0], NULL, server, NULL, (size_t)(all - gone), 0);
        if (step < 0 && errno == EAGAIN) {
            ready(SERVER, server, POLLOUT);
            break;
        }
        if (step <= 0)
            break;
        gone += step;
    }
    told(drain(client, back, (size_t)gone) == gone, "the peer has what went");
    told(memcmp(text, back, (size_t)gone), "the same");
    ioctl(ends[0], FIONREAD, &there);
    told(there + gone, "and the pipe the rest");
    while (gone < all && (step = splice(ends[0], NULL, server, NULL, (size_t)(all - gone), 0)) != 0) {
        if (step > 0) {
            bad |= drain(client, back + gone, (size_t)step) != step;
            gone += step;
        } else if (errno != EAGAIN)
            break;
    }
    told(bad, "every piece arrives");
    told(gone, "everything");
    told(memcmp(text, back, (size_t)gone), "the same");
    /* A peer that does not read: the socket fills, and the pipe keeps what does not fit. */
    long put = 0;
    gone = 0;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    for (;;) {
        step = write(ends[1], text, 65536);
        put += step > 0 ? step : 0;
        step = splice(ends[0], NULL, server, NULL, 1 << 20, SPLICE_F_NONBLOCK);
        if (step <= 0)
            break;
        gone += step;
    }
    told(step, "the socket is full");
    ioctl(ends[0], FIONREAD, &there);
    told(there + gone - put, "nothing is lost");
    long seen = 0;
    while (seen < gone && (step = drain(client, back, gone - seen > 65536 ? 65536 : (size_t)(gone - seen))) > 0)
        seen += step;
    told(seen - gone, "the peer has everything");
    close(ends[1]);
    while (there > 0) {
        ready(SERVER, server, POLLOUT);
        step = splice(ends[0], NULL, server, NULL, 1 << 20, 0);
        if (step > 0) {
            drain(client, back, (size_t)step);
            there -= (int)step;
        } else if (errno != EAGAIN)
            break;
    }
    told(there, "the pipe is empty");
    told(splice(ends[0], NULL, server, NULL, 10, 0), "of a pipe that nothing writes");
    shutdown(server, SHUT_WR);
    close(ends[0]);
    pipe(ends);
    write(ends[1], "letter", 6);
    pipes_broken = 0;
    told(splice(ends[0], NULL, server, NULL, 10, 0), "after SHUT_WR");
    told(pipes_broken, "SIGPIPE");
    close(ends[0]);
    close(ends[1]);
    hang_up(server, client);
    int fresh = socket(AF_INET, SOCK_STREAM, 0), listens = listener(3003);
    pipe(ends);
    told(splice(fresh, NULL, ends[1], NULL, 10, 0), "from a new socket");
    told(splice(listens, NULL, ends[1], NULL, 10, 0), "from a listener");
    write(ends[1], "letter", 6);
    told(splice(ends[0], NULL, fresh, NULL, 10, 0), "to a new socket");
    told(splice(ends[0], NULL, listens, NULL, 10, 0), "to a listener");
    close(fresh);
    close(listens);
    close(ends[0]);
    close(ends[1]);
}

static int new_file(const char *text, size_t len)
{
    char name[] = "/tmp/ms-launched-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    if (write(fd, text, len) != (long)len)
        perror("a file");
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void send_files(int file, const char *text, size_t len)
{
    int server, client, ends[2];
    static char back[1 << 20];
    blocking_pair(3004, &server, &client);
    pipe(ends);
    off_t offset = 100;
    told(sendfile(server, file, &offset, 1000), "a thousand from 100 on");
    told(offset, "the offset");
    told(lseek(file, 0, SEEK_CUR), "the file's own");
    told(drain(client, back, 1000), "the peer has");
    told(memcmp(text + 100, back, 1000), "the same");
    told(sendfile(server, file, NULL, 500), "five hundred from the beginning");
    told(lseek(file, 0, SEEK_CUR), "the file's own offset");
    told(drain(client, back, 500), "the peer has");
    told(memcmp(text, back, 500), "the same");
    offset = (off_t)len - 10;
    told(sendfile(server, file, &offset, 1000), "over the end");
    told(offset - (off_t)len, "the offset is the end");
    told(sendfile(server, file, &offset, 1000), "at the end");
    offset = (off_t)len + 5;
    told(sendfile(server, file, &offset, 1000), "behind the end");
    told(drain(client, back, 10), "the peer has");
    offset = -1;
    told(sendfile(server, file, &offset, 10), "a negative offset");
    told(sendfile(server, file, (off_t *)8, 10), "an offset nowhere");
    told(sendfile(server, file, NULL, 0), "no bytes");
    told(sendfile(server, -1, NULL, 10), "from -1");
    told(sendfile(server, ends[0], NULL, 10), "from a pipe");
    offset = 0;
    told(sendfile(server, ends[0], &offset, 10), "from a pipe, with an offset");
    told(sendfile(server, server, NULL, 10), "from itself");
    told(sendfile(server, server, &offset, 10), "from itself, with an offset");
    told(sendfile(file, server, NULL, 10), "from it to a file");
    int only = open("/dev/null", O_WRONLY);
    told(sendfile(server, only, NULL, 10), "from what cannot be read");
    close(only);
    int zero = open("/dev/zero", O_RDONLY);
    told(sendfile(server, zero, NULL, 3000), "from a device");
    told(drain(client, back, 3000), "the peer has");
    close(zero);
    arrive(client, server, "to the pipe");
    told(sendfile(ends[1], server, &offset, 100), "from it to a pipe, with an offset");
    told(sendfile(ends[1], server, NULL, 100), "from it to a pipe");
    told(read(ends[0], back, 100), "the pipe has");
    told(memcmp(back, "to the pipe", 11), "the same");
    /* A peer that reads slowly. */
    fcntl(server, F_SETFL, O_NONBLOCK);
    offset = 0;
    long step, all = 0, bad = 0;
    while (offset < (off_t)len) {
        step = sendfile(server, file, &offset, len - (size_t)offset);
        if (step < 0 && errno == EAGAIN) {
            bad |= drain(client, back + all, (size_t)(offset - all)) != offset - all;
            all = offset;
        } else if (step <= 0)
            break;
    }
    told(bad, "every piece arrives");
    told(offset - (off_t)len, "everything went");
    told(drain(client, back + all, (size_t)(offset - all)) == offset - all, "the peer has the rest");
    told(memcmp(text, back, len), "the same");
    for (step = 1; step > 0;) {
        offset = 0;
        step = sendfile(server, file, &offset, len);
    }
    told(step, "the peer does not read");
    told(offset, "the offset stays");
    stuff(server, text, len);
    fcntl(server, F_SETFL, 0);
    struct timeval limit = { 0, 30000 };
    setsockopt(server, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    told(sendfile(server, file, &offset, len), "SO_SNDTIMEO ends the wait");
    shutdown(server, SHUT_WR);
    pipes_broken = 0;
    offset = 0;
    told(sendfile(server, file, &offset, 10), "after SHUT_WR");
    told(pipes_broken, "SIGPIPE");
    hang_up(server, client);
    int fresh = socket(AF_INET, SOCK_STREAM, 0);
    pipes_broken = 0;
    told(sendfile(fresh, file, &offset, 10), "to a new socket");
    told(pipes_broken, "SIGPIPE");
    close(fresh);
    close(ends[0]);
    close(ends[1]);
}

static void moves(void)
{
    static char text[400000];
    fill(text, sizeof text, 77);
    int server, client, ends[2], file = new_file(text, sizeof text);
    signal(SIGPIPE, broken);
    pair(2999, &server, &client);
    pipe(ends);
    wrong_arguments(server, ends, file);
    close(ends[0]);
    close(ends[1]);
    hang_up(server, client);
    into_pipes();
    from_pipes();
    send_files(file, text, sizeof text);
    signal(SIGPIPE, SIG_IGN);
    close(file);
}
