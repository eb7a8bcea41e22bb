/* log.c: whole lines to stderr, a progress bar on terminals, the clock. */
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/find_name.h"

static _Atomic sw_log_level current_level = SW_LOG_INFO;
static bool bar_on_screen;
static bool bars_forbidden;
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const level_names[] = {"error", "warn", "info", "verbose", "debug"};

void sw_log_set_level(sw_log_level level) {
    current_level = level;
}
sw_log_level sw_log_get_level(void) {
    return current_level;
}

const char *sw_log_level_name(sw_log_level level) {
    return level_names[level];
}

bool sw_log_level_from_name(const char *name, sw_log_level *out) {
    unsigned i;
    if (!sw_find_name(level_names, sizeof level_names / sizeof *level_names, name, &i)) return false;
    *out = (sw_log_level)i;
    return true;
}

static void wipe_bar(void) {
    if (bar_on_screen) fputs("\r\033[K", stderr);
    bar_on_screen = false;
}

static void put_line(const char *before, const char *format, va_list args) {
    wipe_bar();
    fputs(before, stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void sw_log(sw_log_level level, const char *format, ...) {
    if (level > current_level) return;
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&output_lock);
    put_line(level == SW_LOG_ERROR ? "error: " : level == SW_LOG_WARN ? "warning: " : "", format, args);
    pthread_mutex_unlock(&output_lock);
    va_end(args);
}

/* Lines, each with its newline; the last of them may be left out, the first ones are nearest to the cause. */
static char own_below[8192];
static char *below = own_below;
static size_t below_bytes = sizeof own_below;

void sw_log_keep_below_in(char *buffer, size_t size) {
    below = buffer, below_bytes = size;
}

void sw_log_below(const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&output_lock);
    if (current_level >= SW_LOG_VERBOSE) {
        put_line("", format, args);
    } else {
        const size_t used = strlen(below), room = below_bytes - used;
        int n = vsnprintf(below + used, room, format, args);
        bool fits = n >= 0 && (size_t)n + 2 <= room;
        if (fits) memcpy(below + used + n, "\n", 2);
        if (!fits || strstr(below, below + used) != below + used)
            below[used] = '\0'; /* it is there already */
    }
    pthread_mutex_unlock(&output_lock);
    va_end(args);
}

void sw_log_write_below(void) {
    ssize_t ignored = write(STDERR_FILENO, below, strlen(below));
    (void)ignored;
}

void sw_log_end(const char *sentence) {
    if (sentence != NULL) {
        sw_log(SW_LOG_ERROR, "%s", sentence);
        fflush(stderr);
        sw_log_write_below();
    } else {
        for (char *line = below, *next; *line != '\0'; line = next) {
            next = line + strcspn(line, "\n");
            if (*next != '\0') *next++ = '\0';
            sw_log(SW_LOG_WARN, "%s", line);
        }
    }
    below[0] = '\0';
}

uint64_t sw_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

void sw_progress_start(sw_progress *p, const char *label, uint64_t total) {
    *p = (sw_progress){.label = label, .total = total, .start_us = sw_now_us()};
    p->active = !bars_forbidden && current_level >= SW_LOG_INFO && isatty(STDERR_FILENO) == 1;
    sw_progress_update(p, 0);
}

void sw_progress_update(sw_progress *p, uint64_t done) {
    enum { WIDTH = 30, EVERY_US = 100000 };
    uint64_t now = sw_now_us();
    if (!p->active || (done != 0 && done < p->total && now - p->drawn_us < EVERY_US)) return;
    p->drawn_us = now;
    double seconds = (double)(now - p->start_us) / 1e6;
    pthread_mutex_lock(&output_lock);
    if (p->total == 0) {
        fprintf(stderr, "\r\033[K%s %.1f s", p->label, seconds);
    } else {
        int filled = done < p->total ? (int)(done * WIDTH / p->total) : WIDTH;
        char bar[WIDTH + 1];
        memset(bar, ' ', WIDTH);
        memset(bar, '=', (size_t)filled);
        bar[WIDTH] = '\0';
        fprintf(stderr, "\r\033[K%s %llu/%llu [%s] %.1f s", p->label, (unsigned long long)done,
                (unsigned long long)p->total, bar, seconds);
    }
    fflush(stderr);
    bar_on_screen = true;
    pthread_mutex_unlock(&output_lock);
}

void sw_progress_forbid(void) {
    bars_forbidden = true;
}

void sw_progress_end(sw_progress *p) {
    if (!p->active) return;
    pthread_mutex_lock(&output_lock);
    wipe_bar();
    fflush(stderr);
    pthread_mutex_unlock(&output_lock);
    p->active = false;
}
