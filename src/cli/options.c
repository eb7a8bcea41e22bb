/* options.c: the list of options, and a parser that walks it. Names and meanings are those of ExecuTorch's
 * llama.py where it has them. */
#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "graph/decoder.h"

typedef enum value_type {
    FLAG,          /* bool */
    TEXT,          /* const char *, never empty */
    OPTIONAL_TEXT, /* --name or --name=value; value "" where there is none */
    TEXTS,         /* one or more values, again and again: prompts */
    FOLDERS,       /* the same: folders to merge */
    FILES,         /* one value, again and again: prompts that are in files */
    U32,
    U64,
    NUMBER, /* float */
} value_type;

enum {
    IN_LLAMA = 1 << SW_CMD_LLAMA,
    IN_COMPILE = 1 << SW_CMD_COMPILE,
    IN_GENERATE = 1 << SW_CMD_GENERATE,
    IN_INSPECT = 1 << SW_CMD_INSPECT,
    IN_VERIFY = 1 << SW_CMD_VERIFY,
    IN_COMPARE = 1 << SW_CMD_COMPARE,
    IN_TOKENIZE = 1 << SW_CMD_TOKENIZE,
    IN_LOGITS = 1 << SW_CMD_LOGITS,
    IN_EVAL = 1 << SW_CMD_EVAL,
    IN_TRAFFIC = 1 << SW_CMD_TRAFFIC,
    IN_PLAN = 1 << SW_CMD_PLAN,
    IN_ADVISE = 1 << SW_CMD_ADVISE,
    BUILDS = IN_LLAMA | IN_COMPILE,
    RUNS = IN_LLAMA | IN_GENERATE,
    LOADS_QNN = BUILDS | IN_GENERATE | IN_COMPARE | IN_INSPECT | IN_LOGITS | IN_TRAFFIC | IN_VERIFY,
    ALL = (1 << SW_CMD_COUNT) - 1,
};

typedef struct option {
    char letter; /* or 0 */
    const char *name;
    const char *value; /* its name in the help */
    value_type type;
    int commands;
    size_t offset;      /* in sw_options */
    double least, most; /* numbers */
    const char *help;
} option;

#define AT(field) offsetof(sw_options, field)

