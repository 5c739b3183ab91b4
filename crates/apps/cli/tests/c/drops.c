/* A server that keeps three capabilities and listens then: `drops PORT function|call|keeps|less`, by capset(2) of the C library, by
   syscall(2), or as another user with PR_SET_KEEPCAPS. It serves what it and its process's other threads may do. With `less` it
   keeps one, and runs before all other threads of its CPU. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int capget(cap_user_header_t, cap_user_data_t);
int capset(cap_user_header_t, const cap_user_data_t);

static struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };

static int keep(const char *way, unsigned bits, void *nowhere)
{
    struct __user_cap_data_struct sets[2] = { { bits, bits, 0 }, { 0, 0, 0 } };
    void *data = nowhere ? NULL : sets;
    return strcmp(way, "call") ? capset(&header, data) : (int)syscall(SYS_capset, &header, data);
}

/* All that threads of this process but the calling one are permitted. */
static unsigned long long others(void)
{
    unsigned long long all = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300], line[200];
        unsigned long long bits;
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof line, status))
            if (sscanf(line, "CapPrm: %llx", &bits) == 1)
                all |= bits;
        if (status)
            fclose(status);
    }
    closedir(folder);
    return all;
}

int main(int argc, char **argv)
{
    const char *way = argc > 2 ? argv[2] : "function";
    unsigned wanted = 1 << CAP_NET_BIND_SERVICE | 1 << CAP_SETUID | 1 << CAP_SETGID;
    if (!strcmp(way, "keeps")
        && (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setresuid(65534, 65534, 65534))) {
        perror("setresuid");
        return 1;
    }
    if (!strcmp(way, "less")) {
        struct sched_param first = { .sched_priority = 1 };
        wanted = 1 << CAP_NET_BIND_SERVICE;
        if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first)) {
            perror("sched_setscheduler");
            return 1;
        }
    }
    int nowhere = keep(way, 0, argv) ? errno : 0;
    int done = keep(way, wanted, NULL) ? errno : 0;
    int more = keep(way, wanted | 1 << CAP_NET_RAW, NULL) ? errno : 0;
    /* The C library ends the process if its threads differ in whether they may. */
    int groups = setgroups(0, NULL) ? errno : 0;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0) };
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 5)) {
        perror("listen");
        return 1;
    }
    int connection = accept(listener, NULL, NULL);
    if (connection < 0) {
        perror("accept");
        return 1;
    }
    struct __user_cap_data_struct sets[2];
    char line[200];
    capget(&header, sets);
    read(connection, line, sizeof line);
    int len = snprintf(line, sizeof line, "%d %d %d %d, %x %x, others %llx", nowhere, done, more, groups,
                       sets[0].permitted, sets[0].effective, others());
    write(connection, line, len);
    close(connection);
    return 0;
}
