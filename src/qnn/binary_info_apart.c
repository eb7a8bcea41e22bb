/* binary_info_apart.c: reads a context binary in a child process and takes over what it has found.
 *
 * What comes back through a pipe is one record: the code and the sentence, and where the code is SW_OK the
 * structs in the order of their declaration, each text as its length and bytes, each array as its elements.
 * One function a struct both writes and reads it, so that the two sides can't differ. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/interrupt.h"
#include "qnn/binary_info.h"

enum { SECONDS = 60, MOST_RECORD_BYTES = 256 << 20 };

/* The child's side has `to`, the parent's `from` and an arena. */
typedef struct record {
    FILE *to;
    sw_cursor from;
    sw_arena *arena;
    bool failed; /* the record ends early, or memory does */
} record;

static void move(record *r, void *data, size_t size) {
    if (r->to != NULL) {
        r->failed = r->failed || fwrite(data, 1, size, r->to) != size;
        return;
    }
    const uint8_t *bytes = r->failed ? NULL : sw_cursor_take(&r->from, size);
    if (bytes == NULL)
        r->failed = true;
    else
        memcpy(data, bytes, size);
}

static void move_text(record *r, const char **text) {
    uint32_t length = r->to != NULL ? (uint32_t)strlen(*text) : 0;
    move(r, &length, sizeof length);
    if (r->to != NULL) {
        r->failed = r->failed || fwrite(*text, 1, length, r->to) != length;
        return;
    }
    const uint8_t *bytes = r->failed ? NULL : sw_cursor_take(&r->from, length);
    *text = bytes != NULL ? sw_arena_strndup(r->arena, (const char *)bytes, length) : NULL;
    r->failed = r->failed || *text == NULL;
}

/* Room for an array of the parent's; each element takes its own size from the record. */
static void *begin_array(record *r, void *array, uint32_t count, size_t size) {
    if (r->to != NULL || r->failed) return array;
    array = count <= sw_cursor_left(&r->from) / size ? sw_arena_array(r->arena, count, size) : NULL;
    r->failed = array == NULL;
    return array;
}

static void move_tensors(record *r, sw_binary_tensor **tensors, uint32_t count) {
    *tensors = begin_array(r, *tensors, count, sizeof **tensors);
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        sw_binary_tensor *t = &(*tensors)[i];
        const char *name = t->name;
        move(r, t, sizeof *t);
        move_text(r, &name);
        t->name = name;
    }
}

static void move_graphs(record *r, sw_binary_graph **graphs, uint32_t count) {
    *graphs = begin_array(r, *graphs, count, sizeof **graphs);
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        sw_binary_graph *g = &(*graphs)[i];
        const char *name = g->name;
        move(r, g, sizeof *g);
        move_text(r, &name);
        g->name = name;
        move_tensors(r, &g->inputs, g->n_inputs);
        move_tensors(r, &g->outputs, g->n_outputs);
    }
}

static void move_info(record *r, sw_binary_info *info) {
    const char *build_id = info->build_id;
    move(r, info, sizeof *info);
    move_text(r, &build_id);
    info->build_id = build_id;
    move_graphs(r, &info->graphs, info->n_graphs);
}

/* A damaged count must not take the machine's memory or its time; no core file of what is expected. */
static void limit_child(uint64_t size) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGTERM};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
#if !defined(__SANITIZE_ADDRESS__) /* which reserves terabytes */
    const uint64_t bytes = ((uint64_t)8 << 30) + 4 * size;
    setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
#else
    (void)size;
#endif
    alarm(SECONDS);
}

static void run_child(int to, sw_binary_info_opener *open, void *context, const char *file, const void *data,
                      uint64_t size) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_error err = {0};
    sw_binary_info info = {0};
    const sw_qnn_library *library = NULL;
    record r = {.to = fdopen(to, "wb")};
    if (r.to == NULL) _exit(1);
    limit_child(size);
    sw_code code = open(context, &library, &err);
    signal(SIGABRT, SIG_DFL); /* what the opener may have set: here every death is told by the parent */
    if (code == SW_OK) code = sw_binary_info_read(library, file, data, size, &arena, &info, &err);
    err.code = code;
    move(&r, &err, sizeof err);
    if (code == SW_OK) move_info(&r, &info);
    _exit(fclose(r.to) == 0 && !r.failed ? 0 : 1); /* the library's threads and buffers end with it */
}

static sw_code read_record(int from, sw_arena *arena, const uint8_t **out, size_t *size, sw_error *err) {
    size_t used = 0, capacity = 1 << 16;
    uint8_t *bytes = sw_arena_alloc(arena, capacity);
    for (;;) {
        if (bytes == NULL || used == MOST_RECORD_BYTES) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        ssize_t n = read(from, bytes + used, capacity - used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return SW_FAIL(err, SW_IO, "pipe: can't read: %s", strerror(errno));
        used += (size_t)n;
        if (n == 0) break;
        if (used < capacity) continue;
        uint8_t *larger = sw_arena_alloc(arena, 2 * capacity);
        if (larger != NULL) memcpy(larger, bytes, used);
        bytes = larger, capacity *= 2;
    }
    *out = bytes, *size = used;
    return SW_OK;
}

static sw_code tell_death(const char *file, int status, sw_error *err) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: Qualcomm's reader of context binaries took more than %d s: the file is damaged",
                       file, SECONDS);
    if (WIFSIGNALED(status))
        return SW_FAIL(err, SW_BAD_DATA,
                       "%s: Qualcomm's reader of context binaries crashed on it (%s): the file is damaged",
                       file, strsignal(WTERMSIG(status)));
    return SW_FAIL(err, SW_BAD_DATA,
                   "%s: Qualcomm's reader of context binaries ended its process on it (exit status %d): the "
                   "file is damaged",
                   file, WEXITSTATUS(status));
}

sw_code sw_binary_info_read_apart(sw_binary_info_opener *open, void *context, const char *file,
                                  const void *data, uint64_t size, sw_arena *arena, sw_binary_info *out,
                                  sw_error *err) {
    int ends[2], status = 0;
    if (pipe(ends) != 0) return SW_FAIL(err, SW_IO, "can't make a pipe: %s", strerror(errno));
    fflush(stdout); /* what waits in the buffer must not be written twice */
    pid_t child = fork();
    if (child == 0) {
        sw_interrupt_forget();
        close(ends[0]);
        run_child(ends[1], open, context, file, data, size);
    }
    int why = errno;
    close(ends[1]);
    sw_arena work = SW_ARENA_EMPTY;
    const uint8_t *bytes = NULL;
    size_t n = 0;
    sw_code code = child > 0 ? read_record(ends[0], &work, &bytes, &n, err)
                             : SW_FAIL(err, SW_IO, "can't start a process: %s", strerror(why));
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (code == SW_OK) {
        record r = {.from = {.data = bytes, .size = n}, .arena = arena};
        sw_error its = {0};
        move(&r, &its, sizeof its);
        its.message[sizeof its.message - 1] = '\0';
        if (status != 0 || r.failed)
            code = tell_death(file, status, err);
        else if (its.code != SW_OK)
            code = SW_FAIL(err, its.code, "%s", its.message);
        else
            move_info(&r, out);
        if (code == SW_OK && r.failed) code = SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", file);
    }
    sw_arena_free(&work);
    return code;
}