static const option options_list[] = {
    {'m', "soc_model", "SOC", TEXT, BUILDS | IN_PLAN, AT(soc), 0, 0, "SoC to compile for, e.g. SM8750"},
    {0, "soc_id", "N", U32, BUILDS | IN_PLAN, AT(soc_id), 1, 65535,
     "Qualcomm's number of the SoC, for one that this build doesn't know; with --htp_arch and --vtcm_mb"},
    {0, "htp_arch", "N", U32, BUILDS | IN_PLAN, AT(htp_arch), 68, 999, "its HTP, e.g. 79 for a V79"},
    {0, "model", "FILE", TEXT, BUILDS | IN_TOKENIZE | IN_LOGITS | IN_EVAL | IN_TRAFFIC, AT(model), 0, 0,
     "checkpoint, a GGUF file (tokenize, logits: or a bundle)"},
    {0, "decoder_model", "NAME", TEXT, BUILDS | IN_EVAL | IN_TRAFFIC, AT(decoder_model), 0, 0,
     "a model by name: smollm2_135m; without --model its fetched file is taken"},
    {0, "quant", "RECIPE", TEXT, BUILDS | IN_PLAN, AT(quant), 0, 0,
     "16a8w (default), 8a8w, 16a4w, 16a4w_block32, f16, f16a8w, f16a8w_block32, f16a4w_block32, or a recipe "
     "FILE.json"},
    {0, "kv_bits", "N", U32, BUILDS | IN_EVAL | IN_TRAFFIC | IN_PLAN, AT(kv_bits), 8, 16,
     "bits of the KV cache: 8 (default) or 16; f16 keeps f16"},
    {0, "rotate", "ON", TEXT, BUILDS | IN_EVAL | IN_TRAFFIC | IN_PLAN, AT(rotate), 0, 0,
     "on or off: spread outliers over all channels by rotations folded into the weights (default: on, off "
     "for "
     "f16)"},
    {0, "rounding", "HOW", TEXT, BUILDS | IN_EVAL | IN_TRAFFIC, AT(rounding), 0, 0,
     "nearest or gptq: how the weights of layers are rounded (default: as the recipe says)"},
    {0, "model_mode", "MODE", TEXT, BUILDS | IN_TRAFFIC | IN_PLAN, AT(model_mode), 0, 0,
     "hybrid (default): a prefill and a decode graph; kv: the decode graph alone"},
    {0, "max_seq_len", "N", U32, BUILDS | IN_GENERATE | IN_PLAN, AT(max_seq_len), 1, 1 << 20,
     "prompt tokens plus generated tokens (default 512)"},
    {0, "max_context_len", "N", U32, BUILDS | IN_PLAN, AT(max_context_len), 2, 1 << 20,
     "positions of the KV cache (default max_seq_len)"},
    {0, "prefill_ar_len", "N", U32, BUILDS | IN_PLAN, AT(prefill_ar_len), 2, 1 << 16,
     "tokens a call of the prefill graph (default 32)"},
    {0, "attention", "FORM", TEXT, BUILDS | IN_PLAN, AT(attention), 0, 0,
     "auto (default), grouped, per_kv_head or per_head: how attention is cut"},
    {0, "tune", NULL, FLAG, BUILDS, AT(tune), 0, 0,
     "try optimization levels and forms of attention with Qualcomm's compiler and take those of least DDR "
     "traffic; takes a compile each, and what was tried is found again (see traffic)"},
    {0, "logits", "FORM", TEXT, BUILDS | IN_PLAN, AT(logits), 0, 0,
     "all (default), or topk:N: what the graphs hand out; with topk:N, tokens are drawn from the N likeliest "
     "at most"},
    {0, "calib_text", "FILE", TEXT, BUILDS | IN_EVAL | IN_TRAFFIC, AT(calib_text), 0, 0,
     "calibration text (default: a built-in one); form feeds part documents"},
    {0, "calib_samples", "N", U32, BUILDS | IN_EVAL | IN_TRAFFIC, AT(calib_samples), 1, 1 << 16,
     "use N documents of the calibration text (default: all)"},
    {0, "use_slc_allocator", "GRAPHS", OPTIONAL_TEXT, BUILDS, AT(slc), 0, 0,
     "graphs that use the SoC's system-level cache allocator: all (the default of the bare option), none, "
     "auto (as the SLC advisor says), or a list of prefill_forward, kv_forward"},
    {0, "vtcm_mb", "N", U32, BUILDS | IN_PLAN, AT(vtcm_mb), 1, 64,
     "VTCM a graph may use (default: the SoC's)"},
    {0, "num_sharding", "N", U32, BUILDS | IN_PLAN, AT(num_sharding), 1, SW_MAX_SHARDS,
     "cut the model into N runs of layers, each a context of its own (default: as few as a device can load)"},
    {0, "max_weight_buffer_mb", "N", U32, BUILDS | IN_PLAN, AT(max_weight_buffer_mb), 1, 4294,
     "most MB of weights of one context, which a device maps as one buffer: more shards are made for it "
     "(default: "
     "no bound but the HTP's)"},
    {0, "opt_level", "N", U32, BUILDS | IN_PLAN, AT(opt_level), 1, 3,
     "Qualcomm's optimization level (default 3, unless tuned)"},
    {0, "artifact", "FOLDER", TEXT, BUILDS, AT(artifact), 0, 0,
     "where the bundle goes (default spillway_out)"},
    {0, "compile_only", NULL, FLAG, IN_LLAMA, AT(compile_only), 0, 0, "stop when the bundle is written"},
    {0, "pre_gen_bundle", "FOLDER", TEXT, IN_LLAMA, AT(pre_gen_bundle), 0, 0,
     "run this bundle, compile nothing"},
    {0, "prompt", "TEXT...", TEXTS, RUNS | IN_COMPARE, AT(prompts), 0, 0,
     "what the user says; several values are the turns of one chat (compare takes one)"},
    {0, "prompt_file", "FILE", FILES, RUNS, AT(prompts), 0, 0,
     "as --prompt, the file's bytes as they are; again and again for more turns"},
    {0, "system_prompt_file", "FILE", TEXT, RUNS, AT(system_prompt_file), 0, 0,
     "as --system_prompt, the file's bytes as they are"},
    {0, "report", "FILE", TEXT, BUILDS | IN_INSPECT, AT(report), 0, 0,
     "write the bundle's memory plan, traffic, weights and encodings as a page for a browser (HTML)"},
    {0, "trace", "FILE", TEXT, RUNS, AT(trace), 0, 0,
     "on the CPU device: write when each op ran on which thread, for ui.perfetto.dev (Chrome trace JSON)"},
    {0, "stats", "FILE", TEXT, RUNS, AT(stats), 0, 0, "write times and counts of each turn as JSON"},
    {0, "system_prompt", "TEXT", TEXT, RUNS | IN_COMPARE, AT(system_prompt), 0, 0,
     "system message (default: the model's own)"},
    {0, "raw", NULL, FLAG, RUNS | IN_COMPARE, AT(raw), 0, 0,
     "feed prompts as they are, without a chat template"},
    {0, "temperature", "T", NUMBER, RUNS, AT(temperature), 0, 1000,
     "0: always the likeliest token (default 0.8)"},
    {0, "top_p", "P", NUMBER, RUNS, AT(top_p), 0, 1,
     "sample from the likeliest tokens that reach P together (default 1)"},
    {0, "top_k", "K", U64, RUNS, AT(top_k), 0, 1 << 30,
     "sample from the K likeliest tokens (default 0: all)"},
    {0, "seed", "N", U64, RUNS, AT(seed), 0, 0x1p64, "of the sampler (default 0)"},
    {0, "run_on", "DEVICE", TEXT, RUNS | IN_LOGITS | IN_VERIFY, AT(run_on), 0, 0,
     "cpu (default), htp-emulator, htp (here, from the bundle's context binaries), adb (a phone's HTP; so "
     "with -s) or adb-cpu (a phone's CPU)"},
    {0, "perf", "MODE", TEXT, RUNS | IN_LOGITS | IN_VERIFY, AT(perf), 0, 0,
     "clocks of the HTP: burst (default), balanced or low_power; back to the default at the end"},
    {0, "force_slc", "OFF", TEXT, RUNS | IN_LOGITS, AT(force_slc), 0, 0,
     "off: the HTP runs graphs without the SLC allocator that they were compiled with, to compare"},
    {0, "profile", NULL, FLAG, RUNS | IN_LOGITS, AT(profile), 0, 0,
     "measure each run of the HTP: accelerator and RPC times, costliest ops"},
    {0, "threads", "N", U32, BUILDS | RUNS | IN_COMPARE | IN_LOGITS | IN_EVAL | IN_TRAFFIC | IN_VERIFY,
     AT(threads), 1, 64, "threads (default: all processors)"},
    {'b', "build_folder", "FOLDER", TEXT, RUNS, AT(build_folder), 0, 0,
     "folder of the runner for the phone or board, a `spillway` for 64-bit ARM (default: build/aarch64 where "
     "it is)"},
    {'H', "host", "HOST", TEXT, RUNS, AT(host), 0, 0, "host of the adb server"},
    {'s', "device", "SERIAL", TEXT, RUNS, AT(serial), 0, 0, "serial of the phone or board: runs there"},
    {0, "adb", "PROGRAM", TEXT, RUNS, AT(adb), 0, 0, "the adb program (default: $ADB, else adb in PATH)"},
    {0, "device_dir", "FOLDER", TEXT, RUNS, AT(device_dir), 0, 0,
     "folder on the device (default: /data/local/tmp/spillway on Android, /var/tmp/spillway on Linux)"},
    {0, "clean_device", NULL, FLAG, RUNS, AT(clean_device), 0, 0, "remove that folder after the run"},
    {0, "run", NULL, FLAG, IN_VERIFY, AT(run), 0, 0,
     "let the graphs answer two prompts on the device of --run_on: do they look at their input?"},
    {0, "tokens", "N", U32, IN_COMPARE, AT(tokens), 1, 4096, "steps after the prompt (default 8)"},
    {0, "least_sqnr", "DB", NUMBER, IN_COMPARE, AT(least_sqnr), 0, 999,
     "fail where the logits' SQNR is below this (default 0: never)"},
    {0, "ops", "ON", TEXT, IN_COMPARE, AT(ops), 0, 0,
     "on (default) or off: single ops of three layers too, which takes a minute or more"},
    {0, "chat", NULL, FLAG, IN_TOKENIZE, AT(chat), 0, 0, "put the text into the model's chat template first"},
    {0, "ids", "LIST", TEXT, IN_LOGITS, AT(ids), 0, 0, "token ids, with commas"},
    {0, "out", "FILE", TEXT, IN_LOGITS, AT(out), 0, 0, "the last position's logits, little-endian float32"},
    {0, "json", NULL, FLAG, IN_INSPECT | IN_COMPARE | IN_EVAL | IN_TRAFFIC | IN_PLAN | IN_ADVISE, AT(json), 0,
     0, "print JSON"},
    {0, "tensors", NULL, FLAG, IN_INSPECT, AT(tensors), 0, 0,
     "list the inputs and outputs of each graph; with --json every tensor"},
    {0, "dot", "GRAPH", TEXT, IN_INSPECT, AT(dot), 0, 0, "print a bundle's graph for Graphviz"},
    {0, "quant", "LIST", TEXT, IN_EVAL, AT(recipes), 0, 0,
     "what to measure: f32 and recipes, with commas (default f32,16a8w); with f32 the others are compared "
     "with it"},
    {0, "text", "FILE", TEXT, IN_EVAL, AT(text), 0, 0,
     "perplexity on this text, in windows that don't overlap, the second half of each scored"},
    {0, "context", "N", U32, IN_EVAL, AT(context), 4, 1 << 16,
     "tokens of a window (default 512, or the model's positions where it has fewer)"},
    {0, "chunks", "N", U32, IN_EVAL, AT(chunks), 1, 1 << 20, "only the first N windows"},
    {0, "tasks", "FILE", TEXT, IN_EVAL, AT(tasks), 0, 0,
     "multiple-choice questions, a line each: {\"context\": TEXT, \"choices\": [TEXT, ...], \"answer\": "
     "INDEX}"},
    {0, "sqnr", NULL, FLAG, IN_EVAL, AT(sqnr), 0, 0,
     "SQNR of each tensor against f32, the worst first, on the start of the text"},
    {0, "plot", "FILE", TEXT, IN_EVAL, AT(plot), 0, 0, "draw these over the layers as SVG (needs gnuplot)"},
    {0, "resume", "FILE", TEXT, IN_EVAL, AT(resume), 0, 0,
     "keep each result in this file, and take from it what an earlier run has measured"},
    {'m', "soc_model", "LIST", TEXT, IN_TRAFFIC, AT(grid.socs), 0, 0, "SoCs (default SM8750)"},
    {0, "quant", "LIST", TEXT, IN_TRAFFIC, AT(grid.recipes), 0, 0, "recipes (default 16a8w)"},
    {0, "attention", "LIST", TEXT, IN_TRAFFIC, AT(grid.attention), 0, 0,
     "forms of attention: auto (default), grouped, per_kv_head, per_head"},
    {0, "logits", "LIST", TEXT, IN_TRAFFIC, AT(grid.logits), 0, 0,
     "what the graphs hand out: all (default), topk:N"},
    {0, "layers", "LIST", TEXT, IN_TRAFFIC, AT(grid.layers), 0, 0,
     "only the model's first N layers, to compare graphs (default: all)"},
    {0, "slc", "LIST", TEXT, IN_TRAFFIC, AT(grid.slc), 0, 0, "SLC allocator: off (default), on"},
    {0, "vtcm_mb", "LIST", TEXT, IN_TRAFFIC, AT(grid.vtcm_mb), 0, 0,
     "VTCM a graph may use (default: the SoC's)"},
    {0, "opt_level", "LIST", TEXT, IN_TRAFFIC, AT(grid.opt_level), 0, 0,
     "Qualcomm's optimization levels (default 3)"},
    {0, "prefill_ar_len", "LIST", TEXT, IN_TRAFFIC, AT(grid.prefill_ar_len), 0, 0,
     "tokens a call of the prefill graph (default 32)"},
    {0, "max_seq_len", "LIST", TEXT, IN_TRAFFIC, AT(grid.max_seq_len), 0, 0, "context lengths (default 512)"},
    {0, "cache", "FOLDER", TEXT, BUILDS | IN_TRAFFIC, AT(grid.cache), 0, 0,
     "where results are kept and found again: a compile's ranges, quantized weights and context binaries, "
     "the "
     "figures of traffic and tuning (default of these two: $XDG_CACHE_HOME/spillway or ~/.cache/spillway; "
     "without it a compile keeps none)"},
    {0, "only", "GRAPH", TEXT, IN_TRAFFIC, AT(grid.only), 0, 0,
     "measure this graph of a grid of one point, in this process, and print nothing"},
    {0, "jobs", "FILE", TEXT, IN_TRAFFIC, AT(grid.jobs), 0, 0,
     "measure nothing: write a command a line, for GNU parallel"},
    {0, "slurm", "FILE", TEXT, IN_TRAFFIC, AT(grid.slurm), 0, 0,
     "measure nothing: write an array script for Slurm's sbatch"},
    {0, "merge", "FOLDER...", FOLDERS, IN_TRAFFIC, AT(grid.merge), 0, 0,
     "measure nothing: take over the results of these caches, and print what the grid has"},
    {0, "tsv", NULL, FLAG, IN_TRAFFIC, AT(grid.tsv), 0, 0, "print tab-separated values"},
    {0, "dram_gbps", "G", NUMBER, IN_PLAN | IN_ADVISE, AT(dram_gbps), 1, 10000,
     "the DRAM's peak bandwidth in 10^9 bytes a second (default: the SoC's, where it is public)"},
    {0, "qnn_lib", "PATH", TEXT, LOADS_QNN, AT(qnn_lib), 0, 0,
     "Qualcomm's libQnnHtp.so or its folder (default: $QNN_SDK_ROOT, else what setup fetched)"},
    {0, "log_level", "LEVEL", TEXT, ALL, AT(log_level), 0, 0,
     "error, warn, info (default), verbose or debug; Qualcomm's too"},
    {'v', "verbose", NULL, FLAG, ALL, AT(verbose), 0, 0, "the same as --log_level verbose"},
    {'h', "help", NULL, FLAG, ALL, AT(help), 0, 0, "this text"},
};

