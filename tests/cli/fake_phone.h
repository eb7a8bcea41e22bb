/* fake_phone.h: a folder that is a device, behind tests/fake_adb/adb, and a made-up SDK for it: libraries
 * that are just headers and a build id. */
#ifndef TESTS_CLI_FAKE_PHONE_H
#define TESTS_CLI_FAKE_PHONE_H

#include <stdbool.h>

#include "cli/run_program.h"

#define FAKE_ADB      SW_SOURCE_DIR "/tests/fake_adb/adb"
#define FAKE_BUILD_ID "v2.51.0.260929181845"

enum { ELF_AARCH64 = 183, ELF_HEXAGON = 164, ELF_X86_64 = 62 };

/* An ELF header of that machine; loader: a program that asks for it, NULL: a library. text: somewhere behind.
 */
static inline const char *fake_elf(const char *name, int machine, const char *loader, const char *text) {
    unsigned char data[512] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    data[16] = 3, data[18] = (unsigned char)machine;
    if (loader != NULL) { /* one program header at 64, its text at 128 */
        data[32] = 64, data[56] = 1;
        data[64] = 3, data[72] = 128, data[96] = (unsigned char)(strlen(loader) + 1);
        memcpy(data + 128, loader, strlen(loader) + 1);
    }
    memcpy(data + 256, text, strlen(text) + 1);
    return write_file(name, data, sizeof data);
}

static inline void fake_folder(const char *name) {
    char command[5100];
    snprintf(command, sizeof command, "mkdir -p '%s'", in_folder(name));
    if (system(command) != 0) fail_msg("%s", command);
}

/* What a device's file holds; the caller frees. */
static inline char *device_file(const char *name, size_t *size) {
    char path[200];
    snprintf(path, sizeof path, "device/%s", name);
    FILE *f = fopen(in_folder(path), "rb");
    if (f == NULL) fail_msg("the device has no %s", name);
    return run_read_back(f, size);
}

static inline bool device_has(const char *name) {
    char path[200];
    snprintf(path, sizeof path, "device/%s", name);
    return access(in_folder(path), F_OK) == 0;
}

/* SDK in folder/sdk for V79, runners in folder/android and folder/linux, the device in folder/device. */
static inline void fake_phone_make(void) {
    fake_folder("sdk/lib/aarch64-android"), fake_folder("sdk/lib/aarch64-oe-linux-gcc11.2");
    fake_folder("sdk/lib/hexagon-v79/unsigned"), fake_folder("android"), fake_folder("linux"),
        fake_folder("device");
    fake_elf("android/spillway", ELF_AARCH64, "/system/bin/linker64", "");
    fake_elf("linux/spillway", ELF_AARCH64, "/lib/ld-linux-aarch64.so.1", "");
    static const char *const names[] = {"libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV79Stub.so"};
    for (size_t i = 0; i < 3; i++) {
        char path[200];
        snprintf(path, sizeof path, "sdk/lib/aarch64-android/%s", names[i]);
        fake_elf(path, ELF_AARCH64, NULL, "libc.so " FAKE_BUILD_ID);
        snprintf(path, sizeof path, "sdk/lib/aarch64-oe-linux-gcc11.2/%s", names[i]);
        fake_elf(path, ELF_AARCH64, NULL, "libc.so.6 " FAKE_BUILD_ID);
    }
    fake_elf("sdk/lib/hexagon-v79/unsigned/libQnnHtpV79Skel.so", ELF_HEXAGON, NULL, FAKE_BUILD_ID);
    char run[600], device[200];
    snprintf(run, sizeof run, "%s/tests/fake_adb/host_runner %s", SW_SOURCE_DIR, SW_PROGRAM);
    snprintf(device, sizeof device, "%s", in_folder("device"));
    setenv("FAKE_ADB_RUN", run, 1);
    setenv("FAKE_ADB_DEVICE", device, 1);
    setenv("FAKE_ADB_LOG", in_folder("adb.log"), 1);
    setenv("ADB", FAKE_ADB, 1);
}

/* The words that adb was called with since the last call of this; the caller frees. */
static inline char *adb_log(void) {
    FILE *f = fopen(in_folder("adb.log"), "rb");
    if (f == NULL) return calloc(1, 1);
    size_t size;
    char *text = run_read_back(f, &size);
    remove(in_folder("adb.log"));
    return text;
}

static inline size_t count_text(const char *text, const char *wanted) {
    size_t n = 0;
    for (; (text = strstr(text, wanted)) != NULL; text++) n++;
    return n;
}

#endif
