/* deploy.h: runs a bundle on a phone or a board through adb.
 *
 * The device's folder:   bin/spillway   the runner       lib/      Qualcomm's libraries, stub and skel
 *                        bundle/        the bundle       run/      prompts and figures of one run */
#ifndef SW_DEPLOY_DEPLOY_H
#define SW_DEPLOY_DEPLOY_H

#include "deploy/process.h"
#include "deploy/sync.h"

typedef struct sw_deploy_options {
    const char *adb, *host, *serial; /* each may be NULL: sw_adb_open */
    const char *runner_folder;       /* holds the program `spillway` for the device */
    const char *device_dir;     /* NULL: /data/local/tmp/spillway on Android, /var/tmp/spillway on Linux */
    const char *sdk;            /* Qualcomm's SDK, or NULL */
    const char *const *fetched; /* folders of Qualcomm's libraries for ARM Linux, NULL-terminated, or NULL */
    const char *run_on;         /* the runner's device: "htp", "cpu" */
    const char *const *prompts; /* [n_prompts] turns, as they are */
    uint32_t n_prompts;
    const char *system_prompt;    /* or NULL */
    const char *const *arguments; /* more words for the runner's `generate`, NULL-terminated */
    bool clean;                   /* remove the device's folder afterwards */
    sw_process_sink *reply;       /* what the runner writes to stdout */
    void *reply_context;
} sw_deploy_options;

/* What can be told before there is a bundle: is there a runner, are Qualcomm's libraries for that
 * architecture there (0: not asked), is there a device? Errors: as below. */
sw_code sw_deploy_check(const sw_deploy_options *options, uint32_t htp_arch, sw_error *err) SW_MUST_CHECK;

/* Looks at everything on the host, then at the device, sends what is missing, runs, and brings device.log and
 * device_stats.json into the bundle's folder. Errors: SW_INVALID_ARGUMENT, SW_NOT_FOUND and SW_BAD_DATA
 * before anything is sent; SW_IO of adb; the runner's own sentence (SW_INVALID_ARGUMENT where it says wrong
 * use, else SW_LIBRARY). */
sw_code sw_deploy_run(sw_bundle *bundle, const sw_deploy_options *options, sw_error *err) SW_MUST_CHECK;

#endif
