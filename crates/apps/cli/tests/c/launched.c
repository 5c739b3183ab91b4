/*
 * What a launched program is answered, one line each: run with the launcher and without, it must say the same. More of
 * what calls answer is in semantics.c. `launched PEER [PART]`.
 */
#include "launched.h"

#include "controls.c"
#include "files.c"
#include "flags.c"
#include "forks.c"
#include "handlers.c"
#include "interrupts.c"
#include "mapped.c"
#include "again.c"
#include "apart.c"
#include "margins.c"
#include "masks.c"
#include "messages.c"
#include "moves.c"
#include "names.c"
#include "nowhere.c"
#include "numbers.c"
#include "rawcalls.c"
#include "rights.c"
#include "takes.c"
#include "turns.c"
#include "watching.c"

int main(int argc, char **argv)
{
    begin(argc > 1 ? argv[1] : "");
    /* A listener is heard of on the link from the first wait for it on. */
    int first = listener(2998);
    struct pollfd row = { .fd = first, .events = POLLIN };
    poll(&row, 1, 10);
    close(first);
    static const struct { const char *name; void (*run)(void); } parts[] = {
        { "again", again },
        { "apart", apart },
        { "moves", moves },
        { "watching", watching },
        { "messages", messages },
        { "margins", margins },
        { "masks", masks },
        { "mapped", mapped_addresses },
        { "numbers", numbers },
        { "raw_calls", raw_calls },
        { "flags", flags },
        { "interrupts", interrupts },
        { "handlers", handlers },
        { "controls", controls },
        { "files", files },
        { "streams", streams },
        { "rights", rights },
        { "names", names },
        { "nowhere", nowhere },
        { "turns", turns },
        { "forks", forks },
        { "takes", takes },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (argc > 2 && strcmp(argv[2], parts[i].name))
            continue;
        printf("# %s\n", parts[i].name);
        parts[i].run();
    }
    printf("# %d checks\n", checks);
    end();
    return 0;
}
