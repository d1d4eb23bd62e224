/*
 * The reference's algorithm with the reference's data structures, for a comparison of cost: regions of 64
 * bytes in a doubly linked list, which come from a cache of free ones. Written from the description in our
 * own words (DAMON-REFERENCE sections 1.5, 1.6, 2.2 to 2.4); no line of it is the kernel's.
 *
 * reference static|churning NR_REGIONS 20, then one line on stdin per round: runs ROUND windows and prints the
 * cost in ns of each of its ticks, in one line.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TICKS = 20, ROUND = 25 };
#define AREA (1ULL << 20)
#define START 0x7f0000000000ULL
#define MIN_REGION 4096ULL

struct region {
	uint64_t start, end, sampling_addr;
	uint32_t nr_accesses, nr_accesses_bp, age, last_nr_accesses;
	struct region *prev, *next;
	uint64_t probe_hits;
};
_Static_assert(sizeof(struct region) == 64, "as large as the kernel's");

struct info {
	uint64_t start, end;
	uint32_t nr_accesses, age;
};

static struct region head = { .prev = &head, .next = &head };
static struct region *unused;
static uint64_t nr_regions, max_nr_regions, last_nr_regions, sz_limit, nr_cleared;
static struct info *snapshot;
static int churning;
/* Samples per window; a variable, as in the reference. */
static uint32_t window;
static uint32_t rng[4];

static uint32_t random_u32(void)
{
	rng[0] = ((rng[0] & 0xFFFFFFFEu) << 18) ^ (((rng[0] << 6) ^ rng[0]) >> 13);
	rng[1] = ((rng[1] & 0xFFFFFFF8u) << 2) ^ (((rng[1] << 2) ^ rng[1]) >> 27);
	rng[2] = ((rng[2] & 0xFFFFFFF0u) << 7) ^ (((rng[2] << 13) ^ rng[2]) >> 21);
	rng[3] = ((rng[3] & 0xFFFFFF80u) << 13) ^ (((rng[3] << 3) ^ rng[3]) >> 12);
	return rng[0] ^ rng[1] ^ rng[2] ^ rng[3];
}

static uint64_t random_in(uint64_t l, uint64_t r)
{
	uint64_t span = r - l, x;

	if (span <= UINT32_MAX)
		return l + ((random_u32() * span) >> 32);
	x = (uint64_t)random_u32() << 32;
	x |= random_u32();
	return l + (uint64_t)(((unsigned __int128)x * span) >> 64);
}

/* Whether a page is touched in every sample interval: the same worlds as on the other side. */
static int is_hot(uint64_t addr)
{
	uint64_t area = (addr - START) / AREA;

	return churning ? area % 2 == 0 : area / 2 % 10 == 0;
}

static uint64_t size_of(const struct region *r)
{
	return r->end - r->start;
}

static struct region *insert_behind(struct region *at, uint64_t start, uint64_t end)
{
	struct region *r = unused;

	if (r)
		unused = r->next;
	else
		r = malloc(sizeof(*r));
	if (!r)
		exit(1);
	memset(r, 0, sizeof(*r));
	r->start = start;
	r->end = end;
	r->prev = at;
	r->next = at->next;
	at->next->prev = r;
	at->next = r;
	nr_regions++;
	return r;
}

static void remove_region(struct region *r)
{
	r->prev->next = r->next;
	r->next->prev = r->prev;
	r->next = unused;
	unused = r;
	nr_regions--;
}

static void split_at(struct region *r, uint64_t sz)
{
	struct region *right = insert_behind(r, r->start + sz, r->end);

	r->end = right->start;
	right->age = r->age;
	right->last_nr_accesses = r->last_nr_accesses;
	right->nr_accesses_bp = r->nr_accesses_bp;
	right->nr_accesses = r->nr_accesses;
	right->probe_hits = r->probe_hits;
}

static void enforce_min_regions(uint64_t min_nr_regions)
{
	uint64_t total = 0;

	for (struct region *r = head.next; r != &head; r = r->next)
		total += size_of(r);
	sz_limit = total / min_nr_regions;
	if (sz_limit < MIN_REGION)
		sz_limit = MIN_REGION;
	sz_limit = (sz_limit + MIN_REGION - 1) & ~(MIN_REGION - 1);
	for (struct region *r = head.next; r != &head; r = r->next)
		while (size_of(r) > sz_limit) {
			split_at(r, sz_limit);
			r = r->next;
		}
}

