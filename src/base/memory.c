/* memory.c: Linux's counts: getrusage and /proc (man 5 proc: clear_refs, statm). */
#include "base/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PROCESSES = 64, SAMPLE_MS = 20 };

uint64_t sw_peak_memory_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024u : 0;
}

void sw_peak_memory_restart(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t written = write(fd, "5", 1); /* 5: the peak alone */
    (void)written;                       /* then it stays the peak so far */
    close(fd);
}

uint64_t sw_process_memory_bytes(pid_t process) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)process);
    int fd = open(path, O_RDONLY | O_CLOEXEC); /* no stream: another thread may fork meanwhile */
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    unsigned long long pages = 0;
    text[n > 0 ? n : 0] = '\0';
    if (sscanf(text, "%*u %llu", &pages) != 1) return 0;
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct sw_memory_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    pid_t processes[MOST_PROCESSES];
    unsigned n_processes;
    uint64_t peak;
};

static void sample(sw_memory_watch *w) {
    pid_t processes[MOST_PROCESSES];
    pthread_mutex_lock(&w->lock);
    unsigned n = w->n_processes;
    memcpy(processes, w->processes, n * sizeof *processes);
    pthread_mutex_unlock(&w->lock);
    uint64_t sum = n > 0 ? sw_process_memory_bytes(getpid()) : 0;
    for (unsigned i = 0; i < n; i++) sum += sw_process_memory_bytes(processes[i]);
    pthread_mutex_lock(&w->lock);
    if (sum > w->peak) w->peak = sum;
    pthread_mutex_unlock(&w->lock);
}

static void *run(void *argument) {
    sw_memory_watch *w = argument;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        pthread_mutex_unlock(&w->lock);
        sample(w);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SAMPLE_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
        pthread_mutex_lock(&w->lock);
        if (!w->stop) pthread_cond_timedwait(&w->wake, &w->lock, &until);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

sw_memory_watch *sw_memory_watch_start(void) {
    sw_memory_watch *w = calloc(1, sizeof *w);
    if (w == NULL) return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    if (pthread_create(&w->thread, NULL, run, w) == 0) return w;
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

void sw_memory_watch_add(sw_memory_watch *w, pid_t process) {
    if (w == NULL) return;
    pthread_mutex_lock(&w->lock);
    if (w->n_processes < MOST_PROCESSES) w->processes[w->n_processes++] = process;
    pthread_mutex_unlock(&w->lock);
}

void sw_memory_watch_remove(sw_memory_watch *w, pid_t process) {
    if (w == NULL) return;
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->n_processes; i++)
        if (w->processes[i] == process) w->processes[i] = w->processes[--w->n_processes];
    pthread_mutex_unlock(&w->lock);
}

uint64_t sw_memory_watch_take_peak(sw_memory_watch *w) {
    if (w == NULL) return 0;
    pthread_mutex_lock(&w->lock);
    uint64_t peak = w->peak;
    w->peak = 0;
    pthread_mutex_unlock(&w->lock);
    return peak;
}

void sw_memory_watch_stop(sw_memory_watch *w) {
    if (w == NULL) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void sw_memory_trim(void) {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

double sw_cpu_seconds(void) {
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
