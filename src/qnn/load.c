/* load.c: finds the libraries' folder, loads both, and takes the function tables after a look at the
 * versions: the tables only ever grew at their ends, so a new library serves an old program. */
#include "qnn/load.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "qnn/error.h"

#define HTP_NAME    "libQnnHtp.so"
#define SYSTEM_NAME "libQnnSystem.so"
#define HOST_FOLDER "lib/x86_64-linux-clang"

static bool is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* folder/name, with a slash in any case: the loader would search its own folders for a bare name. */
static sw_code join(char out[PATH_MAX], const char *folder, const char *name, sw_error *err) {
    int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    if (n >= 0 && n < PATH_MAX) return SW_OK;
    return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: a path longer than %d bytes", folder, PATH_MAX - 1);
}

/* A folder or the library itself, as the user named it. */
static sw_code find_named(char out[PATH_MAX], const char *path, sw_error *err) {
    struct stat s;
    if (stat(path, &s) != 0) return SW_FAIL(err, SW_NOT_FOUND, "--qnn_lib %s: %s", path, strerror(errno));
    if (S_ISREG(s.st_mode)) return *path == '/' ? join(out, "", path + 1, err) : join(out, ".", path, err);
    if (!S_ISDIR(s.st_mode))
        return SW_FAIL(err, SW_NOT_FOUND, "--qnn_lib %s: neither a file nor a folder", path);
    SW_TRY(join(out, path, HTP_NAME, err));
    return is_file(out) ? SW_OK
                        : SW_FAIL(err, SW_NOT_FOUND, "--qnn_lib %s: no %s in that folder", path, HTP_NAME);
}

static sw_code find_in_sdk(char out[PATH_MAX], const char *root, sw_error *err) {
    struct stat s;
    if (join(out, root, HOST_FOLDER "/" HTP_NAME, err) != SW_OK) return sw_error_prefix(err, "QNN_SDK_ROOT");
    if (stat(root, &s) != 0)
        return SW_FAIL(err, SW_NOT_FOUND, "QNN_SDK_ROOT=%s: %s; set it to the SDK's folder or unset it", root,
                       strerror(errno));
    if (!S_ISDIR(s.st_mode))
        return SW_FAIL(err, SW_NOT_FOUND,
                       "QNN_SDK_ROOT=%s: not a folder; set it to the SDK's folder or unset it", root);
    return is_file(out) ? SW_OK
                        : SW_FAIL(err, SW_NOT_FOUND,
                                  "QNN_SDK_ROOT=%s: no " HOST_FOLDER "/" HTP_NAME
                                  " below it; set it to the SDK's folder or unset it",
                                  root);
}

static sw_code find(char out[PATH_MAX], const char *path, const char *const *folders, sw_error *err) {
    if (path != NULL) return find_named(out, path, err);
    const char *root = getenv("QNN_SDK_ROOT");
    if (root != NULL && *root != '\0') return find_in_sdk(out, root, err);
    char looked[600] = "";
    for (; folders != NULL && *folders != NULL; folders++) {
        SW_TRY(join(out, *folders, HTP_NAME, err));
        if (is_file(out)) return SW_OK;
        size_t used = strlen(looked);
        snprintf(looked + used, sizeof looked - used, "%s%s", used > 0 ? ", " : "", *folders);
    }
    return SW_FAIL(err, SW_NOT_FOUND,
                   "no " HTP_NAME " in: %s; set QNN_SDK_ROOT or --qnn_lib, or run `make setup`",
                   *looked != '\0' ? looked : "(nowhere to look)");
}

static sw_code load(const char *path, const char *entry, void **out, sw_error *err) {
    void *diverted = sw_qnn_divert_stdout();
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle == NULL ? dlerror() : NULL;
    sw_qnn_restore_stdout(diverted);
    if (handle == NULL) /* the loader's sentence begins with a path */
        return SW_FAIL(err, SW_LIBRARY, "%s: can't load: %s", path, why != NULL ? why : "no reason given");
    *out = dlsym(handle, entry);
    return *out != NULL ? SW_OK : SW_FAIL(err, SW_LIBRARY, "%s: not one of QNN's: no %s in it", path, entry);
}