static void merge_pass(uint32_t threshold, int count_age)
{
	struct region *prev = NULL, *next;

	for (struct region *r = head.next; r != &head; r = next) {
		uint32_t moved = r->nr_accesses > r->last_nr_accesses ?
			r->nr_accesses - r->last_nr_accesses : r->last_nr_accesses - r->nr_accesses;
		uint32_t apart = !prev ? 0 : prev->nr_accesses > r->nr_accesses ?
			prev->nr_accesses - r->nr_accesses : r->nr_accesses - prev->nr_accesses;

		next = r->next;
		if (count_age) {
			if (moved > threshold || !r->nr_accesses != !r->last_nr_accesses)
				r->age = 0;
			else
				r->age++;
		}
		if (prev && prev->end == r->start && apart <= threshold &&
		    size_of(prev) + size_of(r) <= sz_limit) {
			uint64_t a = size_of(prev), b = size_of(r);

			prev->nr_accesses = (prev->nr_accesses * a + r->nr_accesses * b) / (a + b);
			prev->nr_accesses_bp = prev->nr_accesses * 10000;
			prev->age = (prev->age * a + r->age * b) / (a + b);
			prev->end = r->end;
			remove_region(r);
		} else {
			prev = r;
		}
	}
}

static void merge_all(uint32_t threshold)
{
	int count_age = 1;

	for (;;) {
		merge_pass(threshold, count_age);
		count_age = 0;
		if (nr_regions <= max_nr_regions || window <= threshold)
			return;
		threshold = threshold >= window / 2 ? window : threshold ? 2 * threshold : 1;
	}
}

static void split_all(void)
{
	uint64_t n = nr_regions;
	int pieces = 2;
	struct region *next;

	if (n > max_nr_regions / 2)
		return;
	if (last_nr_regions == n && n < max_nr_regions / 3)
		pieces = 3;
	for (struct region *r = head.next; r != &head; r = next) {
		uint64_t size = size_of(r);

		next = r->next;
		for (int i = 1; i < pieces && size > 2 * MIN_REGION; i++) {
			uint64_t at = (random_in(1, 10) * size / 10) & ~(MIN_REGION - 1);

			if (at == 0 || at >= size)
				continue;
			split_at(r, at);
			size = at;
		}
	}
	last_nr_regions = n;
}

static void tick(int ends_window)
{
	uint32_t max_nr = 0, n = 0;

	for (struct region *r = head.next; r != &head; r = r->next) {
		r->sampling_addr = random_in(r->start, r->end);
		nr_cleared += is_hot(r->sampling_addr);
	}
	for (struct region *r = head.next; r != &head; r = r->next) {
		int accessed = is_hot(r->sampling_addr);

		r->nr_accesses_bp -= r->last_nr_accesses * 10000 / window;
		r->nr_accesses_bp += accessed ? 10000 : 0;
		r->nr_accesses += accessed;
		if (max_nr < r->nr_accesses)
			max_nr = r->nr_accesses;
	}
	if (!ends_window)
		return;
	merge_all(max_nr / 10);
	enforce_min_regions(10);
	/* What a caller takes from a window. */
	for (struct region *r = head.next; r != &head; r = r->next)
		snapshot[n++] = (struct info){ r->start, r->end, r->nr_accesses, r->age };
	for (struct region *r = head.next; r != &head; r = r->next) {
		r->nr_accesses_bp = r->nr_accesses * 10000;
		r->last_nr_accesses = r->nr_accesses;
		r->nr_accesses = 0;
		r->probe_hits = 0;
	}
	split_all();
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	static const uint32_t least[4] = { 2, 8, 16, 128 };
	static uint64_t ns[ROUND * TICKS];
	uint64_t areas;

	if (argc != 4)
		return 2;
	churning = !strcmp(argv[1], "churning");
	max_nr_regions = strtoull(argv[2], NULL, 10);
	window = strtoul(argv[3], NULL, 10);
	areas = churning ? max_nr_regions / 2 : max_nr_regions;
	snapshot = calloc(2 * max_nr_regions, sizeof(*snapshot));
	if (!snapshot)
		return 1;
	for (int i = 0; i < 4; i++) {
		uint32_t seed = (1u << 10) ^ 1u;
		rng[i] = seed < least[i] ? seed + least[i] : seed;
	}
	for (uint64_t i = 0; i < areas; i++) {
		uint64_t start = START + i * (churning ? 1 : 2) * AREA;
		insert_behind(head.prev, start, start + AREA);
	}
	enforce_min_regions(10);
	while (getchar() != EOF) {
		for (int i = 0; i < ROUND * TICKS; i++) {
			uint64_t before = now_ns();

			tick(i % TICKS == TICKS - 1);
			ns[i] = now_ns() - before;
		}
		for (int i = 0; i < ROUND * TICKS; i++)
			printf("%llu ", (unsigned long long)ns[i]);
		printf("%llu\n", (unsigned long long)(snapshot[0].end + nr_cleared + nr_regions) % 2);
		fflush(stdout);
	}
	return 0;
}
