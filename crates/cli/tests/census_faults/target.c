// A target that does odd things to its memory, told by lines on its standard input: a word and two
// numbers. Each line is answered by "ready", or by why it could not be done.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

typedef unsigned long ul;
static char *const ARENA = (char *)0x200000000000UL;
static char *const WIDE = (char *)0x300000000000UL;
static const ul PAGE = 4096, HUGE = 2 << 20;
static volatile ul hot_at, hot_len;
static char *self;

static int bad(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

static char *map(char *at, ul len) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0);
    return mmap(at, len, PROT_READ | PROT_WRITE, flags, -1, 0);
}

static void fill(char *at, ul len, ul step) {
    for (ul i = 0; i < len; i += step) *(volatile ul *)(at + i) = i;
}

// Touches the hot pages for ever.
static void *touch(void *arg) {
    for (;; usleep(500)) {
        ul at = hot_at, len = hot_len;
        for (ul i = 0; i < len; i += PAGE) (void)*(volatile char *)(ARENA + at + i);
    }
    return arg;
}

// Maps, touches and unmaps memory about a thousand times per second.
static void *churn(void *arg) {
    for (ul n = 1;; n = n % 8 + 1) {
        ul len = n << 18;
        char *new = map(NULL, len);
        if (new == MAP_FAILED) continue;
        fill(new, len, PAGE * 16);
        usleep(300);
        munmap(new, len);
    }
    return arg;
}

// Forks children that end at once.
static void *forks(void *arg) {
    for (;; usleep(20000)) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        if (pid > 0) waitpid(pid, NULL, 0);
    }
    return arg;
}

// Makes huge pages of a part of the arena, and splits them again.
static void *collapse(void *arg) {
    ul at = ((ul *)arg)[0], len = ((ul *)arg)[1];
    for (;;) {
        for (ul i = at; i < at + len; i += HUGE) {
            madvise(ARENA + i, HUGE, MADV_COLLAPSE);
            usleep(2000);
        }
        for (ul i = at; i < at + len; i += HUGE) {
            mprotect(ARENA + i + 100 * PAGE, PAGE, PROT_READ);
            mprotect(ARENA + i + 100 * PAGE, PAGE, PROT_READ | PROT_WRITE);
            usleep(2000);
        }
    }
    return arg;
}

static int begin(void *(*body)(void *), ul a, ul b) {
    static ul args[2];
    args[0] = a, args[1] = b;
    pthread_t thread;
    return pthread_create(&thread, NULL, body, args) ? bad("thread") : 0;
}

static int act(const char *word, ul a, ul b) {
    if (!strcmp(word, "arena")) {
        if (map(ARENA, a) == MAP_FAILED || madvise(ARENA, a, MADV_NOHUGEPAGE)) return bad("map");
        fill(ARENA, a, PAGE);
        return 0;
    }
    if (!strcmp(word, "hot")) {
        hot_len = 0, hot_at = a, hot_len = b;
        static int begun;
        return begun++ ? 0 : begin(touch, 0, 0);
    }
    // So many mappings: each second page is read-only. One page in 16 is there.
    if (!strcmp(word, "mappings")) {
        if (map(WIDE, a * PAGE) == MAP_FAILED) return bad("map");
        for (ul i = 0; i + 1 < a; i += 2)
            if (mprotect(WIDE + i * PAGE, PAGE, PROT_READ)) return bad("mprotect");
        for (ul i = 1; i < a; i += 16) *(volatile char *)(WIDE + i * PAGE) = 1;
        return 0;
    }
    // So many mappings, with a hole behind each.
    if (!strcmp(word, "holes")) {
        if (map(WIDE, 2 * a * PAGE) == MAP_FAILED) return bad("map");
        for (ul i = 0; i < 2 * a; i += 2)
            if (munmap(WIDE + i * PAGE, PAGE)) return bad("munmap");
        for (ul i = 1; i < 2 * a; i += 32) *(volatile char *)(WIDE + i * PAGE) = 1;
        return 0;
    }
    if (!strcmp(word, "sparse")) {
        if (map(WIDE, a) == MAP_FAILED || madvise(WIDE, a, MADV_NOHUGEPAGE)) return bad("map");
        fill(WIDE, a, b);
        return 0;
    }
    if (!strcmp(word, "churn")) return begin(churn, 0, 0);
    if (!strcmp(word, "forks")) return begin(forks, 0, 0);
    // A child that shares all memory until its parent dies.
    if (!strcmp(word, "child")) {
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            // On a busy machine it may have died before.
            if (getppid() != parent) _exit(0);
            for (;;) pause();
        }
        return pid < 0 ? bad("fork") : 0;
    }
    if (!strcmp(word, "collapse")) {
        if (madvise(ARENA + a, b, MADV_HUGEPAGE)) return bad("madvise");
        if (madvise(ARENA + a, HUGE, MADV_COLLAPSE)) return bad("collapse");
        return begin(collapse, a, b);
    }
    if (!strcmp(word, "lock")) return mlock(ARENA + a, b) ? bad("mlock") : 0;
    if (!strcmp(word, "unlock")) return munlock(ARENA + a, b) ? bad("munlock") : 0;
    if (!strcmp(word, "exec")) { execl(self, self, NULL); return bad("exec"); }
    errno = EINVAL;
    return bad(word);
}

int main(int argc, char **argv) {
    (void)argc;
    self = argv[0];
    char line[256];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char word[16] = "";
        ul a = 0, b = 0;
        sscanf(line, "%15s %lu %lu", word, &a, &b);
        if (!act(word, a, b)) puts("ready");
        fflush(stdout);
    }
    return 0;
}
