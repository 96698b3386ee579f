/* The clock of a process, a number of seconds off: read from a file that its parent changes.

   Only what tells the time of day is replaced. Waits, which CPython and asyncio measure by the monotonic clock, are
   left alone, so that nothing costs more than an addition. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;
static int (*machine_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("CLOCK_FILE");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        ahead = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!machine_clock)
        machine_clock = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = machine_clock(clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec found;
    int failed = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}
