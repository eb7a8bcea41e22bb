/* llama.c: compile, then answer: ExecuTorch's llama.py in one command. */
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"

sw_code sw_cmd_compile(const sw_options *options, sw_error *err) {
    return sw_cli_compile(options, err);
}

sw_code sw_cmd_llama(const sw_options *options, sw_error *err) {
    bool phone = options->serial != NULL || strcmp(options->run_on, "adb") == 0;
    if (options->pre_gen_bundle != NULL && options->compile_only)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--pre_gen_bundle runs what is compiled, --compile_only compiles only: "
                       "wanted one of them");
    if (!options->compile_only && options->n_prompts == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "llama: wants --prompt TEXT, or --compile_only");
    if (options->pre_gen_bundle == NULL) SW_TRY(sw_cli_compile(options, err));
    if (!options->compile_only) {
        sw_bundle bundle;
        SW_TRY(sw_bundle_open(
            &bundle, options->pre_gen_bundle != NULL ? options->pre_gen_bundle : options->artifact, err));
        sw_code code = sw_cli_run_chat(options, &bundle, err);
        sw_bundle_close(&bundle);
        if (code != SW_OK) return code;
    }
    if (!phone) return SW_OK;
    bool emulator = strcmp(options->run_on, "htp-emulator") == 0;
    return SW_FAIL(err, SW_UNSUPPORTED, "nothing was deployed: this build can't run on a phone yet;%s%s%s",
                   options->pre_gen_bundle == NULL ? " the bundle is written" : "",
                   options->pre_gen_bundle == NULL && !options->compile_only ? " and" : "",
                   options->compile_only ? ""
                   : emulator            ? " the reply is the emulator's"
                                         : " the reply is the CPU device's");
}
