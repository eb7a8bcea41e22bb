/* files.c: finds and checks what goes to a device, before anything is sent. */
#include "deploy/files.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ELF, as System V's ABI has it: class at byte 4, machine at 18; 64-bit: program headers at 32, 56 bytes
 * each. */
enum { ELF_CLASS = 4, ELF_64 = 2, ELF_MACHINE = 18, EM_X86_64 = 62, EM_HEXAGON = 164, EM_AARCH64 = 183 };
enum { ELF_PROGRAM_HEADERS = 32, ELF_N_PROGRAM_HEADERS = 56, ELF_HEADER_BYTES = 64, PT_INTERP = 3 };

const char *sw_target_name(sw_target target) {
    return target == SW_TARGET_ANDROID ? "Android" : "Linux";
}

void sw_deploy_files_free(sw_deploy_files *files) {
    sw_arena_free(&files->arena);
    files->count = 0;
}

static bool is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static uint32_t machine(const sw_file_map *map) {
    static const uint8_t magic[4] = {0x7f, 'E', 'L', 'F'};
    if (map->size < ELF_HEADER_BYTES || memcmp(map->data, magic, 4) != 0) return 0;
    return map->data[ELF_MACHINE] | (uint32_t)map->data[ELF_MACHINE + 1] << 8;
}

static const char *machine_name(uint32_t number) {
    return number == 0            ? "no ELF file"
           : number == EM_X86_64  ? "for x86-64"
           : number == EM_AARCH64 ? "for 64-bit ARM"
           : number == EM_HEXAGON ? "for Hexagon"
                                  : "for another processor";
}

/* Maps, hashes and lists a file; the map is given back for a closer look. */
static sw_code add(sw_deploy_files *files, const char *local, const char *remote, sw_file_map *map,
                   sw_error *err) {
    if (files->count == SW_MAX_DEPLOY_FILES) return SW_FAIL(err, SW_INTERNAL, "%s: too many files", local);
    SW_TRY(sw_file_map_open(map, local, err));
    sw_deploy_file *f = &files->list[files->count];
    *f = (sw_deploy_file){.local = sw_arena_strdup(&files->arena, local),
                          .remote = sw_arena_strdup(&files->arena, remote),
                          .bytes = map->size};
    if (f->local == NULL || f->remote == NULL) {
        sw_file_map_close(map);
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    }
    sw_sha256 hash;
    sw_sha256_init(&hash);
    sw_sha256_update(&hash, map->data, (size_t)map->size);
    sw_sha256_final(&hash, f->sha256);
    files->count++;
    return SW_OK;
}

/* The loader that a program asks for; "" where there is none. */
static sw_code interpreter(const sw_file_map *map, char out[64], sw_error *err) {
    sw_cursor c = {.data = map->data, .size = map->size, .pos = ELF_PROGRAM_HEADERS};
    uint64_t table, offset, size;
    uint16_t count = 0;
    uint32_t type;
    out[0] = '\0';
    if (!sw_cursor_u64(&c, &table)) return SW_FAIL(err, SW_BAD_DATA, "%s: cut off", map->path);
    c.pos = ELF_N_PROGRAM_HEADERS;
    if (!sw_cursor_u16(&c, &count)) return SW_FAIL(err, SW_BAD_DATA, "%s: cut off", map->path);
    for (uint16_t i = 0; i < count; i++) {
        uint64_t at;
        if (!sw_add_u64(table, 56u * (uint64_t)i, &at)) break;
        c.pos = at;
        if (!sw_cursor_u32(&c, &type)) return SW_FAIL(err, SW_BAD_DATA, "%s: cut off", map->path);
        if (type != PT_INTERP) continue;
        if (!sw_add_u64(at, 8, &c.pos) || !sw_cursor_u64(&c, &offset) || !sw_add_u64(at, 32, &c.pos) ||
            !sw_cursor_u64(&c, &size))
            return SW_FAIL(err, SW_BAD_DATA, "%s: cut off", map->path);
        c.pos = offset;
        const uint8_t *text = sw_cursor_take(&c, size);
        if (text == NULL || size == 0 || size > 64 || text[size - 1] != '\0')
            return SW_FAIL(err, SW_BAD_DATA, "%s: its loader's name is damaged", map->path);
        memcpy(out, text, (size_t)size);
        return SW_OK;
    }
    return SW_OK;
}

