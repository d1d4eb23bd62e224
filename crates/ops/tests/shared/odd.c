// A target with memory of every kind, told by lines on its standard input what to do.
// Numbers are hexadecimal; each line is answered by "@ready" and perhaps something before that.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static char *self;

static int bad(const char *what) {
    printf("%s: %s ", what, strerror(errno));
    return 1;
}

static int map(unsigned long at, unsigned long len, int flags, const char *path) {
    int fd = -1;
    if (*path && (fd = open(path, O_RDWR)) < 0) return bad("open");
    flags |= MAP_FIXED_NOREPLACE | (*path ? 0 : MAP_ANONYMOUS);
    if (mmap((void *)at, len, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED) return bad("mmap");
    return 0;
}

// Pages begin with their address; so each page's content is known.
static void fill(unsigned long at, unsigned long len) {
    for (unsigned long a = at; a < at + len; a += 4096) *(volatile unsigned long *)a = a;
}

static unsigned long wrong(unsigned long at, unsigned long len) {
    unsigned long nr = 0;
    for (unsigned long a = at; a < at + len; a += 4096) nr += *(volatile unsigned long *)a != a;
    return nr;
}

// Work that a thread does for ever on memory, counted in a file if there is one.
struct job { unsigned long at, len; int random; FILE *counter; };

static void *work(void *arg) {
    struct job *job = arg;
    unsigned long state = 1, page = 0, pages = job->len / 4096, nr = 0;
    volatile char sum = 0;
    for (;; nr++) {
        if (job->random) {
            for (int i = 0; i < 1000; i++) {
                state = state * 6364136223846793005ul + 1442695040888963407ul;
                sum += *(char *)(job->at + (state >> 20) % job->len);
            }
        } else {
            // One line of a page, far from the last one, and then 20 us of work.
            page = (page + 7919) % pages;
            sum += *(char *)(job->at + page * 4096 + nr % 64 * 64);
            for (volatile int i = 0; i < 10000; i++);
        }
        if (job->counter && nr % 64 == 0) {
            rewind(job->counter);
            fprintf(job->counter, "%lu\n", nr);
            fflush(job->counter);
        }
    }
    return NULL;
}

static int begin(unsigned long at, unsigned long len, int random, const char *path) {
    struct job *job = malloc(sizeof *job);
    *job = (struct job){ at, len, random, *path ? fopen(path, "w") : NULL };
    if (*path && !job->counter) return bad("fopen");
    pthread_t thread;
    errno = pthread_create(&thread, NULL, work, job);
    return errno ? bad("pthread_create") : 0;
}

static int act(const char *word, unsigned long at, unsigned long len, const char *rest) {
    if (!strcmp(word, "anon")) return map(at, len, MAP_PRIVATE, "");
    if (!strcmp(word, "shared")) return map(at, len, MAP_SHARED, rest);
    if (!strcmp(word, "private")) return map(at, len, MAP_PRIVATE, rest);
    if (!strcmp(word, "hugetlb")) return map(at, len, MAP_PRIVATE | MAP_HUGETLB, "");
    if (!strcmp(word, "fill")) { fill(at, len); return 0; }
    if (!strcmp(word, "wrong")) { printf("%lu ", wrong(at, len)); return 0; }
    if (!strcmp(word, "touch")) {
        for (unsigned long a = at; a < at + len; a += 4096) (void)*(volatile char *)a;
        return 0;
    }
    if (!strcmp(word, "gather")) return begin(at, len, 1, rest);
    if (!strcmp(word, "trudge")) return begin(at, len, 0, rest);
    if (!strcmp(word, "unmap")) return munmap((void *)at, len) ? bad("munmap") : 0;
    if (!strcmp(word, "lock")) return mlock((void *)at, len) ? bad("mlock") : 0;
    if (!strcmp(word, "huge")) return madvise((void *)at, len, MADV_HUGEPAGE) ? bad("madvise") : 0;
    if (!strcmp(word, "nohuge")) return madvise((void *)at, len, MADV_NOHUGEPAGE) ? bad("madvise") : 0;
    if (!strcmp(word, "random")) return madvise((void *)at, len, MADV_RANDOM) ? bad("madvise") : 0;
    if (!strcmp(word, "normal")) return madvise((void *)at, len, MADV_NORMAL) ? bad("madvise") : 0;
    // A child that shares all memory, until its parent dies.
    if (!strcmp(word, "fork")) {
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            // On a busy machine it may have died before.
            if (getppid() != parent) _exit(0);
            for (;;) pause();
        }
        return pid < 0 ? bad("fork") : 0;
    }
    if (!strcmp(word, "exec")) { execl(self, self, NULL); return bad("exec"); }
    // Reads a file often enough for its pages to become active.
    if (!strcmp(word, "read")) {
        char buf[65536];
        for (int i = 0; i < 4; i++) {
            int fd = open(rest, O_RDONLY);
            if (fd < 0) return bad("open");
            while (read(fd, buf, sizeof buf) > 0);
            close(fd);
        }
        return 0;
    }
    errno = EINVAL;
    return bad(word);
}

int main(int argc, char **argv) {
    (void)argc;
    self = argv[0];
    char line[4352];
    printf("@ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char word[16] = "", rest[4096] = "";
        unsigned long at = 0, len = 0;
        sscanf(line, "%15s %lx %lx %4095s", word, &at, &len, rest);
        act(word, at, len, rest);
        printf("@ready\n");
        fflush(stdout);
    }
    return 0;
}