enum { N_OPTIONS = sizeof options_list / sizeof *options_list };

typedef struct command_info {
    const char *name, *operand, *help;
} command_info;

static const command_info commands[SW_CMD_COUNT] = {
#define SW_COMMAND_ROW(id, name, operand, help) [id] = {name, operand, help},
    SW_COMMANDS(SW_COMMAND_ROW)
#undef SW_COMMAND_ROW
};

/* Words that an option takes; checked here so that a wrong one ends before any work. */
static const struct choice {
    size_t offset;
    const char *words[6];
} choices[] = {
    {AT(rotate), {"on", "off"}},
    {AT(rounding), {"nearest", "gptq"}},
    {AT(ops), {"on", "off"}},
    {AT(model_mode), {"hybrid", "kv", "lookahead"}},
    {AT(attention), {"auto", "grouped", "per_kv_head", "per_head"}},
    {AT(run_on), {"cpu", "htp-emulator", "htp", "adb", "adb-cpu"}},
    {AT(perf), {"burst", "balanced", "low_power"}},
    {AT(force_slc), {"off"}},
    {AT(log_level), {"error", "warn", "info", "verbose", "debug"}},
};

static sw_code check_word(const option *o, const char *value, sw_error *err) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (choices[i].offset != o->offset) continue;
        char list[128] = "";
        for (const char *const *word = choices[i].words; *word != NULL; word++) {
            if (strcmp(*word, value) == 0) return SW_OK;
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", *word);
        }
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: `%s`, wanted one of: %s", o->name, value, list);
    }
    return SW_OK;
}

