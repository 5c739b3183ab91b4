/* Calls at the margins of what they take: flags, lengths of 0, short options, pointers that lead nowhere. */
#include <sys/select.h>
#include <sys/sendfile.h>

static void margin_flags(void)
{
    static const int flags[] = { MSG_CTRUNC, MSG_PROXY, MSG_FIN, MSG_SYN, MSG_RST, MSG_TRUNC, MSG_WAITFORONE };
    int server, client;
    char back[64];
    blocking_pair(3160, &server, &client);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        told(send(server, "abc", 3, flags[i]), "send with %#x", flags[i]);
        told(drain(client, back, 3), "the peer has");
        arrive(client, server, "abc");
        told(recv(server, back, 3, flags[i] | MSG_DONTWAIT), "recv with %#x", flags[i]);
    }
    hang_up(server, client);
}

static void margins(void)
{
    margin_flags();
}
