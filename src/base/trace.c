/* trace.c: an array of events a thread, grown by its owner alone, so that no span waits for another.
 *
 * The file, by "Trace Event Format" (Google,
 * docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU):
 * {"traceEvents": [...]}; "M" names a process or thread; "X" is a span, with its begin "ts" and length "dur"
 * in microseconds. */
#include "base/trace.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"

typedef struct event {
    const char *name, *category, *detail;
    uint64_t start_ns, end_ns;
} event;

typedef struct events {
    event *list;
    size_t count, capacity;
    uint64_t dropped;
    bool no_memory;
} events;

static atomic_bool on;
static uint64_t zero_ns;
static events threads[SW_TRACE_MAX_THREADS];
static _Thread_local unsigned thread;
/* The spans that thread 0 is in, the innermost last; read by workers between the start and the end of its
 * loop, which order this. */
enum { MAX_DEPTH = 16 };
static sw_trace_span open_spans[MAX_DEPTH];
static unsigned depth;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool sw_trace_is_on(void) {
    return atomic_load_explicit(&on, memory_order_relaxed);
}

void sw_trace_start(void) {
    zero_ns = now_ns();
    depth = 0;
    atomic_store(&on, true);
}

void sw_trace_set_thread(unsigned number) {
    thread = number < SW_TRACE_MAX_THREADS ? number : 0;
}

sw_trace_span sw_trace_begin(const char *name, const char *category, const char *detail) {
    if (!sw_trace_is_on()) return (sw_trace_span){0};
    sw_trace_span span = {name, category, detail, now_ns()};
    if (thread == 0 && depth < MAX_DEPTH) open_spans[depth] = span;
    if (thread == 0) depth++;
    return span;
}

sw_trace_span sw_trace_begin_worker(void) {
    if (!sw_trace_is_on() || depth == 0 || depth > MAX_DEPTH) return (sw_trace_span){0};
    sw_trace_span span = open_spans[depth - 1];
    span.start_ns = now_ns();
    return span;
}

void sw_trace_end(sw_trace_span span) {
    if (span.start_ns == 0) return;
    if (thread == 0 && depth > 0) depth--;
    events *e = &threads[thread];
    if (e->count == e->capacity && e->capacity < SW_TRACE_MAX_EVENTS && !e->no_memory) {
        size_t wanted = e->capacity > 0 ? 2 * e->capacity : 4096;
        if (wanted > SW_TRACE_MAX_EVENTS) wanted = SW_TRACE_MAX_EVENTS;
        event *larger = realloc(e->list, wanted * sizeof *larger);
        e->no_memory = larger == NULL;
        if (larger != NULL) e->list = larger, e->capacity = wanted;
    }
    if (e->count < e->capacity)
        e->list[e->count++] = (event){span.name, span.category, span.detail, span.start_ns, now_ns()};
    else
        e->dropped++;
}

/* ---- The file ---- */

static void put_text(FILE *stream, const char *text) {
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', stream);
        if ((unsigned char)*text < 0x20)
            fprintf(stream, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, stream);
    }
    fputc('"', stream);
}

static void put_event(FILE *stream, unsigned number, const event *e) {
    fprintf(stream, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"cat\":", number,
            (double)(e->start_ns - zero_ns) / 1e3, (double)(e->end_ns - e->start_ns) / 1e3);
    put_text(stream, e->category);
    fputs(",\"name\":", stream);
    put_text(stream, e->name);
    if (e->detail != NULL) {
        fputs(",\"args\":{\"kernel\":", stream);
        put_text(stream, e->detail);
        fputc('}', stream);
    }
    fputc('}', stream);
}

static void put_file(FILE *stream) {
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
          "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"spillway\"}}",
          stream);
    for (unsigned i = 0; i < SW_TRACE_MAX_THREADS; i++) {
        if (threads[i].count == 0) continue;
        fprintf(stream,
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":", i);
        if (i == 0)
            fputs("\"main\"}}", stream);
        else
            fprintf(stream, "\"worker %u\"}}", i);
        for (size_t k = 0; k < threads[i].count; k++) put_event(stream, i, &threads[i].list[k]);
    }
    fputs("\n]}\n", stream);
}

static sw_code write_file(const char *path, sw_error *err) {
    sw_file_writer w;
    SW_TRY(sw_file_writer_open(&w, path, err));
    put_file(w.stream);
    return sw_file_writer_commit(&w, err);
}

sw_code sw_trace_write(const char *path, sw_error *err) {
    bool was_on = atomic_exchange(&on, false), no_memory = false;
    uint64_t dropped = 0;
    for (unsigned i = 0; i < SW_TRACE_MAX_THREADS; i++) {
        dropped += threads[i].dropped;
        no_memory = no_memory || threads[i].no_memory;
    }
    sw_code code = SW_OK;
    if (path != NULL && was_on) {
        if (no_memory) code = SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for all events", path);
        if (code == SW_OK) code = write_file(path, err);
        if (code == SW_OK && dropped > 0)
            sw_log(SW_LOG_WARN, "%s: %llu events are left out, as a thread has room for %d", path,
                   (unsigned long long)dropped, SW_TRACE_MAX_EVENTS);
    }
    for (unsigned i = 0; i < SW_TRACE_MAX_THREADS; i++) {
        free(threads[i].list);
        threads[i] = (events){0};
    }
    return code;
}
