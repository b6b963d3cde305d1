/* What a page of a mapped log costs, three ways: the figures of 0008.
 *
 *     cc -O2 -o pages docs/decisions/0008-pages.c && ./pages DIRECTORY
 *
 * It makes one file of 64 MiB in DIRECTORY for each way, in windows of 256 KiB as the engine maps
 * them, and prints microseconds a page of 4 KiB: to make the window's pages, to copy into them, and
 * to remove the file. The last way is that of a log that is used again. Repeat it: one run shows
 * little on a machine that others use. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { WINDOW_BYTES = 256 << 10, FILE_BYTES = 64 << 20, PAGES = FILE_BYTES / 4096 };

static char zeros[WINDOW_BYTES];

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void must(int fine, const char *what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

/* One pass over the file; `write_zeros` makes the pages by one write call, else by faults. */
static void pass(const char *name, int file, int reserve, int write_zeros) {
    double make_us = 0, copy_us = 0;
    for (off_t at = 0; at < FILE_BYTES; at += WINDOW_BYTES) {
        double began = now_us();
        if (reserve) must(fallocate(file, 0, at, WINDOW_BYTES) == 0, "fallocate");
        if (write_zeros) must(pwrite(file, zeros, WINDOW_BYTES, at) == WINDOW_BYTES, "pwrite");
        char *window = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, at);
        must(window != MAP_FAILED, "mmap");
        madvise(window, WINDOW_BYTES, MADV_POPULATE_WRITE);
        double made = now_us();
        memset(window, 1, WINDOW_BYTES);
        make_us += made - began;
        copy_us += now_us() - made;
        munmap(window, WINDOW_BYTES);
    }
    printf("%-22s make %.2f  copy %.2f", name, make_us / PAGES, copy_us / PAGES);
}

int main(int count, char **words) {
    must(count == 2 && chdir(words[1]) == 0, "usage: pages DIRECTORY");
    const char *path = "pages.tmp";
    for (int write_zeros = 0; write_zeros < 2; write_zeros++) {
        int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        must(file >= 0, path);
        pass(write_zeros ? "zeros written" : "faulted in", file, 1, write_zeros);
        if (write_zeros) {
            printf("\n");
            must(fdatasync(file) == 0, "fdatasync");
            pass("written before, again", file, 0, 0);
        }
        double began = now_us();
        must(unlink(path) == 0 && close(file) == 0, "unlink");
        printf("  remove %.2f\n", (now_us() - began) / PAGES);
    }
    return 0;
}