static sw_code set_number(const option *o, const char *value, void *field, sw_error *err) {
    char *end;
    errno = 0;
    bool whole = o->type != NUMBER, ok;
    double number;
    unsigned long long integer = 0;
    if (whole) {
        integer = strtoull(value, &end, 10);
        number = (double)integer;
        ok = value[0] >= '0' && value[0] <= '9'; /* strtoull takes "-1" */
    } else {
        number = strtod(value, &end);
        ok = true;
    }
    ok = ok && end != value && *end == '\0' && (errno == 0 || (!whole && fabs(number) < 1)) &&
         number >= o->least && number <= o->most;
    if (!ok && o->type == U64 && o->most >= 0x1p64) /* a double can't hold 2^64 - 1 */
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: `%s`, wanted a whole number from 0 to %llu", o->name,
                       value, (unsigned long long)UINT64_MAX);
    if (!ok)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: `%s`, wanted a%s number from %.20g to %.20g", o->name,
                       value, whole ? " whole" : "", o->least, o->most);
    if (o->type == U32)
        *(uint32_t *)field = (uint32_t)integer;
    else if (o->type == U64)
        *(uint64_t *)field = integer;
    else
        *(float *)field = (float)number;
    return SW_OK;
}

static sw_code set_value(sw_options *options, const option *o, const char *value, sw_error *err) {
    void *field = (char *)options + o->offset;
    if ((o->type == FILES || o->type == FOLDERS) && value[0] == '\0')
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: empty, wanted %s", o->name, o->value);
    switch (o->type) {
    case FLAG:
        *(bool *)field = true;
        return SW_OK;
    case TEXT:
        if (value[0] == '\0')
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: empty, wanted %s", o->name, o->value);
        *(const char **)field = value;
        return check_word(o, value, err);
    case OPTIONAL_TEXT:
        *(const char **)field = value;
        options->slc_given = true;
        return SW_OK;
    case TEXTS:
    case FILES:
        if (options->n_prompts == SW_MAX_PROMPTS)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: more than %d values", o->name, SW_MAX_PROMPTS);
        options->prompt_is_file[options->n_prompts] = o->type == FILES;
        options->prompts[options->n_prompts++] = value;
        return SW_OK;
    case FOLDERS:
        if (options->grid.n_merge == SW_MAX_MERGED)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: more than %d values", o->name, SW_MAX_MERGED);
        options->grid.merge[options->grid.n_merge++] = value;
        return SW_OK;
    default:
        return set_number(o, value, field, err);
    }
}

