/* llama.c: compile, then answer: ExecuTorch's llama.py in one command. */
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/page.h"
#include "soc/soc.h"

/* With --report also a page about what was compiled. */
static sw_code compile(const sw_options *options, sw_error *err) {
    SW_TRY(sw_cli_compile(options, err));
    if (options->report == NULL) return SW_OK;
    sw_bundle bundle;
    SW_TRY(sw_bundle_open(&bundle, options->artifact, err));
    sw_code code = sw_page_write(options, &bundle, options->report, err);
    sw_bundle_close(&bundle);
    if (code == SW_OK) sw_log(SW_LOG_INFO, "report: %s", options->report);
    return code;
}

/* -m beside a bundle that is compiled: the same SoC, or one of the two is a mistake. */
static sw_code check_soc(const sw_options *options, sw_error *err) {
    sw_bundle bundle;
    const sw_soc *soc = sw_soc_find(options->soc);
    SW_TRY(sw_bundle_open(&bundle, options->pre_gen_bundle, err));
    const char *compiled_for = bundle.manifest.soc_name, *wanted = soc != NULL ? soc->name : options->soc;
    sw_code code = SW_OK;
    if (strcmp(wanted, compiled_for) != 0)
        code = SW_FAIL(err, SW_INVALID_ARGUMENT, "-m %s, but %s was compiled for %s: wanted one of them",
                       options->soc, options->pre_gen_bundle, compiled_for);
    sw_bundle_close(&bundle);
    return code;
}

sw_code sw_cmd_compile(const sw_options *options, sw_error *err) {
    return compile(options, err);
}

sw_code sw_cmd_llama(const sw_options *options, sw_error *err) {
    if (options->pre_gen_bundle != NULL && options->compile_only)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--pre_gen_bundle runs what is compiled, --compile_only compiles only: "
                       "wanted one of them");
    if (options->pre_gen_bundle != NULL && options->tune)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--pre_gen_bundle runs what is compiled, --tune is of a compile: wanted one of them");
    if (!options->compile_only && options->n_prompts == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "llama: wants --prompt TEXT, or --compile_only");
    if (options->pre_gen_bundle != NULL && options->report != NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--report: is of a compile; for a bundle, `spillway inspect %s --report %s`",
                       options->pre_gen_bundle, options->report);
    if (options->pre_gen_bundle != NULL && options->soc != NULL) SW_TRY(check_soc(options, err));
    if (options->pre_gen_bundle != NULL) return sw_cli_answer(options, options->pre_gen_bundle, err);
    SW_TRY(sw_cli_check_trace(options, err)); /* before minutes of work */
    if (options->compile_only) return compile(options, err);
    bool on_device = sw_cli_on_device(options);
    sw_code device = on_device ? sw_cli_check_device(options, err) : SW_OK;
    if (device == SW_INVALID_ARGUMENT) return device;
    if (device != SW_OK) sw_log(SW_LOG_WARN, "the device: %s; the compile goes on", err->message);
    SW_TRY(compile(options, err));
    sw_code code = sw_cli_answer(options, options->artifact, err);
    if (code != SW_OK && on_device)
        sw_error_prefix(err, "the bundle is in %s, but it didn't run on the device", options->artifact);
    return code;
}
