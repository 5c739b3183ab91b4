/* Settings from the command line: name=value becomes the pairs that ms_open() takes. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <millstream.h>

static struct ms_ctx *open_with(int argc, char **argv)
{
    const char **list = calloc(2 * (size_t)argc + 1, sizeof *list);
    int n = 0;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value) {
            fprintf(stderr, "arguments look like link=tap:mst0, not like %s\n", argv[i]);
            exit(2);
        }
        *value++ = 0;
        list[n++] = argv[i];
        list[n++] = value;
    }
    struct ms_ctx *ctx = ms_open(list);
    if (!ctx) {
        fprintf(stderr, "%s\n", ms_error());
        exit(1);
    }
    free(list);
    return ctx;
}

#endif
