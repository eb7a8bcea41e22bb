/* file.c: POSIX files. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"

/* The maps that are open, for the SIGBUS report: a handler may only read plain memory. */
enum { MAX_REPORTED_MAPS = 64 };
static sw_file_map reported[MAX_REPORTED_MAPS];
static pthread_mutex_t reported_lock = PTHREAD_MUTEX_INITIALIZER;

static void report_map(const sw_file_map *map, bool open) {
    pthread_mutex_lock(&reported_lock);
    for (size_t i = 0; i < MAX_REPORTED_MAPS; i++) {
        if (open ? reported[i].data != NULL : reported[i].data != map->data) continue;
        reported[i] = open ? *map : (sw_file_map){0};
        break;
    }
    pthread_mutex_unlock(&reported_lock);
}

static void say(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void on_sigbus(int signal_number, siginfo_t *info, void *context) {
    (void)signal_number, (void)context;
    const uint8_t *address = info->si_addr;
    for (size_t i = 0; i < MAX_REPORTED_MAPS; i++) {
        const sw_file_map *map = &reported[i];
        if (map->data == NULL || address < map->data || address >= map->data + map->size) continue;
        say("error: "), say(map->path), say(": the file became shorter while it was being read\n");
        _exit(1);
    }
    say("error: bus error outside of any mapped file\n");
    _exit(1);
}

void sw_file_report_shrinking(void) {
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

sw_code sw_file_fill_standard_descriptors(sw_error *err) {
    static const int modes[] = {
        [STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};
    for (int fd = 0; fd < 3; fd++) { /* in this order: open() takes the lowest number that is free */
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        if (open("/dev/null", modes[fd]) != fd)
            return SW_FAIL(err, SW_IO, "descriptor %d is closed, and /dev/null can't stand in: %s", fd,
                           strerror(errno));
    }
    return SW_OK;
}

static const char *kind_name(mode_t mode) {
    return S_ISLNK(mode)    ? "a symbolic link"
           : S_ISDIR(mode)  ? "a folder"
           : S_ISFIFO(mode) ? "a fifo"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

/* Opens a regular file for reading; O_NONBLOCK so that a fifo is refused and not waited for. */
static sw_code open_regular(const char *path, int *fd, uint64_t *size, sw_error *err) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return SW_FAIL(err, errno == ENOENT ? SW_NOT_FOUND : SW_IO, "%s: can't open: %s", path,
                       strerror(errno));
    struct stat st;
    if (fstat(*fd, &st) != 0) {
        int e = errno;
        close(*fd);
        return SW_FAIL(err, SW_IO, "%s: can't read its size: %s", path, strerror(e));
    }
    if (!S_ISREG(st.st_mode)) {
        close(*fd);
        return SW_FAIL(err, SW_IO, "%s: is %s, wanted a regular file", path, kind_name(st.st_mode));
    }
    *size = (uint64_t)st.st_size;
    return SW_OK;
}

sw_code sw_file_map_open(sw_file_map *map, const char *path, sw_error *err) {
    *map = (sw_file_map){0};
    int fd;
    uint64_t size = 0;
    SW_TRY(open_regular(path, &fd, &size, err));
    char *copy = strdup(path);
    void *data = NULL;
    sw_code code = SW_OK;
    if (copy == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
    if (code == SW_OK && size > 0) {
        data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            code = SW_FAIL(err, errno == ENOMEM ? SW_NO_MEMORY : SW_IO, "%s: can't map: %s", path,
                           strerror(errno));
    }
    close(fd);
    if (code != SW_OK) {
        free(copy);
        return code;
    }
    *map = (sw_file_map){.data = data, .size = size, .path = copy};
    if (data != NULL) report_map(map, true);
    return SW_OK;
}

void sw_file_map_close(sw_file_map *map) {
    if (map->data != NULL) {
        report_map(map, false);
        munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    }
    free(map->path);
    *map = (sw_file_map){0};
}

void sw_file_map_drop_pages(const sw_file_map *map, uint64_t offset, uint64_t size) {
    if (map->data == NULL || offset > map->size || size > map->size - offset) return;
    sw_file_drop_mapped(map->data + offset, (size_t)size);
}

void sw_file_drop_mapped(const void *data, size_t size) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    const uintptr_t begin = (at + page - 1) / page * page, end = (at + size) / page * page;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

sw_code sw_file_read(const char *path, uint64_t limit, sw_arena *arena, char **out, size_t *size,
                     sw_error *err) {
    *out = NULL;
    *size = 0;
    int fd;
    uint64_t bytes = 0;
    SW_TRY(open_regular(path, &fd, &bytes, err));
    sw_code code = SW_OK;
    char *text = NULL;
    if (bytes > limit)
        code = SW_FAIL(err, SW_BAD_DATA, "%s: has %llu bytes, the limit is %llu", path,
                       (unsigned long long)bytes, (unsigned long long)limit);
    else if ((text = sw_arena_alloc(arena, (size_t)bytes + 1)) == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for %llu bytes", path, (unsigned long long)bytes);
    for (size_t done = 0; code == SW_OK && done < bytes;) {
        ssize_t n = read(fd, text + done, (size_t)bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            code = SW_FAIL(err, SW_IO, "%s: can't read: %s", path, strerror(errno));
        else if (n == 0)
            code = SW_FAIL(err, SW_IO, "%s: the file became shorter while it was being read", path);
        else
            done += (size_t)n;
    }
    close(fd);
    if (code != SW_OK) return code;
    *out = text;
    *size = (size_t)bytes;
    return SW_OK;
}

static sw_code sync_folder_of(const char *path, sw_error *err) {
    char *copy = strdup(path);
    if (copy == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
    char *slash = strrchr(copy, '/');
    if (slash != NULL) slash[slash == copy ? 1 : 0] = '\0';
    int fd = open(slash != NULL ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0) return SW_FAIL(err, SW_IO, "%s: can't open its folder: %s", path, strerror(errno));
    /* Some file systems can't flush a folder and say EINVAL: the rename is as safe there as it gets. */
    sw_code code = SW_OK;
    if (fsync(fd) != 0 && errno != EINVAL)
        code = SW_FAIL(err, SW_IO, "%s: can't flush its folder: %s", path, strerror(errno));
    close(fd);
    return code;
}

/* Creates w->temporary = path.PID-N with the mode that open() gives. O_EXCL and the counter keep two writers
 * apart, also from what a killed process of the same number left. */
static int create_temporary(sw_file_writer *w, size_t capacity) {
    static atomic_uint counter;
    for (;;) {
        snprintf(w->temporary, capacity, "%s.%ld-%u", w->path, (long)getpid(), atomic_fetch_add(&counter, 1));
        int fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
}

sw_code sw_file_writer_open(sw_file_writer *w, const char *path, sw_error *err) {
    *w = (sw_file_writer){0};
    /* The rename would put a file in the place of a fifo, a device or a link: /dev/null and /dev/stdout, for
     * root. What a link leads to may be one of these, or the file of another. */
    struct stat st;
    if (path[0] == '\0') return SW_FAIL(err, SW_INVALID_ARGUMENT, "the name of a file to write is empty");
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return SW_FAIL(err, SW_IO, "%s: is %s, wanted a regular file or none", path, kind_name(st.st_mode));
    size_t capacity = strlen(path) + 40; /* a dot, two numbers, a dash */
    w->path = strdup(path);
    w->temporary = malloc(capacity);
    if (w->path == NULL || w->temporary == NULL) {
        sw_file_writer_discard(w);
        return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
    }
    sw_interrupt_hold();
    int fd = create_temporary(w, capacity);
    if (fd >= 0) w->interrupt = sw_interrupt_add_file(w->temporary);
    sw_interrupt_release();
    if (fd >= 0 && (w->stream = fdopen(fd, "wb")) != NULL) return SW_OK;
    sw_code code = SW_FAIL(err, SW_IO, "%s: can't create: %s", path, strerror(errno));
    if (fd >= 0) close(fd), unlink(w->temporary);
    sw_file_writer_discard(w);
    return code;
}

sw_code sw_file_writer_write(sw_file_writer *w, const void *data, size_t size, sw_error *err) {
    if (size == 0 || fwrite(data, 1, size, w->stream) == size) return SW_OK;
    return SW_FAIL(err, SW_IO, "%s: can't write: %s", w->path, strerror(errno));
}

static bool flush(const sw_file_writer *w) {
    if (!w->later) return fsync(fileno(w->stream)) == 0;
#if defined(SYNC_FILE_RANGE_WRITE)
    sync_file_range(fileno(w->stream), 0, 0, SYNC_FILE_RANGE_WRITE); /* a hint: it begins now */
#endif
    return true;
}

sw_code sw_file_writer_commit(sw_file_writer *w, sw_error *err) {
    sw_code code = SW_OK;
    bool failed = ferror(w->stream) != 0; /* an earlier fprintf, which the caller didn't look at */
    errno = 0;
    if (failed && write(fileno(w->stream), "", 1) == 1) errno = 0; /* else it tells the reason again */
    if (fflush(w->stream) != 0 || !flush(w) || failed)
        code = SW_FAIL(err, SW_IO, "%s: can't write: %s", w->path,
                       errno != 0 ? strerror(errno) : "a part of it was lost");
    if (fclose(w->stream) != 0 && code == SW_OK)
        code = SW_FAIL(err, SW_IO, "%s: can't close: %s", w->path, strerror(errno));
    w->stream = NULL;
    if (code == SW_OK && rename(w->temporary, w->path) != 0)
        code = SW_FAIL(err, SW_IO, "%s: can't rename to it: %s", w->path, strerror(errno));
    if (code != SW_OK)
        unlink(w->temporary);
    else if (!w->later)
        code = sync_folder_of(w->path, err);
    sw_interrupt_drop(w->interrupt);
    free(w->path), free(w->temporary);
    *w = (sw_file_writer){0};
    return code;
}

void sw_file_writer_discard(sw_file_writer *w) {
    if (w->stream != NULL) {
        fclose(w->stream);
        unlink(w->temporary);
    }
    sw_interrupt_drop(w->interrupt);
    free(w->path), free(w->temporary);
    *w = (sw_file_writer){0};
}

static sw_code replace(const char *path, const void *data, size_t size, bool later, sw_error *err) {
    sw_file_writer w;
    SW_TRY(sw_file_writer_open(&w, path, err));
    w.later = later;
    sw_code code = sw_file_writer_write(&w, data, size, err);
    if (code == SW_OK) return sw_file_writer_commit(&w, err);
    sw_file_writer_discard(&w);
    return code;
}

sw_code sw_file_replace(const char *path, const void *data, size_t size, sw_error *err) {
    return replace(path, data, size, false, err);
}

sw_code sw_file_put(const char *path, const void *data, size_t size, sw_error *err) {
    return replace(path, data, size, true, err);
}

sw_code sw_file_flush(const char *path, sw_error *err) {
    sw_code code = SW_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return SW_FAIL(err, SW_IO, "%s: can't open: %s", path, strerror(errno));
    if (fsync(fd) != 0 && errno != EINVAL)
        code = SW_FAIL(err, SW_IO, "%s: can't flush to disk: %s", path, strerror(errno));
    close(fd);
    return code;
}

sw_code sw_folder_make(const char *path, sw_error *err) {
    char *copy = strdup(path);
    if (copy == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", path);
    sw_code code = SW_OK;
    for (char *p = copy + 1; code == SW_OK && copy[0] != '\0'; p++) {
        if (*p != '/' && *p != '\0') continue;
        char end = *p;
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            code = SW_FAIL(err, SW_IO, "%s: can't make the folder: %s", copy, strerror(errno));
        *p = end;
        if (end == '\0') break;
    }
    struct stat st;
    if (code == SW_OK && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
        code = SW_FAIL(err, SW_IO, "%s: is not a folder", path);
    free(copy);
    return code;
}

char *sw_path_join(sw_arena *arena, const char *folder, const char *name) {
    size_t n = strlen(folder);
    return sw_arena_printf(arena, "%s%s%s", folder, n > 0 && folder[n - 1] == '/' ? "" : "/", name);
}
