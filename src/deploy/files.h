/* files.h: what goes to a device: the runner, Qualcomm's libraries, a bundle; found and checked on the host.
 */
#ifndef SW_DEPLOY_FILES_H
#define SW_DEPLOY_FILES_H

#include "bundle/bundle.h"

/* Systems that a runner is built for. They have different C libraries, so Qualcomm's libraries come in both
 * kinds. */
typedef enum sw_target { SW_TARGET_ANDROID, SW_TARGET_LINUX } sw_target;

const char *sw_target_name(sw_target target); /* "Android", "Linux" */

/* A file and where it goes, below the device's folder. */
typedef struct sw_deploy_file {
    const char *local, *remote; /* "lib/libQnnHtp.so" */
    uint64_t bytes;
    char sha256[SW_SHA256_HEX_BYTES];
    bool is_program;
} sw_deploy_file;

enum { SW_MAX_DEPLOY_FILES = SW_MAX_PARTS + 16 };

typedef struct sw_deploy_files {
    sw_arena arena;
    sw_deploy_file list[SW_MAX_DEPLOY_FILES];
    uint32_t count;
} sw_deploy_files;

void sw_deploy_files_free(sw_deploy_files *files);

/* The program `spillway` of folder, as bin/spillway. *target: what it was built for. Errors: SW_NOT_FOUND,
 * SW_BAD_DATA (no 64-bit ARM program; says what it is). */
sw_code sw_deploy_add_runner(sw_deploy_files *files, const char *folder, sw_target *target,
                             sw_error *err) SW_MUST_CHECK;

/* libQnnHtp.so, libQnnSystem.so, and the stub and the skel of an HTP architecture, to lib/. From sdk
 * (Qualcomm's SDK: lib/aarch64-android, or lib/aarch64-*linux*; lib/hexagon-v<arch>/unsigned; NULL: none),
 * else, for Linux, the first of `fetched` (NULL-terminated) that has libQnnHtp.so. All must be of one build:
 * *build_id, in the arena. Errors: SW_NOT_FOUND with the file, the architecture and where it was looked for;
 * SW_BAD_DATA (two builds; another processor's or system's library). */
sw_code sw_deploy_add_libraries(sw_deploy_files *files, sw_target target, uint32_t htp_arch, const char *sdk,
                                const char *const *fetched, const char **build_id,
                                sw_error *err) SW_MUST_CHECK;

/* The manifest and every part, to bundle/, with the checksums that the manifest has. */
sw_code sw_deploy_add_bundle(sw_deploy_files *files, sw_bundle *bundle, sw_error *err) SW_MUST_CHECK;

#endif
