/* emulated_phone.h: the 64-bit ARM build under qemu, behind the stand-in for adb. Needs `make build-aarch64`.
 */
#ifndef TESTS_CLI_EMULATED_PHONE_H
#define TESTS_CLI_EMULATED_PHONE_H

#include "cli/fake_phone.h"

#define CROSS      SW_SOURCE_DIR "/build/aarch64/"
#define BOARD      SW_SOURCE_DIR "/external/qnn-aarch64/onnxruntime_qnn/"
#define HOST_QNN   SW_SOURCE_DIR "/external/qnn/onnxruntime_qnn"
#define MODEL      SW_SOURCE_DIR "/external/models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define ROOT       "var/tmp/spillway/"
#define SOC_ID     "sysroot/sys/devices/system/soc/soc0/id"
#define CROSS_LIBS "/usr/aarch64-linux-gnu/lib/"

static inline bool is_there(const char *path) {
    if (access(path, R_OK) == 0) return true;
    printf("skipped: no %s\n", path);
    return false;
}

static inline bool can_run(void) {
    if (system("qemu-aarch64 --version >/dev/null 2>&1") != 0) {
        printf("skipped: no qemu-aarch64\n");
        return false;
    }
    return is_there(CROSS "spillway") && is_there(CROSS "tests/fake_phone/libcdsprpc.so.1") &&
           is_there(CROSS "tests/fake_phone/stand_in/libQnnHtp.so") && is_there(BOARD "libQnnHtp.so") &&
           is_there(HOST_QNN "/libQnnHtp.so") && is_there(CROSS_LIBS "libstdc++.so.6");
}

static inline void link_to(const char *name, const char *target) {
    remove(in_folder(name));
    if (symlink(target, in_folder(name)) != 0) fail_msg("%s: %s", name, strerror(errno));
}

/* The root that qemu shows the program: what tells the SoC (618: SM8750 in Linux), and the libraries that the
 * system and not the runner's folder has. */
static inline int fresh_phone(void **state) {
    (void)state;
    char device[200];
    snprintf(device, sizeof device, "%s/device", folder);
    remove_all(device);
    fake_folder("device"), fake_folder("sysroot/sys/devices/system/soc/soc0"), fake_folder("sysroot/usr/lib");
    write_file(SOC_ID, "618\n", 4);
    link_to("sysroot/usr/lib/libcdsprpc.so", CROSS "tests/fake_phone/libcdsprpc.so.1");
    link_to("sysroot/usr/lib/libcdsprpc.so.1", CROSS "tests/fake_phone/libcdsprpc.so.1");
    link_to("sysroot/usr/lib/libstdc++.so.6", CROSS_LIBS "libstdc++.so.6");
    link_to("sysroot/usr/lib/libatomic.so.1", CROSS_LIBS "libatomic.so.1");
    remove(in_folder("phone.log"));
    setenv("FAKE_PHONE_LOG", in_folder("phone.log"), 1);
    unsetenv("FAKE_PHONE");
    return 0;
}

/* What runs the device's program. */
static inline void emulated_phone_make(void) {
    char run[400];
    fake_phone_make();
    snprintf(run, sizeof run, "qemu-aarch64 -L %s/sysroot", folder);
    setenv("FAKE_ADB_RUN", run, 1);
}

/* An SDK whose libQnnHtp.so is the stand-in that computes; as QNN_SDK_ROOT=... */
static inline const char *stand_in_sdk(void) {
    static char variable[200];
    fake_folder("stand_in_sdk/lib/aarch64-oe-linux-gcc11.2"),
        fake_folder("stand_in_sdk/lib/hexagon-v79/unsigned");
    link_to("stand_in_sdk/lib/aarch64-oe-linux-gcc11.2/libQnnHtp.so",
            CROSS "tests/fake_phone/stand_in/libQnnHtp.so");
    link_to("stand_in_sdk/lib/aarch64-oe-linux-gcc11.2/libQnnSystem.so", BOARD "libQnnSystem.so");
    link_to("stand_in_sdk/lib/aarch64-oe-linux-gcc11.2/libQnnHtpV79Stub.so", BOARD "libQnnHtpV79Stub.so");
    link_to("stand_in_sdk/lib/hexagon-v79/unsigned/libQnnHtpV79Skel.so", BOARD "libQnnHtpV79Skel.so");
    snprintf(variable, sizeof variable, "QNN_SDK_ROOT=%s/stand_in_sdk", folder);
    return variable;
}

#endif
