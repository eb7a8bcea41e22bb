/* verify.c: hashes every part of a bundle, checks the graphs, and with --run lets them answer two prompts. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/self_check.h"
#include "graph/verify.h"

static sw_code run_bundle(const sw_options *options, sw_bundle *bundle, sw_error *err) {
    sw_pool *pool = NULL;
    sw_device *device = NULL;
    sw_code code = sw_pool_create(&pool, options->threads, err);
    if (code == SW_OK) code = sw_cli_open_device(options, bundle, options->run_on, pool, &device, err);
    if (code == SW_OK) code = sw_self_check(&bundle->decoder, device, err);
    if (code == SW_OK) printf("%s: two prompts, two answers on %s\n", options->operand, device->ops->name);
    if (device != NULL) device->ops->destroy(device);
    sw_pool_destroy(pool);
    return code;
}

sw_code sw_cmd_verify(const sw_options *options, sw_error *err) {
    sw_bundle bundle;
    if (strncmp(options->run_on, "adb", 3) == 0)
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "verify: running on a phone isn't in this build: wanted --run_on cpu or htp-emulator");
    if (strcmp(options->run_on, "cpu") != 0 && !options->run)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--run_on %s: runs nothing without --run", options->run_on);
    SW_TRY(sw_bundle_open(&bundle, options->operand, err));
    sw_code code = sw_bundle_verify(&bundle, err);
    if (code == SW_OK) code = sw_decoder_verify(&bundle.decoder, err);
    if (code == SW_OK) printf("%s: %u parts, all as written\n", options->operand, bundle.manifest.n_parts);
    if (code == SW_OK && options->run) code = run_bundle(options, &bundle, err);
    sw_bundle_close(&bundle);
    return code;
}
