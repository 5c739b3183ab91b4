/* recvmmsg and sendmmsg. */
#define PARTS 4

struct list {
    struct mmsghdr head[PARTS];
    struct iovec part[PARTS];
    char text[PARTS][8];
};

static struct mmsghdr *made(struct list *list, const char *text)
{
    memset(list, 0, sizeof *list);
    for (int i = 0; i < PARTS; i++) {
        if (text)
            memcpy(list->text[i], text + 4 * i, 4);
        list->part[i] = (struct iovec){ list->text[i], 4 };
        list->head[i].msg_hdr.msg_iov = &list->part[i];
        list->head[i].msg_hdr.msg_iovlen = 1;
        list->head[i].msg_len = 99;
    }
    return list->head;
}

static void lengths(struct list *list, const char *what)
{
    for (int i = 0; i < PARTS; i++)
        told(list->head[i].msg_len, "%s: length %d", what, i);
}

/* A pending error comes before data, in a call of several messages. */
static void broken_messages(void)
{
    int server, client;
    char back[32];
    struct list list;
    struct linger abort_it = { 1, 0 };
    blocking_pair(3022, &server, &client);
    arrive(client, server, "01234567");
    raw_setsockopt(client, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
    raw_close(client);
    told(recvmmsg(server, made(&list, NULL), PARTS, MSG_DONTWAIT, NULL), "recvmmsg after a reset");
    lengths(&list, "it");
    told(recvmmsg(server, made(&list, NULL), 2, MSG_DONTWAIT, NULL), "what is there");
    lengths(&list, "it");
    told(recv(server, back, 32, MSG_DONTWAIT), "the end");
    told(sendmmsg(server, made(&list, "abcdefgh"), 2, MSG_NOSIGNAL), "sendmmsg after it");
    close(server);
    blocking_pair(3023, &server, &client);
    arrive(client, server, "012");
    raw_setsockopt(client, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
    raw_close(client);
    told(recv(server, back, 3, 0), "bytes before a reset");
    made(&list, NULL);
    list.head[0].msg_hdr.msg_iovlen = list.head[1].msg_hdr.msg_iovlen = 0;
    told(sendmmsg(server, list.head, 2, MSG_NOSIGNAL), "sendmmsg of nothing after a reset");
    told(sendmmsg(server, list.head, 2, MSG_NOSIGNAL), "and again");
    close(server);
}

static void messages(void)
{
    broken_messages();
    int server, client;
    struct list list;
    char back[32];
    struct timespec none = { 0, 0 }, some = { 0, 50000000 }, odd = { 0, 1000000000 }, negative = { -1, 0 };
    blocking_pair(3020, &server, &client);
    told(sendmmsg(server, made(&list, "abcdefghijklmnop"), PARTS, 0), "sendmmsg");
    lengths(&list, "sendmmsg");
    told(drain(client, back, 16), "the peer has");
    told(memcmp(back, "abcdefghijklmnop", 16), "the same");
    told(sendmmsg(server, made(&list, "abcd"), 0, 0), "of no messages");
    told(sendmmsg(server, NULL, 1, 0), "from NULL");
    told(sendmmsg(-1, made(&list, "abcd"), 1, 0), "to -1");
    told(sendmmsg(server, made(&list, "abcd"), 1, 0x40000000), "with a flag there is not");
    lengths(&list, "it");
    made(&list, "abcdefghijklmnop");
    list.head[2].msg_hdr.msg_iov = NULL;
    told(sendmmsg(server, list.head, PARTS, 0), "with a fault in the third");
    lengths(&list, "it");
    told(drain(client, back, 8), "the peer has");
    made(&list, "abcdefghijklmnop");
    list.head[0].msg_hdr.msg_iovlen = 2000;
    told(sendmmsg(server, list.head, PARTS, 0), "of too many vectors");
    told(recvmmsg(server, made(&list, NULL), PARTS, MSG_DONTWAIT, NULL), "recvmmsg of nothing");
    lengths(&list, "it");
    arrive(client, server, "0123456789");
    told(recvmmsg(server, made(&list, NULL), PARTS, MSG_DONTWAIT, NULL), "recvmmsg of ten bytes");
    lengths(&list, "it");
    told(memcmp(list.text[1], "4567", 4), "the second");
    arrive(client, server, "0123456789");
    told(recvmmsg(server, made(&list, NULL), PARTS, MSG_WAITFORONE, NULL), "MSG_WAITFORONE");
    lengths(&list, "it");
    arrive(client, server, "01234567");
    long begun = ms();
    told(recvmmsg(server, made(&list, NULL), 2, 0, &some), "with a time");
    told(ms() - begun < 40, "does not take it");
    told(some.tv_nsec < 50000000 && some.tv_nsec > 0, "what is left of it");
    some = (struct timespec){ 0, 0 };
    arrive(client, server, "0123");
    told(recvmmsg(server, made(&list, NULL), PARTS, 0, &some), "with a time that is over after the first");
    told(some.tv_sec + some.tv_nsec, "what is left of it");
    told(recvmmsg(server, made(&list, NULL), PARTS, MSG_DONTWAIT, &none), "without a time");
    told(recvmmsg(server, made(&list, NULL), PARTS, 0, &odd), "with too many nanoseconds");
    told(recvmmsg(server, made(&list, NULL), PARTS, 0, &negative), "with a negative time");
    told(recvmmsg(server, made(&list, NULL), 0, 0, NULL), "of no messages");
    told(recvmmsg(server, NULL, 1, MSG_DONTWAIT, NULL), "into NULL, of nothing");
    told(recvmmsg(-1, made(&list, NULL), 1, 0, NULL), "of -1");
    told(recvmmsg(0x7fffffff, made(&list, NULL), 1, 0, NULL), "of no number");
    struct timeval limit = { 0, 30000 };
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    arrive(client, server, "0123");
    told(recvmmsg(server, made(&list, NULL), PARTS, 0, NULL), "SO_RCVTIMEO ends the second");
    lengths(&list, "it");
    told(recvmmsg(server, made(&list, NULL), PARTS, 0, NULL), "SO_RCVTIMEO ends the first");
    arrive(client, server, "01234567");
    told(recvmmsg(server, made(&list, NULL), 2, MSG_PEEK, NULL), "MSG_PEEK");
    told(memcmp(list.text[0], list.text[1], 4), "shows the same twice");
    made(&list, NULL);
    list.head[1].msg_hdr.msg_iov = NULL;
    told(recvmmsg(server, list.head, 2, MSG_DONTWAIT, NULL), "with a fault in the second");
    lengths(&list, "it");
    told(recv(server, back, 4, MSG_DONTWAIT), "the fault is told by the next call");
    recv(server, back, 32, MSG_DONTWAIT);
    raw_send(client, "01234567", 8, 0);
    raw_shutdown(client, SHUT_WR);
    ready(SERVER, server, POLLRDHUP);
    told(recvmmsg(server, made(&list, NULL), PARTS, MSG_DONTWAIT, NULL), "bytes and the end");
    lengths(&list, "it");
    told(recvmmsg(server, made(&list, NULL), PARTS, MSG_DONTWAIT, NULL), "the end again");
    lengths(&list, "it");
    told(shutdown(server, SHUT_WR), "SHUT_WR");
    told(sendmmsg(server, made(&list, "abcd"), 1, MSG_NOSIGNAL), "sendmmsg after it");
    hang_up(server, client);
    pair(3021, &server, &client);
    static char big[1 << 20];
    long sent;
    do {
        made(&list, NULL);
        for (int i = 0; i < PARTS; i++)
            list.part[i] = (struct iovec){ big, sizeof big };
        sent = sendmmsg(server, list.head, PARTS, MSG_NOSIGNAL);
    } while (sent > 0);
    told(sent, "sendmmsg to a peer that does not read");
    hang_up(server, client);
    server = socket(AF_INET, SOCK_STREAM, 0);
    told(recvmmsg(server, made(&list, NULL), 1, 0, NULL), "recvmmsg of a new socket");
    told(sendmmsg(server, made(&list, "abcd"), 1, MSG_NOSIGNAL), "sendmmsg to a new socket");
    close(server);
}