/* The option of one of these commands that argument names, and where its value begins behind '=' or the
 * letter, or NULL. */
static const option *find_option(const char *argument, int of_commands, const char **attached) {
    *attached = NULL;
    for (const option *o = options_list; o < options_list + N_OPTIONS; o++) {
        if ((o->commands & of_commands) == 0) continue;
        size_t n = strlen(o->name);
        if (strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, o->name, n) == 0 &&
            (argument[2 + n] == '\0' || argument[2 + n] == '=')) {
            if (argument[2 + n] == '=') *attached = argument + 3 + n;
            return o;
        }
        if (o->letter != 0 && argument[0] == '-' && argument[1] == o->letter) {
            if (argument[2] != '\0') *attached = argument + 2;
            return o;
        }
    }
    return NULL;
}

static sw_code find_command(sw_options *options, const char *name, sw_error *err) {
    for (unsigned i = 0; i < SW_CMD_COUNT; i++) {
        if (strcmp(commands[i].name, name) != 0) continue;
        options->command = (sw_command_id)i;
        return SW_OK;
    }
    char list[256] = "";
    for (unsigned i = 0; i < SW_CMD_COUNT; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", commands[i].name);
    }
    return SW_FAIL(err, SW_INVALID_ARGUMENT, "`%s` is no command, wanted one of: %s", name, list);
}

