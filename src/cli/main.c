/* main.c: from the command line to a command, and its error to an exit status. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "cli/cli.h"
#include "qnn/load.h"

uint64_t sw_cli_start_us;

typedef sw_code command_function(const sw_options *options, sw_error *err);

static command_function *const functions[SW_CMD_COUNT] = {
    [SW_CMD_LLAMA] = sw_cmd_llama,       [SW_CMD_COMPILE] = sw_cmd_compile,
    [SW_CMD_GENERATE] = sw_cmd_generate, [SW_CMD_INSPECT] = sw_cmd_inspect,
    [SW_CMD_VERIFY] = sw_cmd_verify,     [SW_CMD_COMPARE] = sw_cmd_compare,
    [SW_CMD_TOKENIZE] = sw_cmd_tokenize, [SW_CMD_LOGITS] = sw_cmd_logits,
    [SW_CMD_EVAL] = sw_cmd_eval,         [SW_CMD_TRAFFIC] = sw_cmd_traffic,
    [SW_CMD_PLAN] = sw_cmd_plan,         [SW_CMD_ADVISE] = sw_cmd_advise,
};

static sw_code run(int argc, char **argv, sw_error *err) {
    sw_options options;
    SW_TRY(sw_options_parse(&options, argc, argv, err));
    if (options.help) {
        sw_options_help(options.command);
        return SW_OK;
    }
    sw_log_level level = options.verbose ? SW_LOG_VERBOSE : SW_LOG_INFO;
    if (options.log_level != NULL)
        sw_log_level_from_name(options.log_level, &level); /* a legal one: checked */
    sw_log_set_level(level);
    sw_arena arena = SW_ARENA_EMPTY;
    sw_code code = sw_cli_check_outputs(&options, err);
    if (code == SW_OK) code = sw_cli_read_prompt_files(&options, &arena, err);
    if (code == SW_OK) code = functions[options.command](&options, err);
    sw_arena_free(&arena);
    return code;
}

int sw_cli_main(int argc, char **argv) {
    sw_cli_start_us = sw_now_us();
    sw_file_report_shrinking();
    sw_interrupt_catch();
    signal(SIGXFSZ, SIG_IGN); /* at the limit of `ulimit -f` the write fails, which names the file */
    sw_error err = {SW_OK, ""};
    sw_code code = sw_file_fill_standard_descriptors(&err);
    if (code == SW_OK) code = sw_qnn_protect_stdout(&err);
    if (code == SW_OK) code = run(argc, argv, &err);
    bool lost = ferror(stdout) != 0;
    errno = 0;
    if ((fflush(stdout) != 0 || lost) && code == SW_OK)
        code = SW_FAIL(&err, SW_IO, "stdout: can't write: %s",
                       errno != 0 ? strerror(errno) : "a part of the output was lost");
    sw_log_end(code != SW_OK ? err.message : NULL);
    if (code == SW_OK) return 0;
    return code == SW_INVALID_ARGUMENT ? 2 : 1;
}
