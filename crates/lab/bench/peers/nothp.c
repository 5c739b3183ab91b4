/* nothp PROGRAM ARGUMENT...: runs it without transparent huge pages. */
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 2 || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) {
        perror("nothp PROGRAM ARGUMENT...");
        return 2;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