sw_code sw_options_parse(sw_options *options, int argc, char **argv, sw_error *err) {
    *options = (sw_options){.command = SW_CMD_COUNT,
                            .quant = "16a8w",
                            .model_mode = "hybrid",
                            .attention = "auto",
                            .logits = "all",
                            .artifact = "spillway_out",
                            .perf = "burst",
                            .max_seq_len = 512,
                            .prefill_ar_len = 32,
                            .temperature = 0.8f,
                            .top_p = 1.0f,
                            .tokens = 8,
                            .recipes = "f32,16a8w",
                            .grid = {.socs = "SM8750",
                                     .recipes = "16a8w",
                                     .attention = "auto",
                                     .logits = "all",
                                     .slc = "off",
                                     .opt_level = "3",
                                     .prefill_ar_len = "32",
                                     .max_seq_len = "512"}};
    if (argc < 2) return SW_FAIL(err, SW_INVALID_ARGUMENT, "no command given; `spillway --help` lists them");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        options->help = true;
        return SW_OK;
    }
    SW_TRY(find_command(options, argv[1], err));
    const command_info *command = &commands[options->command];
    for (int i = 2; i < argc; i++) {
        const char *value;
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            if (command->operand[0] == '\0' || options->operand != NULL)
                return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: unexpected `%s`", command->name, argv[i]);
            options->operand = argv[i];
            continue;
        }
        const option *o = find_option(argv[i], 1 << options->command, &value);
        if (o == NULL)
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "%s: unknown option `%s`; `spillway %s --help` lists them", command->name, argv[i],
                           command->name);
        if (o->type == FLAG && value != NULL)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s takes no value", o->name);
        bool attached = value != NULL;
        if (o->type == OPTIONAL_TEXT && attached && value[0] == '\0') /* an unset variable means nothing */
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s=: empty, wanted %s or the bare option", o->name,
                           o->value);
        if (o->type == OPTIONAL_TEXT && !attached)
            value = "";
        else if (o->type != FLAG && !attached) {
            const char *ignored;
            if (i + 1 == argc)
                return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: wants a value: %s", o->name, o->value);
            if (strncmp(argv[i + 1], "--", 2) == 0 && find_option(argv[i + 1], ALL, &ignored) != NULL)
                return SW_FAIL(err, SW_INVALID_ARGUMENT,
                               "--%s: wants a value: %s, but `%s` follows; if that is meant, say --%s=%s",
                               o->name, o->value, argv[i + 1], o->name, argv[i + 1]);
            value = argv[++i];
        }
        SW_TRY(set_value(options, o, value, err));
        /* More of them may follow without the option's name. */
        while ((o->type == TEXTS || o->type == FOLDERS) && !attached && i + 1 < argc && argv[i + 1][0] != '-')
            SW_TRY(set_value(options, o, argv[++i], err));
    }
    options->run_on_given = options->run_on != NULL;
    if (!options->run_on_given) options->run_on = "cpu";
    if (options->raw && (options->system_prompt != NULL || options->system_prompt_file != NULL))
        return SW_FAIL(
            err, SW_INVALID_ARGUMENT,
            "--raw feeds prompts as they are, a system message needs the chat template: wanted one of them");
    if (options->verbose && options->log_level != NULL && strcmp(options->log_level, "verbose") != 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--verbose and --log_level %s: wanted one of them",
                       options->log_level);
    if (options->json && options->dot != NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--json and --dot: wanted one of them");
    if (options->top_p <= 0) /* the list's ranges have both ends in them; here also what a float makes 0 */
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--top_p: is 0, wanted a number above 0 and up to 1");
    if (!options->help && command->operand[0] != '\0' && options->operand == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: wants %s", command->name, command->operand);
    return SW_OK;
}

sw_code sw_options_check_name(const char *name_of_option, const char *name, sw_error *err) {
    size_t n = strlen(name), bad = n;
    for (size_t i = 0; i < bad; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) bad = i;
    if (bad == n && sw_utf8_valid(name, n, &bad)) return SW_OK;
    return SW_FAIL(
        err, SW_INVALID_ARGUMENT,
        "--%s: `%s`: byte %zu is a control character or not UTF-8: wanted a name that can be printed",
        name_of_option, name, bad);
}

/* Text in lines of at most 100 columns behind an indent. */
static void print_wrapped(const char *text, int indent) {
    int column = indent;
    while (*text != '\0') {
        int n = (int)strcspn(text, " ");
        bool first = column == indent;
        if (!first && column + n + 1 > 100) {
            printf("\n%*s", indent, "");
            column = indent, first = true;
        }
        printf("%s%.*s", first ? "" : " ", n, text);
        column += n + !first;
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

void sw_options_help(sw_command_id command) {
    if (command == SW_CMD_COUNT) {
        printf("Spillway compiles decoder LLMs for Qualcomm's Hexagon NPU and runs them.\n\n"
               "usage: spillway COMMAND [options]\n\n");
        for (unsigned i = 0; i < SW_CMD_COUNT; i++) printf("  %-9s %s\n", commands[i].name, commands[i].help);
        printf("\n`spillway COMMAND --help` lists a command's options.\n");
        return;
    }
    const command_info *info = &commands[command];
    printf("usage: spillway %s%s%s [options]\n\n%s\n\n", info->name, info->operand[0] != '\0' ? " " : "",
           info->operand, info->help);
    for (const option *o = options_list; o < options_list + N_OPTIONS; o++) {
        if ((o->commands & 1 << command) == 0) continue;
        char left[64];
        const char *before = o->type == OPTIONAL_TEXT ? "[=" : " ",
                   *after = o->type == OPTIONAL_TEXT ? "]" : "";
        int n = o->letter != 0 ? snprintf(left, sizeof left, "-%c, --%s", o->letter, o->name)
                               : snprintf(left, sizeof left, "    --%s", o->name);
        if (o->value != NULL) snprintf(left + n, sizeof left - (size_t)n, "%s%s%s", before, o->value, after);
        printf("  %-34s ", left);
        print_wrapped(o->help, 37);
    }
}
