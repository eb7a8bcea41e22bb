/* options.h: the command line: one list of options, each with the commands that take it. */
#ifndef SW_CLI_OPTIONS_H
#define SW_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "spillway/error.h"

/* Commands: enumerator, name, operand ("" for none), one line of help. */
#define SW_COMMANDS(X)                                                                                       \
    X(SW_CMD_LLAMA, "llama", "", "compile a decoder for the HTP and answer prompts with it, all in one")     \
    X(SW_CMD_COMPILE, "compile", "", "compile a decoder into a bundle")                                      \
    X(SW_CMD_GENERATE, "generate", "BUNDLE", "answer prompts with a bundle")                                 \
    X(SW_CMD_INSPECT, "inspect", "BUNDLE|FILE",                                                              \
      "show what a bundle, a context binary or a checkpoint holds")                                          \
    X(SW_CMD_VERIFY, "verify", "BUNDLE",                                                                     \
      "check every part of a bundle against its SHA-256; with --run, try the graphs")                        \
    X(SW_CMD_COMPARE, "compare", "BUNDLE", "run the CPU device against the HTP emulator")                    \
    X(SW_CMD_TOKENIZE, "tokenize", "", "print the token ids of the text on stdin as one JSON line")          \
    X(SW_CMD_LOGITS, "logits", "", "write the logits behind some token ids as float32")                      \
    X(SW_CMD_EVAL, "eval", "", "measure recipes on the CPU device: perplexity, agreement, tasks")            \
    X(SW_CMD_PLAN, "plan", "MODEL|CONFIG", "plan a model's memory from its shapes: no weights, no compiler") \
    X(SW_CMD_ADVISE, "advise", "BUNDLE", "say whether the SLC allocator may help a bundle's graphs")         \
    X(SW_CMD_TRAFFIC, "traffic", "", "compile over a grid of options and tabulate each graph's DDR traffic")

typedef enum sw_command_id {
#define SW_COMMAND_ENUM(id, name, operand, help) id,
    SW_COMMANDS(SW_COMMAND_ENUM)
#undef SW_COMMAND_ENUM
        SW_CMD_COUNT
} sw_command_id;

enum { SW_MAX_PROMPTS = 64, SW_MAX_MERGED = 64 };

typedef struct sw_options {
    sw_command_id command;
    bool help;
    const char *operand;
    /* What is compiled. */
    const char *model, *decoder_model, *soc, *quant, *model_mode, *attention, *logits, *artifact, *calib_text;
    const char *rotate, *rounding; /* NULL: as the recipe wants */
    uint32_t kv_bits, max_seq_len, max_context_len, prefill_ar_len, calib_samples;
    /* For Qualcomm's compiler. */
    const char *slc, *qnn_lib;
    bool slc_given, tune;
    uint32_t soc_id, htp_arch, vtcm_mb, opt_level, num_sharding, max_weight_buffer_mb; /* 0: not given */
    /* What is run. */
    const char *prompts[SW_MAX_PROMPTS], *system_prompt, *pre_gen_bundle, *run_on;
    const char *system_prompt_file, *stats, *trace;
    bool run_on_given;
    bool prompt_is_file[SW_MAX_PROMPTS]; /* until prompt_files.c has read it */
    uint32_t n_prompts;
    const char *perf, *force_slc; /* of the HTP */
    bool compile_only, raw, profile;
    float temperature, top_p;
    uint64_t seed, top_k;
    uint32_t threads;
    /* The phone. */
    const char *build_folder, *host, *serial, *adb, *device_dir;
    bool clean_device;
    /* Single commands. */
    bool chat, json, tensors, run;
    const char *dot, *ids, *out, *report;
    uint32_t tokens;
    const char *ops;  /* on or NULL, off */
    float least_sqnr; /* dB */
    /* What is measured. */
    const char *text, *recipes, *tasks, *resume, *plot;
    uint32_t context, chunks;
    bool sqnr;
    float dram_gbps; /* 0: the SoC's */
    /* The grid of traffic: lists with commas, and where its results are. */
    struct sw_grid_options {
        const char *socs, *recipes, *attention, *logits, *layers, *slc, *vtcm_mb, *opt_level, *prefill_ar_len,
            *max_seq_len;
        const char *cache, *only, *jobs, *slurm, *merge[SW_MAX_MERGED];
        uint32_t n_merge;
        bool tsv;
    } grid;
    /* Talk. */
    const char *log_level;
    bool verbose;
} sw_options;

/* Fills *options with the defaults and what argv says. Values are borrowed from argv. Everything that can be
 * said of a value alone is checked here. Errors: SW_INVALID_ARGUMENT with option, value and what is legal. */
sw_code sw_options_parse(sw_options *options, int argc, char **argv, sw_error *err) SW_MUST_CHECK;

/* A name out of a list, which results are printed and kept under: is it UTF-8 without control characters?
 * Errors: SW_INVALID_ARGUMENT. */
sw_code sw_options_check_name(const char *name_of_option, const char *name, sw_error *err) SW_MUST_CHECK;

/* Help on stdout: of a command, or of the program (SW_CMD_COUNT). */
void sw_options_help(sw_command_id command);

#endif
