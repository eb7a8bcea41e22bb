/* interrupt.c: a list of fixed size that the handler walks with system calls alone: it may have interrupted
 * malloc or readdir. */
#include "base/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum kind { FREE, TAKEN, A_PROCESS, A_FILE, A_FOLDER, AN_EMPTY_FOLDER, N_KINDS } kind;

enum { MOST_ENTRIES = 64 };

static struct entry {
    _Atomic int kind; /* set last, so that the rest is there */
    const char *path;
    pid_t pid;
} entries[MOST_ENTRIES];

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
enum { N_CAUGHT = sizeof caught / sizeof *caught };

static atomic_int holds;
static atomic_int ending;  /* threads that walk the list or are about to: nothing more may come to be */
static atomic_int waiting; /* the signal that came meanwhile; 0: none */

/* What getdents64 gives, by its manual page. */
typedef struct dirent64 {
    uint64_t ino, off;
    unsigned short size;
    unsigned char type;
    char name[];
} dirent64;

static void remove_files(const char *path) {
    _Alignas(dirent64) char buffer[4096];
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return;
    long n;
    while ((n = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n;) {
            const dirent64 *e = (const dirent64 *)(const void *)(buffer + at);
            unlinkat(folder, e->name, 0); /* files only */
            at += e->size;
        }
    close(folder);
}

/* Again where a thread or a child, which don't stand still meanwhile, made another file: each makes few. */
static void remove_folder(const char *path) {
    int tries = 0;
    do remove_files(path);
    while (rmdir(path) != 0 && (errno == ENOTEMPTY || errno == EEXIST) && ++tries < 100);
}

static void undo(const struct entry *e) {
    switch ((kind)e->kind) {
    case A_PROCESS:
        kill(e->pid, SIGTERM);
        break;
    case A_FILE:
        unlink(e->path);
        break;
    case A_FOLDER:
        remove_folder(e->path);
        break;
    case AN_EMPTY_FOLDER:
        rmdir(e->path);
        break;
    default:
        break;
    }
}

static void end(int number) {
    for (int k = A_PROCESS; k < N_KINDS; k++)
        for (int i = 0; i < MOST_ENTRIES; i++)
            if (entries[i].kind == k) undo(&entries[i]);
    sigset_t set;
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
}

/* The signal that came while something was held. */
static void end_waiting(void) {
    if (atomic_load(&waiting) == 0) return;
    atomic_fetch_add(&ending, 1);
    if (atomic_load(&holds) != 0) { /* that thread may not have seen it: its release comes here again */
        atomic_fetch_sub(&ending, 1);
        return;
    }
    int number = atomic_exchange(&waiting, 0);
    if (number != 0) end(number);
}

static void on_signal(int number) {
    int before = errno;
    atomic_store(&waiting, number);
    if (atomic_load(&holds) == 0) end_waiting(); /* in this order: another thread may be releasing */
    errno = before;
}

void sw_interrupt_catch(void) {
    struct sigaction old, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_CAUGHT; i++)
        if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(caught[i], &action, NULL);
}

void sw_interrupt_forget(void) {
    struct sigaction old;
    for (int i = 0; i < N_CAUGHT; i++)
        if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler == on_signal) signal(caught[i], SIG_DFL);
    for (int i = 0; i < MOST_ENTRIES; i++) entries[i].kind = FREE;
}

static int add(kind what, const char *path, pid_t pid) {
    for (int i = 0; i < MOST_ENTRIES; i++) {
        int expected = FREE;
        if (!atomic_compare_exchange_strong(&entries[i].kind, &expected, TAKEN)) continue;
        entries[i].path = path, entries[i].pid = pid;
        atomic_store(&entries[i].kind, what);
        return i + 1;
    }
    return 0;
}

int sw_interrupt_add_file(const char *path) {
    return add(A_FILE, path, 0);
}
int sw_interrupt_add_folder(const char *path) {
    return add(A_FOLDER, path, 0);
}
int sw_interrupt_add_empty_folder(const char *path) {
    return add(AN_EMPTY_FOLDER, path, 0);
}
int sw_interrupt_add_process(pid_t pid) {
    return add(A_PROCESS, NULL, pid);
}

void sw_interrupt_drop(int entry) {
    if (entry > 0) atomic_store(&entries[entry - 1].kind, FREE);
}

void sw_interrupt_hold(void) {
    atomic_fetch_add(&holds, 1);
    while (atomic_load(&ending) > 0) usleep(100); /* to the process's end, mostly */
}

void sw_interrupt_release(void) {
    if (atomic_fetch_sub(&holds, 1) == 1) end_waiting();
}