sw_code sw_deploy_add_runner(sw_deploy_files *files, const char *folder, sw_target *target, sw_error *err) {
    const char *path = sw_path_join(&files->arena, folder, "spillway");
    if (path == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (!is_file(path))
        return SW_FAIL(
            err, SW_NOT_FOUND,
            "-b %s: no program `spillway` in it; build the runner with `make build-aarch64` (Linux) or the "
            "NDK (docs/phone.md)",
            folder);
    sw_file_map map;
    SW_TRY(add(files, path, "bin/spillway", &map, err));
    files->list[files->count - 1].is_program = true;
    char loader[64];
    sw_code code = SW_OK;
    uint32_t found = machine(&map);
    if (found != EM_AARCH64 || map.data[ELF_CLASS] != ELF_64)
        code =
            SW_FAIL(err, SW_BAD_DATA, "%s: %s, wanted a program for 64-bit ARM: -b wants the device's build",
                    path, machine_name(found));
    if (code == SW_OK) code = interpreter(&map, loader, err);
    if (code == SW_OK && loader[0] == '\0')
        code = SW_FAIL(err, SW_BAD_DATA, "%s: a static program, which can't load Qualcomm's libraries", path);
    if (code == SW_OK) *target = strstr(loader, "linker64") != NULL ? SW_TARGET_ANDROID : SW_TARGET_LINUX;
    sw_file_map_close(&map);
    return code;
}

/* ---- Qualcomm's libraries ---- */

/* The build id that stands in a library as text, "v2.51.0.260929181845": v, three numbers, and a date of 9
 * digits or more. */
static bool find_build_id(const sw_file_map *map, char out[64]) {
    const char *at = (const char *)map->data, *end = at + map->size;
    while (end - at > 16 && (at = memmem(at, (size_t)(end - at), "v2.", 3)) != NULL) {
        size_t n = 1, dots = 0, digits = 0;
        while (n < 63 && at + n < end && (isdigit((unsigned char)at[n]) || (at[n] == '.' && dots < 3))) {
            digits = at[n] == '.' ? 0 : digits + 1;
            dots += at[n] == '.';
            n++;
        }
        if (dots == 3 && digits >= 9) {
            memcpy(out, at, n);
            out[n] = '\0';
            return true;
        }
        at += 3;
    }
    return false;
}

typedef struct library_set {
    const char *host_folder, *skel_folder; /* the same in the wheel */
    const char *origin;                    /* for messages */
} library_set;

/* The SDK's folder for the target; for Linux the newest of several. */
static sw_code find_in_sdk(sw_deploy_files *files, sw_target target, uint32_t htp_arch, const char *sdk,
                           library_set *set, sw_error *err) {
    sw_arena *arena = &files->arena;
    set->origin = sw_arena_printf(arena, "QNN_SDK_ROOT=%s", sdk);
    set->skel_folder = sw_arena_printf(arena, "%s/lib/hexagon-v%u/unsigned", sdk, htp_arch);
    set->host_folder = sw_arena_printf(arena, "%s/lib/aarch64-android", sdk);
    const char *pattern = sw_arena_printf(arena, "%s/lib/aarch64-*linux*", sdk);
    if (set->origin == NULL || set->skel_folder == NULL || set->host_folder == NULL || pattern == NULL)
        return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (target == SW_TARGET_ANDROID) return SW_OK;
    glob_t found;
    set->host_folder = NULL;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) {
            const char *library = sw_path_join(arena, found.gl_pathv[i], "libQnnHtp.so");
            if (library != NULL && is_file(library))
                set->host_folder = sw_arena_strdup(arena, found.gl_pathv[i]);
        }
    globfree(&found);
    return SW_OK;
}

static sw_code choose_set(sw_deploy_files *files, sw_target target, uint32_t htp_arch, const char *sdk,
                          const char *const *fetched, library_set *set, sw_error *err) {
    *set = (library_set){0};
    if (sdk != NULL && *sdk != '\0') SW_TRY(find_in_sdk(files, target, htp_arch, sdk, set, err));
    if (set->host_folder != NULL) return SW_OK;
    if (set->origin != NULL)
        return SW_FAIL(
            err, SW_NOT_FOUND,
            "%s: no lib/aarch64-*linux*/libQnnHtp.so below it; set it to the SDK's folder or unset it",
            set->origin);
    if (target == SW_TARGET_ANDROID)
        return SW_FAIL(
            err, SW_NOT_FOUND,
            "the runner is for Android: Qualcomm's libraries for it are in Qualcomm's SDK alone; set "
            "QNN_SDK_ROOT to its folder");
    for (; fetched != NULL && *fetched != NULL; fetched++) {
        const char *library = sw_path_join(&files->arena, *fetched, "libQnnHtp.so");
        if (library == NULL || !is_file(library)) continue;
        *set = (library_set){*fetched, *fetched, *fetched};
        return SW_OK;
    }
    return SW_FAIL(
        err, SW_NOT_FOUND,
        "no libQnnHtp.so for 64-bit ARM Linux; run `scripts/fetch.sh --aarch64`, or set QNN_SDK_ROOT "
        "to Qualcomm's SDK");
}

