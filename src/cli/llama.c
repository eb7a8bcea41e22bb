/* llama.c: compile, then answer: ExecuTorch's llama.py in one command. */
#include "base/log.h"
#include "cli/cli.h"

sw_code sw_cmd_compile(const sw_options *options, sw_error *err) {
    return sw_cli_compile(options, err);
}

sw_code sw_cmd_llama(const sw_options *options, sw_error *err) {
    if (options->pre_gen_bundle != NULL && options->compile_only)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--pre_gen_bundle runs what is compiled, --compile_only compiles only: "
                       "wanted one of them");
    if (!options->compile_only && options->n_prompts == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "llama: wants --prompt TEXT, or --compile_only");
    if (options->pre_gen_bundle != NULL) return sw_cli_answer(options, options->pre_gen_bundle, err);
    SW_TRY(sw_cli_check_trace(options, err)); /* before minutes of work */
    if (options->compile_only) return sw_cli_compile(options, err);
    bool on_device = sw_cli_on_device(options);
    sw_code device = on_device ? sw_cli_check_device(options, err) : SW_OK;
    if (device == SW_INVALID_ARGUMENT) return device;
    if (device != SW_OK) sw_log(SW_LOG_WARN, "the device: %s; the compile goes on", err->message);
    SW_TRY(sw_cli_compile(options, err));
    sw_code code = sw_cli_answer(options, options->artifact, err);
    if (code != SW_OK && on_device)
        sw_error_prefix(err, "the bundle is in %s, but it didn't run on the device", options->artifact);
    return code;
}
