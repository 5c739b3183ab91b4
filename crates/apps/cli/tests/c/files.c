/* What works on files, and streams of the C library over a connection. */
#include <sys/mman.h>
#include <sys/file.h>
#include <sys/statfs.h>

static void files(void)
{
    int server, client;
    char text[8] = "bytes";
    struct stat status;
    struct statfs system;
    pair(3090, &server, &client);
    told(isatty(server), "isatty");
    told(errno == ENOTTY, "says why");
    told(lseek(server, 0, SEEK_SET), "lseek");
    told(lseek(server, 0, SEEK_CUR), "lseek to where it is");
    told(ftruncate(server, 10), "ftruncate");
    told(mmap(NULL, 4096, PROT_READ, MAP_SHARED, server, 0) == MAP_FAILED ? -1 : 0, "mmap");
    told(fsync(server), "fsync");
    told(fdatasync(server), "fdatasync");
    told(fallocate(server, 0, 0, 10), "fallocate");
    told(posix_fadvise(server, 0, 0, POSIX_FADV_NORMAL), "posix_fadvise");
    told(posix_fallocate(server, 0, 10), "posix_fallocate");
    told(readahead(server, 0, 10), "readahead");
    told(sync_file_range(server, 0, 10, 0), "sync_file_range");
    told(fstat(server, &status), "fstat");
    told(S_ISSOCK(status.st_mode), "is a socket");
    told((long)status.st_size, "of no bytes");
    told(fstatfs(server, &system), "fstatfs");
    told((long)system.f_type, "is of");
    told(fchdir(server), "fchdir");
    told(openat(server, "x", O_RDONLY), "openat");
    told(flock(server, LOCK_EX | LOCK_NB), "flock");
    told(flock(server, LOCK_UN), "and back");
    told(lockf(server, F_TEST, 1), "lockf");
    told(pread(server, text, 1, 5), "pread");
    told(pwrite(server, text, 1, 5), "pwrite");
    hang_up(server, client);
}

static void streams(void)
{
    int server, client, a = 0, b = 0;
    char line[64], back[256];
    blocking_pair(3091, &server, &client);
    told(dprintf(server, "%d %s %.2f %c %ld\n", 7, "seven", 2.5, 'x', 123456789012L), "dprintf");
    told(dprintf(server, "%d %d %d %d %d %d %d %d %.1f %.1f\n", 1, 2, 3, 4, 5, 6, 7, 8, 1.5, 2.5), "dprintf of much");
    told(drain(client, back, 52), "the peer has");
    told(memcmp(back, "7 seven 2.50 x 123456789012\n1 2 3 4 5 6 7 8 1.5 2.5\n", 52), "the same");
    told(fdopen(server, "z") ? 0 : -1, "fdopen in no mode");
    FILE *in = fdopen(server, "r"), *out = fdopen(dup(server), "w");
    told(in && out, "fdopen");
    told(fileno(in) == server, "fileno");
    told(fileno_unlocked(in) == server, "fileno_unlocked");
    told(fprintf(out, "hello %s\n", "peer"), "fprintf");
    told(fflush(out), "fflush");
    told(drain(client, back, 11), "the peer has");
    told(fputs("a line\n", out), "fputs");
    told(fputc('x', out), "fputc");
    told((long)fwrite("yz", 1, 2, out), "fwrite");
    told(setvbuf(out, NULL, _IONBF, 0), "without a buffer");
    told(fputs("now", out) >= 0, "fputs");
    told(drain(client, back, 13), "the peer has");
    arrive(client, server, "first line\nsecond 5 6\nrest");
    told(fgets(line, sizeof line, in) != NULL, "fgets");
    told(strcmp(line, "first line\n"), "is the first line");
    told(fscanf(in, "%63s %d %d", line, &a, &b), "fscanf");
    told(a * 10 + b, "the numbers");
    told(fgetc(in), "fgetc");
    told(ungetc('q', in), "ungetc");
    told((long)fread(line, 1, 5, in), "fread");
    told(memcmp(line, "qrest", 5), "the rest");
    told(fseek(in, 0, SEEK_SET), "fseek");
    told(ftell(in), "ftell");
    raw_shutdown(client, SHUT_WR);
    told(fgetc(in), "the end");
    told(feof(in), "feof");
    told(ferror(in), "ferror");
    told(fclose(in), "fclose");
    told(fcntl(server, F_GETFD), "the number is closed");
    int twin = fileno(out);
    told(shutdown(twin, SHUT_WR), "shutdown of the other");
    told(fputs("lost", out), "fputs after it");
    told(ferror(out), "ferror");
    told(fclose(out), "fclose");
    told(fcntl(twin, F_GETFD), "the number is closed");
    raw_close(client);
    blocking_pair(3092, &server, &client);
    FILE *both = fdopen(server, "r+");
    told(fputs("ask\n", both), "a stream both ways");
    told(fflush(both), "fflush");
    told(drain(client, back, 4), "the peer has");
    arrive(client, server, "answer\n");
    told(fgets(line, sizeof line, both) != NULL, "fgets");
    told(strcmp(line, "answer\n"), "the answer");
    char *text = NULL;
    size_t room = 0;
    arrive(client, server, "a longer line of words\n");
    told(getline(&text, &room, both), "getline");
    free(text);
    told(fclose(both), "fclose");
    raw_close(client);
}