sw_code sw_qnn_choose_htp(const char *path, const QnnInterface_t *const *list, uint32_t count,
                          const QnnInterface_t **out, sw_error *err) {
    Qnn_Version_t v = {0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == NULL || list[i]->backendId != QNN_BACKEND_ID_HTP) continue;
        *out = list[i];
        v = list[i]->coreApiVersion;
        if (v.major == QNN_CORE_MAJOR && v.minor >= QNN_CORE_MINOR_LEAST) return SW_OK;
    }
    if (v.major == 0)
        return SW_FAIL(err, SW_LIBRARY, "%s: not the library of the HTP (backend %d is not in it)", path,
                       QNN_BACKEND_ID_HTP);
    return SW_FAIL(err, SW_UNSUPPORTED,
                   "%s: core API %u.%u.%u, wanted %d.%d or a later %d.x (SDK 2.36 or newer)", path, v.major,
                   v.minor, v.patch, QNN_CORE_MAJOR, QNN_CORE_MINOR_LEAST, QNN_CORE_MAJOR);
}

sw_code sw_qnn_choose_system(const char *path, const QnnSystemInterface_t *const *list, uint32_t count,
                             const QnnSystemInterface_t **out, sw_error *err) {
    Qnn_Version_t v = {0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == NULL) continue;
        *out = list[i];
        v = list[i]->systemApiVersion;
        if (v.major == QNN_SYSTEM_MAJOR && v.minor >= QNN_SYSTEM_MINOR_LEAST) return SW_OK;
    }
    return SW_FAIL(err, SW_UNSUPPORTED,
                   "%s: system API %u.%u.%u, wanted %d.%d or a later %d.x (SDK 2.36 or newer)", path, v.major,
                   v.minor, v.patch, QNN_SYSTEM_MAJOR, QNN_SYSTEM_MINOR_LEAST, QNN_SYSTEM_MAJOR);
}

static sw_code load_htp(sw_qnn_library *library, sw_error *err) {
    union { /* a function's address as data: POSIX has it so */
        void *data;
        QnnInterface_getProviders_t *get;
    } entry;
    SW_TRY(load(library->path, "QnnInterface_getProviders", &entry.data, err));
    const QnnInterface_t **list = NULL;
    uint32_t count = 0;
    Qnn_ErrorHandle_t e = entry.get(&list, &count);
    if (e != 0 || list == NULL) return sw_qnn_fail(err, e, "%s: asking for its interface", library->path);
    SW_TRY(sw_qnn_choose_htp(library->path, list, count, &library->htp, err));
    e = library->htp->core.backendGetBuildId(&library->build_id);
    if (e != 0 || library->build_id == NULL)
        return sw_qnn_fail(err, e, "%s: asking for its build id", library->path);
    return SW_OK;
}

static sw_code load_system(sw_qnn_library *library, const char *path, sw_error *err) {
    union {
        void *data;
        QnnSystemInterface_getProviders_t *get;
    } entry;
    SW_TRY(load(path, "QnnSystemInterface_getProviders", &entry.data, err));
    const QnnSystemInterface_t **list = NULL;
    uint32_t count = 0;
    Qnn_ErrorHandle_t e = entry.get(&list, &count);
    if (e != 0 || list == NULL) return sw_qnn_fail(err, e, "%s: asking for its interface", path);
    return sw_qnn_choose_system(path, list, count, &library->system, err);
}

static void on_abort(int signal_number) {
    (void)signal_number;
    static const char text[] =
        "error: Qualcomm's library ended the process, most likely for want of memory\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    sw_log_write_below();
    _exit(1);
}

void sw_qnn_report_abort(void) {
    signal(SIGABRT, on_abort);
}

sw_code sw_qnn_library_open(sw_qnn_library *library, const char *path, const char *const *folders,
                            sw_error *err) {
    *library = (sw_qnn_library){0};
    SW_TRY(find(library->path, path, folders, err));
    char system_path[PATH_MAX];
    int folder = (int)(strrchr(library->path, '/') - library->path);
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%.*s", folder, library->path);
    SW_TRY(join(system_path, parent, SYSTEM_NAME, err));
    if (!is_file(system_path))
        return SW_FAIL(err, SW_NOT_FOUND, "%s: no " SYSTEM_NAME " beside it", library->path);
    SW_TRY(load_htp(library, err));
    SW_TRY(load_system(library, system_path, err));
    sw_log(SW_LOG_VERBOSE, "%s: build %s, core API %u.%u, HTP API %u.%u", library->path, library->build_id,
           library->htp->coreApiVersion.major, library->htp->coreApiVersion.minor,
           library->htp->backendApiVersion.major, library->htp->backendApiVersion.minor);
    return SW_OK;
}
