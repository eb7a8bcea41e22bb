/* cli.h: what the commands share. Each command is one file with one function. */
#ifndef SW_CLI_CLI_H
#define SW_CLI_CLI_H

#include "base/threads.h"
#include "bundle/bundle.h"
#include "cli/options.h"
#include "device/device.h"
#include "qnn/load.h"
#include "runtime/generate.h"

/* The program: parses, runs the command, says what failed. Returns the exit status: 0, 1 failure, 2 wrong
 * use. */
int sw_cli_main(int argc, char **argv);

sw_code sw_cmd_llama(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_compile(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_generate(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_inspect(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_verify(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_compare(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_tokenize(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_logits(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_eval(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_plan(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_advise(const sw_options *options, sw_error *err) SW_MUST_CHECK;
sw_code sw_cmd_traffic(const sw_options *options, sw_error *err) SW_MUST_CHECK;

/* Monotonic time at the program's start, microseconds. */
extern uint64_t sw_cli_start_us;

/* The checkpoint that --model or --decoder_model names, as a path in the arena. Errors: SW_INVALID_ARGUMENT
 * (neither given; a SoC's name; an unknown model's), SW_NOT_FOUND (a known model whose file isn't there). */
sw_code sw_cli_find_model(const sw_options *options, sw_arena *arena, const char **out,
                          sw_error *err) SW_MUST_CHECK;

/* With --decoder_model: is this checkpoint that model? */
sw_code sw_cli_check_model(const sw_options *options, const sw_model *model, const char *path,
                           sw_error *err) SW_MUST_CHECK;

/* --stats: times and counts of the turns so far, as a JSON file that is replaced after each turn. */
typedef struct sw_run_stats {
    const char *device;
    uint64_t load_us;
    sw_turn_stats turns[SW_MAX_PROMPTS];
    uint32_t n_turns;
} sw_run_stats;
sw_code sw_cli_write_stats(const char *path, const sw_run_stats *stats, sw_error *err) SW_MUST_CHECK;

bool sw_cli_is_folder(const char *path);

/* Folders beside the program or below the current one where setup puts things: NULL-terminated, in the arena.
 * below: "models", "qnn/onnxruntime_qnn". */
sw_code sw_cli_external_folders(const char *below, sw_arena *arena, const char *const **out,
                                sw_error *err) SW_MUST_CHECK;

/* Qualcomm's library, loaded at the first call, for the process. */
sw_code sw_cli_open_library(const sw_options *options, const sw_qnn_library **out,
                            sw_error *err) SW_MUST_CHECK;

/* The device of that name for a bundle. Bundle and pool are borrowed. */
sw_code sw_cli_open_device(const sw_options *options, sw_bundle *bundle, const char *name, sw_pool *pool,
                           sw_device **out, sw_error *err) SW_MUST_CHECK;

/* The HTP, with the bundle's context binaries loaded: what is known of the target is compared first. */
sw_code sw_cli_open_htp(const sw_options *options, sw_bundle *bundle, sw_device **out,
                        sw_error *err) SW_MUST_CHECK;

/* With --profile, on that device: what it has measured, as a table on stderr. */
void sw_cli_print_profile(const sw_options *options, const sw_bundle *bundle, const sw_device *device);

/* --top_k against what graphs with so many candidates (0: all) hand out. */
sw_code sw_cli_check_top_k(const sw_options *options, uint32_t candidates, sw_error *err) SW_MUST_CHECK;

/* Puts the text of each prompt that is in a file in place of the file's name; in the arena. Errors: those of
 * reading, SW_BAD_DATA (a zero byte). */
sw_code sw_cli_read_prompt_files(sw_options *options, sw_arena *arena, sw_error *err) SW_MUST_CHECK;

/* The files that will be written: can each be made, and is none of them read by the command (the file of
 * --model, say) or a part of a bundle? Asked first of all. Errors: SW_INVALID_ARGUMENT, SW_IO. */
sw_code sw_cli_check_outputs(const sw_options *options, sw_error *err) SW_MUST_CHECK;

/* Can --trace be done, as far as is known without a bundle? */
sw_code sw_cli_check_trace(const sw_options *options, sw_error *err) SW_MUST_CHECK;

/* Answers options->prompts with the bundle in folder: here or on a device. */
sw_code sw_cli_answer(const sw_options *options, const char *folder, sw_error *err) SW_MUST_CHECK;

/* Is the bundle to be run on a phone or board, and not here? */
bool sw_cli_on_device(const sw_options *options);

/* Answers options->prompts on a phone or board, through adb. */
sw_code sw_cli_deploy(const sw_options *options, sw_bundle *bundle, sw_error *err) SW_MUST_CHECK;

/* Could that be done, as far as is known without a bundle? */
sw_code sw_cli_check_device(const sw_options *options, sw_error *err) SW_MUST_CHECK;

/* Compiles as the options say and leaves a bundle in options->artifact. */
sw_code sw_cli_compile(const sw_options *options, sw_error *err) SW_MUST_CHECK;

/* The same without Qualcomm's compiler: a bundle without contexts. What calibration saw is a part of it,
 * "ranges-<8 hex>.json" (quant/ranges_json.h), where the recipe needs ranges. */
sw_code sw_cli_prepare(const sw_options *options, sw_error *err) SW_MUST_CHECK;

/* The ids of a chat's first turn: the system message, if one is given, and the prompt, in the model's frame
 * or with --raw as they are; appended to *ids. */
sw_code sw_cli_first_turn(const sw_options *options, const sw_tokenizer *tokenizer, const char *prompt,
                          sw_ids *ids, sw_error *err) SW_MUST_CHECK;

/* The tokenizer of a bundle. */
sw_code sw_cli_bundle_tokenizer(sw_bundle *bundle, sw_tokenizer **out, sw_error *err) SW_MUST_CHECK;

#endif