/* Processor, system and build of one library. */
static sw_code check_library(const sw_file_map *map, sw_target target, bool is_system, bool is_skel,
                             const char **build_id, const char **first_path, sw_arena *arena, sw_error *err) {
    uint32_t found = machine(map), wanted = is_skel ? EM_HEXAGON : EM_AARCH64;
    char id[64];
    if (found != wanted)
        return SW_FAIL(err, SW_BAD_DATA, "%s: %s, wanted one %s", map->path, machine_name(found),
                       machine_name(wanted));
    bool glibc = memmem(map->data, (size_t)map->size, "libc.so.6", 9) != NULL;
    if (!is_skel && glibc != (target == SW_TARGET_LINUX))
        return SW_FAIL(err, SW_BAD_DATA, "%s: for %s, but the runner is for %s", map->path,
                       glibc ? "Linux" : "Android", sw_target_name(target));
    bool has_id = find_build_id(map, id);
    if (!has_id && is_system) return SW_OK; /* libQnnSystem.so of 2.51 has none */
    if (!has_id) return SW_FAIL(err, SW_BAD_DATA, "%s: has no build id of Qualcomm's in it", map->path);
    if (*build_id == NULL) {
        *build_id = sw_arena_strdup(arena, id);
        *first_path = sw_arena_strdup(arena, map->path);
        return *build_id != NULL && *first_path != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    }
    if (strcmp(*build_id, id) == 0) return SW_OK;
    return SW_FAIL(err, SW_BAD_DATA,
                   "%s: of build %s, but %s is of %s; take all of Qualcomm's libraries from one SDK",
                   map->path, id, *first_path, *build_id);
}

sw_code sw_deploy_add_libraries(sw_deploy_files *files, sw_target target, uint32_t htp_arch, const char *sdk,
                                const char *const *fetched, const char **build_id, sw_error *err) {
    library_set set;
    SW_TRY(choose_set(files, target, htp_arch, sdk, fetched, &set, err));
    sw_arena *arena = &files->arena;
    const char *first_path = NULL;
    *build_id = NULL;
    struct {
        const char *folder, *name;
    } wanted[] = {{set.host_folder, "libQnnHtp.so"},
                  {set.host_folder, "libQnnSystem.so"},
                  {set.host_folder, sw_arena_printf(arena, "libQnnHtpV%uStub.so", htp_arch)},
                  {set.skel_folder, sw_arena_printf(arena, "libQnnHtpV%uSkel.so", htp_arch)}};
    enum { N_WANTED = sizeof wanted / sizeof *wanted, SYSTEM = 1, SKEL = N_WANTED - 1 };
    const char *paths[N_WANTED];
    for (size_t i = 0; i < N_WANTED; i++) { /* all of them before the first is read */
        paths[i] = wanted[i].name != NULL ? sw_path_join(arena, wanted[i].folder, wanted[i].name) : NULL;
        if (paths[i] == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        if (!is_file(paths[i]))
            return SW_FAIL(
                err, SW_NOT_FOUND,
                "%s: no such file; the bundle is for HTP architecture V%u, which needs it on %s (looked in "
                "%s)",
                paths[i], htp_arch, sw_target_name(target), set.origin);
    }
    for (size_t i = 0; i < N_WANTED; i++) {
        const char *remote = sw_path_join(arena, "lib", wanted[i].name);
        sw_file_map map;
        if (remote == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        SW_TRY(add(files, paths[i], remote, &map, err));
        sw_code code = check_library(&map, target, i == SYSTEM, i == SKEL, build_id, &first_path, arena, err);
        sw_file_map_close(&map);
        SW_TRY(code);
    }
    return SW_OK;
}

/* ---- The bundle ---- */

sw_code sw_deploy_add_bundle(sw_deploy_files *files, sw_bundle *bundle, sw_error *err) {
    sw_arena *arena = &files->arena;
    for (uint32_t i = 0; i < bundle->manifest.n_parts; i++) {
        const sw_part *part = &bundle->manifest.parts[i];
        if (files->count == SW_MAX_DEPLOY_FILES)
            return SW_FAIL(err, SW_INTERNAL, "%s: too many files", bundle->folder);
        sw_deploy_file *f = &files->list[files->count];
        *f = (sw_deploy_file){.local = sw_path_join(arena, bundle->folder, part->path),
                              .remote = sw_path_join(arena, "bundle", part->path),
                              .bytes = part->bytes};
        if (f->local == NULL || f->remote == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        memcpy(f->sha256, part->sha256, sizeof f->sha256);
        files->count++;
    }
    const char *manifest = sw_path_join(arena, bundle->folder, SW_MANIFEST_NAME);
    sw_file_map map;
    if (manifest == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    SW_TRY(add(files, manifest, "bundle/" SW_MANIFEST_NAME, &map, err));
    sw_file_map_close(&map);
    return SW_OK;
}
