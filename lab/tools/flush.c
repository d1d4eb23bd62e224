/* Drops the TLB of every CPU every MICROSECONDS (2000), for as long as it runs.
 *
 * An emulated CPU has a very large TLB, and who clears accessed bits does not flush it (a real CPU's is small, and so
 * forgets by itself): pages in use would look idle for long. One process per CPU that wakes up means a new page table
 * there, and without PCID (qemu64) that drops all entries. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	useconds_t pause_us = argc > 1 ? (useconds_t)atol(argv[1]) : 2000;
	long cpu, cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (cpu = 0; cpu < cpus; cpu++) {
		if (fork())
			continue;
		cpu_set_t one;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sched_setaffinity(0, sizeof(one), &one);
		for (;;)
			usleep(pause_us);
	}
	for (;;)
		pause();
}
