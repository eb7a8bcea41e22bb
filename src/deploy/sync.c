/* sync.c: checksums there, pushes, checksums again, one rename. */
#include "deploy/sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "deploy/words.h"

#define MARK ".spillway-folder" /* tells our folder from others */
#define PART ".spillway-part"   /* behind the name of a file that isn't whole yet */

enum { NOT_FOUND_STATUS = 127, MAX_LINE_BYTES = 1024 };

/* A command line, put together piece by piece. */
typedef struct line {
    sw_arena *arena;
    const char *text; /* NULL: no memory */
} line;

static void put(line *l, const char *text) {
    if (l->text != NULL) l->text = sw_arena_printf(l->arena, "%s%s", l->text, text);
}

static void put_word(line *l, const char *text, const char *ending) {
    const char *word = sw_shell_word(l->arena, sw_arena_printf(l->arena, "%s%s", text, ending));
    put(l, " ");
    if (word == NULL)
        l->text = NULL;
    else
        put(l, word);
}

static sw_code no_memory(sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

static sw_code begin(line *l, sw_adb *adb, const char *device_dir, sw_error *err) {
    *l = (line){&adb->arena, "cd"};
    put_word(l, device_dir, "");
    return l->text != NULL ? SW_OK : no_memory(err);
}

/* The folder gets emptied, so it may not be `/` or one of the system's own at the top. */
static sw_code check_path(const char *device_dir, sw_error *err) {
    const char *second = device_dir[0] == '/' ? strchr(device_dir + 1, '/') : NULL;
    if (second == NULL || second == device_dir + 1 || second[1] == '\0' || strstr(device_dir, "..") != NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--device_dir %s: wanted a folder of its own, such as /data/local/tmp/spillway",
                       device_dir);
    if (strpbrk(device_dir, ":;") != NULL)
        return SW_FAIL(
            err, SW_INVALID_ARGUMENT,
            "--device_dir %s: wanted a name without `:` and `;`, which part folders in LD_LIBRARY_PATH "
            "and ADSP_LIBRARY_PATH",
            device_dir);
    return SW_OK;
}

sw_code sw_sync_open_folder(sw_adb *adb, const char *device_dir, sw_error *err) {
    SW_TRY(check_path(device_dir, err));
    const char *dir = sw_shell_word(&adb->arena, device_dir);
    const char *command =
        dir == NULL ? NULL
                    : sw_arena_printf(&adb->arena,
                                      "if [ -d %s ] && [ ! -f %s/" MARK
                                      " ] && [ -n \"$(ls -A %s)\" ]; then echo other; "
                                      "else mkdir -p %s/bin %s/lib %s/bundle %s/run && touch %s/" MARK "; fi",
                                      dir, dir, dir, dir, dir, dir, dir, dir);
    const char *out, *doing = sw_arena_printf(&adb->arena, "making %.200s on the device", device_dir);
    if (command == NULL || doing == NULL) return no_memory(err);
    SW_TRY(sw_adb_shell_ok(adb, command, doing, &out, err));
    if (strncmp(out, "other", 5) == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "%s on the device holds other things; choose another folder with --device_dir",
                       device_dir);
    return SW_OK;
}

sw_code sw_sync_remove_folder(sw_adb *adb, const char *device_dir, sw_error *err) {
    SW_TRY(check_path(device_dir, err));
    const char *dir = sw_shell_word(&adb->arena, device_dir);
    const char *command =
        dir == NULL ? NULL : sw_arena_printf(&adb->arena, "[ ! -f %s/" MARK " ] || rm -rf %s", dir, dir);
    if (command == NULL) return no_memory(err);
    return sw_adb_shell_ok(adb, command, "removing the device's folder", NULL, err);
}

/* Deletes what no file of the list is. */
static sw_code prune(sw_adb *adb, const char *device_dir, const sw_deploy_files *files, sw_error *err) {
    line l;
    SW_TRY(begin(&l, adb, device_dir, err));
    put(&l, " && for f in bin/* lib/* bundle/*; do case $f in ");
    for (uint32_t i = 0; i < files->count; i++) {
        put_word(&l, files->list[i].remote, "");
        put(&l, ") ;;");
    }
    put(&l, " *) rm -rf \"$f\" ;; esac; done");
    if (l.text == NULL) return no_memory(err);
    return sw_adb_shell_ok(adb, l.text, "clearing the device's folder", NULL, err);
}

/* Which files the device has, by the lines "<64 digits>  <name>". Names with ending, "" or PART. */
static sw_code compare(sw_adb *adb, const char *device_dir, const sw_deploy_files *files, const char *ending,
                       bool *same, bool *can_hash, sw_error *err) {
    line l;
    SW_TRY(begin(&l, adb, device_dir, err));
    put(&l, " && sha256sum");
    for (uint32_t i = 0; i < files->count; i++) put_word(&l, files->list[i].remote, ending);
    put(&l, " 2>/dev/null");
    if (l.text == NULL) return no_memory(err);
    const char *out;
    int status;
    SW_TRY(sw_adb_shell(adb, l.text, &out, &status, err));
    *can_hash = status != NOT_FOUND_STATUS;
    for (uint32_t i = 0; i < files->count; i++) {
        char wanted[MAX_LINE_BYTES];
        int n =
            snprintf(wanted, sizeof wanted, "%s  %s%s", files->list[i].sha256, files->list[i].remote, ending);
        same[i] = false;
        for (const char *at = out; n > 0 && (at = strstr(at, wanted)) != NULL && !same[i]; at++)
            same[i] = at[n] == '\0' || at[n] == '\n' || at[n] == '\r';
    }
    return SW_OK;
}

/* Free bytes by `df -kP`: the fourth column of its last line, in kB; what can't be read is no obstacle. */
static sw_code check_space(sw_adb *adb, const char *device_dir, uint64_t wanted, sw_error *err) {
    line l;
    SW_TRY(begin(&l, adb, device_dir, err));
    put(&l, " && df -kP . 2>/dev/null");
    if (l.text == NULL) return no_memory(err);
    const char *out;
    int status;
    SW_TRY(sw_adb_shell(adb, l.text, &out, &status, err));
    const char *row = strchr(out, '\n');
    unsigned long long size, used, kb;
    if (status != 0 || row == NULL || sscanf(row, "%*s %llu %llu %llu", &size, &used, &kb) != 3) return SW_OK;
    if (kb > UINT64_MAX / 1024 || wanted <= kb * 1024) return SW_OK;
    return SW_FAIL(
        err, SW_IO,
        "%s on the device: No space left on device: %.1f MB are to be sent, %.1f MB are free; delete "
        "something there, or choose another place with --device_dir",
        device_dir, (double)wanted / 1e6, (double)kb * 1024 / 1e6);
}

static sw_code push(sw_adb *adb, const char *device_dir, const sw_deploy_files *files, const bool *same,
                    uint64_t total, sw_error *err) {
    sw_progress progress;
    uint64_t done = 0;
    sw_progress_start(&progress, "pushing, MB", total / 1000000);
    sw_code code = SW_OK;
    for (uint32_t i = 0; i < files->count && code == SW_OK; i++) {
        const sw_deploy_file *f = &files->list[i];
        if (same[i]) continue;
        const char *remote = sw_arena_printf(&adb->arena, "%s/%s" PART, device_dir, f->remote);
        if (remote == NULL) code = no_memory(err);
        if (code == SW_OK) code = sw_adb_push(adb, f->local, remote, err);
        done += f->bytes;
        sw_progress_update(&progress, done / 1000000);
    }
    sw_progress_end(&progress);
    return code;
}

static sw_code rename_all(sw_adb *adb, const char *device_dir, const sw_deploy_files *files, const bool *same,
                          sw_error *err) {
    line l;
    SW_TRY(begin(&l, adb, device_dir, err));
    for (uint32_t i = 0; i < files->count; i++) {
        const sw_deploy_file *f = &files->list[i];
        if (f->is_program) {
            put(&l, " && chmod 755");
            put_word(&l, f->remote, same[i] ? "" : PART);
        }
        if (same[i]) continue;
        put(&l, " && mv -f");
        put_word(&l, f->remote, PART);
        put_word(&l, f->remote, "");
    }
    if (l.text == NULL) return no_memory(err);
    return sw_adb_shell_ok(adb, l.text, "renaming what was pushed", NULL, err);
}

sw_code sw_sync_files(sw_adb *adb, const char *device_dir, const sw_deploy_files *files, uint64_t *sent_bytes,
                      sw_error *err) {
    bool same[SW_MAX_DEPLOY_FILES] = {false}, arrived[SW_MAX_DEPLOY_FILES], can_hash;
    SW_TRY(prune(adb, device_dir, files, err));
    SW_TRY(compare(adb, device_dir, files, "", same, &can_hash, err));
    *sent_bytes = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < files->count; i++)
        if (!same[i]) *sent_bytes += files->list[i].bytes, n++;
    if (n > 0) {
        SW_TRY(check_space(adb, device_dir, *sent_bytes, err));
        SW_TRY(push(adb, device_dir, files, same, *sent_bytes, err));
        SW_TRY(compare(adb, device_dir, files, PART, arrived, &can_hash, err));
        if (!can_hash)
            sw_log(SW_LOG_WARN,
                   "the device has no sha256sum: what was pushed isn't checked, and is pushed each time");
        for (uint32_t i = 0; i < files->count && can_hash; i++)
            if (!same[i] && !arrived[i])
                return SW_FAIL(
                    err, SW_BAD_DATA,
                    "%s: arrived with another SHA-256 than wanted, %.16s...; run again, and if that doesn't "
                    "help, check the bundle with `spillway verify`",
                    files->list[i].local, files->list[i].sha256);
    }
    SW_TRY(rename_all(adb, device_dir, files, same, err));
    sw_log(SW_LOG_INFO, "%s on the device: %u of %u files pushed, %.1f MB", device_dir, n, files->count,
           (double)*sent_bytes / 1e6);
    return SW_OK;
}
