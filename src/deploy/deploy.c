/* deploy.c: the steps, in the order that tells a mistake as early as it can be known: files here, the device,
 * what it is, its folder, the push, the run. */
#include "deploy/deploy.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "deploy/runner.h"
#include "soc/soc.h"

/* Qualcomm's libraries for the bundle's architecture, and not older than those that compiled it. */
static sw_code add_libraries(sw_deploy_files *files, sw_target target, const sw_bundle *bundle,
                             const sw_deploy_options *o, sw_error *err) {
    const sw_manifest *m = &bundle->manifest;
    const char *build_id;
    if (m->qnn_build_id == NULL)
        return SW_FAIL(
            err, SW_INVALID_ARGUMENT,
            "%s: the bundle has no context binary for the HTP; compile it with Qualcomm's library, or run "
            "the CPU device there with --run_on adb-cpu",
            bundle->folder);
    SW_TRY(sw_deploy_add_libraries(files, target, m->htp_arch, o->sdk, o->fetched, &build_id, err));
    SW_TRY(sw_manifest_check_target(m, 0, 0, 0, build_id, err));
    sw_log(SW_LOG_VERBOSE, "Qualcomm's libraries for %s, V%u: build %s", sw_target_name(target), m->htp_arch,
           build_id);
    return SW_OK;
}

/* Is this the SoC that the bundle is for? Android tells its name in a property, Qualcomm's Linux in a file;
 * who tells none isn't asked further: the runner sees for itself. Names may go on with a letter of their
 * version. */
static sw_code check_device(sw_adb *adb, const sw_manifest *m, bool htp, sw_error *err) {
    const char *out;
    int status;
    SW_TRY(sw_adb_shell(
        adb, "uname -m; getprop ro.soc.model 2>/dev/null || cat /sys/devices/soc0/machine 2>/dev/null", &out,
        &status, err));
    char machine[64] = "", model[64] = "";
    sscanf(out, "%63s %63s", machine, model);
    if (machine[0] != '\0' && strcmp(machine, "aarch64") != 0)
        return SW_FAIL(err, SW_IO, "the device's processor is `%s`; the runner is for aarch64", machine);
    const sw_soc *soc = sw_soc_find(model);
    sw_log(SW_LOG_VERBOSE, "the device's SoC: %s", model[0] != '\0' ? model : "not told");
    if (!htp || soc == NULL || strncmp(model, m->soc_name, strlen(m->soc_name)) == 0) return SW_OK;
    if (soc->htp_arch != m->htp_arch)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "the bundle is for %s (V%u), the device has a %s (V%u): compile again with -m %s",
                       m->soc_name, m->htp_arch, soc->name, soc->htp_arch, soc->name);
    sw_log(SW_LOG_WARN, "the bundle is for %s, the device has a %s of the same architecture V%u", m->soc_name,
           soc->name, soc->htp_arch);
    return SW_OK;
}

static sw_code on_device(sw_adb *adb, const sw_bundle *bundle, const sw_deploy_files *files, sw_target target,
                         const sw_deploy_options *o, sw_error *err) {
    uint64_t sent_bytes;
    const char *dir = o->device_dir != NULL         ? o->device_dir
                      : target == SW_TARGET_ANDROID ? "/data/local/tmp/spillway"
                                                    : "/var/tmp/spillway";
    SW_TRY(check_device(adb, &bundle->manifest, strcmp(o->run_on, "htp") == 0, err));
    SW_TRY(sw_sync_open_folder(adb, dir, err));
    sw_code code = sw_sync_files(adb, dir, files, &sent_bytes, err);
    if (code == SW_OK) code = sw_deploy_start_runner(adb, dir, o, bundle->folder, err);
    if (!o->clean) return code;
    sw_error second;
    sw_code removed = sw_sync_remove_folder(adb, dir, &second);
    if (removed == SW_OK) return code;
    if (code != SW_OK) return code; /* the first error is the one to tell */
    *err = second;
    return removed;
}

sw_code sw_deploy_check(const sw_deploy_options *o, uint32_t htp_arch, sw_error *err) {
    sw_deploy_files *files = &(sw_deploy_files){0};
    sw_target target = SW_TARGET_LINUX;
    sw_adb adb = {0};
    const char *build_id;
    sw_code code = sw_deploy_add_runner(files, o->runner_folder, &target, err);
    if (code == SW_OK && htp_arch != 0)
        code = sw_deploy_add_libraries(files, target, htp_arch, o->sdk, o->fetched, &build_id, err);
    if (code == SW_OK) code = sw_adb_open(&adb, o->adb, o->host, o->serial, err);
    sw_adb_close(&adb);
    sw_deploy_files_free(files);
    return code;
}

sw_code sw_deploy_run(sw_bundle *bundle, const sw_deploy_options *o, sw_error *err) {
    sw_deploy_files *files = &(sw_deploy_files){0};
    sw_target target = SW_TARGET_LINUX;
    sw_adb adb = {0};
    sw_code code = sw_deploy_add_runner(files, o->runner_folder, &target, err);
    if (code == SW_OK && strcmp(o->run_on, "htp") == 0) code = add_libraries(files, target, bundle, o, err);
    if (code == SW_OK) code = sw_deploy_add_bundle(files, bundle, err);
    if (code == SW_OK) code = sw_adb_open(&adb, o->adb, o->host, o->serial, err);
    if (code == SW_OK) code = on_device(&adb, bundle, files, target, o, err);
    sw_adb_close(&adb);
    sw_deploy_files_free(files);
    return code;
}
