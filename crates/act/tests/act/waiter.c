/* A process that waits or works in one way for ever, and counts in a shared file what went wrong.
 *
 *   waiter MODE FILE      be a target
 *   waiter bomb PID N     send N numbered real-time signals to PID
 *   waiter trace PID      trace PID until killed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared {
	volatile uint64_t rounds, errors, signals, last_errno, ready;
};
static struct shared *shared;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void wrong(int code)
{
	__atomic_add_fetch(&shared->errors, 1, __ATOMIC_RELAXED);
	shared->last_errno = code;
}

static void count(void)
{
	__atomic_add_fetch(&shared->rounds, 1, __ATOMIC_RELAXED);
}

/* A wait of 200 ms that ended with `result`, when `expected` was due. */
static void timed(uint64_t begin, long result, long expected)
{
	if (result != expected)
		wrong(errno);
	if (now_ns() - begin < 200000000ull)
		wrong(1000);
	count();
}

static void wait_nanosleep(void)
{
	struct timespec t = {0, 200000000};
	uint64_t begin = now_ns();
	timed(begin, nanosleep(&t, NULL), 0);
}

static void wait_poll(void)
{
	struct pollfd fd = {0, POLLIN, 0};
	uint64_t begin = now_ns();
	timed(begin, poll(&fd, 1, 200), 0);
}

static uint32_t word = 7;
static void wait_futex(void)
{
	struct timespec t = {0, 200000000};
	uint64_t begin = now_ns();
	long r = syscall(SYS_futex, &word, FUTEX_WAIT, 7, &t, NULL, 0);
	if (r != -1 || errno != ETIMEDOUT)
		wrong(errno);
	timed(begin, 0, 0);
}

static void wait_futex_forever(void)
{
	long r = syscall(SYS_futex, &word, FUTEX_WAIT, 7, NULL, NULL, 0);
	wrong(r == 0 ? 2000 : errno);
}

static void wait_read(void)
{
	char c;
	if (read(0, &c, 1) != 1)
		wrong(errno);
	count();
}

static void wait_epoll(void)
{
	static int fd = -1;
	struct epoll_event e = {EPOLLIN, {0}};
	char c;
	if (fd < 0) {
		fd = epoll_create1(0);
		epoll_ctl(fd, EPOLL_CTL_ADD, 0, &e);
	}
	if (epoll_wait(fd, &e, 1, -1) != 1)
		wrong(errno);
	else if (read(0, &c, 1) != 1)
		wrong(errno);
	count();
}

static void wait_sigwait(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (sigwaitinfo(&set, NULL) != SIGRTMIN + 2)
		wrong(errno);
	count();
}

static void wait_ppoll(void)
{
	/* With a mask of its own for the time of the wait. */
	sigset_t set;
	struct timespec t = {0, 200000000};
	uint64_t begin = now_ns();
	sigfillset(&set);
	timed(begin, ppoll(NULL, 0, &t, &set), 0);
}

/* Keeps values in general, vector and flag registers over a long time. */
static void spin(void)
{
	double a = 1.5, b = 2.25, sum = 0;
	uint64_t x = 88172645463325252ull, y = 0;
	for (int i = 0; i < 20000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		y += x;
		sum += a * b - 0.5 * (i & 3);
	}
	static uint64_t first_y;
	static double first_sum;
	if (!first_y) {
		first_y = y;
		first_sum = sum;
	}
	if (y != first_y || sum != first_sum)
		wrong(3000);
	count();
}

static uint64_t next_value = 1;
static void on_signal(int nr, siginfo_t *info, void *context)
{
	(void)nr;
	(void)context;
	if ((uint64_t)info->si_value.sival_int != next_value++)
		wrong(4000);
	shared->signals++;
}

static void handle_signals(int flags)
{
	struct sigaction action = {0};
	action.sa_sigaction = on_signal;
	action.sa_flags = SA_SIGINFO | flags;
	sigaction(SIGRTMIN + 1, &action, NULL);
}

static void no_madvise(uint32_t answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		wrong(errno);
}

static void *forever(void *f)
{
	for (;;)
		((void (*)(void))f)();
	return NULL;
}

static void start(void (*f)(void))
{
	pthread_t thread;
	pthread_create(&thread, NULL, forever, (void *)f);
}

static void bomb(int pid, int n)
{
	for (int i = 1; i <= n; i++) {
		union sigval value = {.sival_int = i};
		while (sigqueue(pid, SIGRTMIN + 1, value)) {
			if (errno != EAGAIN)
				exit(1);
			usleep(100);
		}
		if (i % 16 == 0)
			usleep(400);
	}
	exit(0);
}

static const struct {
	const char *name;
	void (*f)(void);
} modes[] = {
	{"nanosleep", wait_nanosleep}, {"poll", wait_poll}, {"futex", wait_futex},
	{"futex-forever", wait_futex_forever}, {"read", wait_read}, {"epoll", wait_epoll},
	{"sigwait", wait_sigwait}, {"ppoll", wait_ppoll}, {"spin", spin},
};

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	if (!strcmp(mode, "bomb"))
		bomb(atoi(argv[2]), atoi(argv[3]));
	if (!strcmp(mode, "trace")) {
		if (ptrace(PTRACE_SEIZE, atoi(argv[2]), 0, 0))
			return 1;
		puts("tracing");
		fflush(stdout);
		pause();
	}
	int fd = open(argv[2], O_RDWR);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *at = (void *)0x200000000000ull;
	char *memory = mmap(at, 8 << 20, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(memory, 1, 8 << 20);
	if (!strncmp(mode, "signals-", 8)) {
		handle_signals(SA_RESTART);
		mode += 8;
	} else if (!strncmp(mode, "errno-", 6)) {
		no_madvise(SECCOMP_RET_ERRNO | EPERM);
		mode += 6;
	} else if (!strncmp(mode, "trap-", 5)) {
		no_madvise(SECCOMP_RET_TRAP);
		mode += 5;
	} else if (!strncmp(mode, "threads-", 8)) {
		start(wait_nanosleep);
		start(spin);
		start(wait_futex);
		mode += 8;
	} else if (!strcmp(mode, "exit")) {
		shared->ready = 1;
		for (;;) {
			if (fork() == 0)
				_exit(0);
			while (wait(NULL) > 0)
				;
			count();
		}
	} else if (!strcmp(mode, "vfork")) {
		shared->ready = 1;
		if (vfork() == 0) {
			sleep(60);
			_exit(0);
		}
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (!strcmp(mode, modes[i].name)) {
			shared->ready = 1;
			forever((void *)modes[i].f);
		}
	}
	return 2;
}
