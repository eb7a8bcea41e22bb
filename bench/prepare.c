/* prepare.c: a bundle for the CPU device alone, without Qualcomm's compiler.
 *
 *     bench_prepare OPTIONS      those of `spillway compile` */
#include "base/log.h"
#include "cli/cli.h"

enum { MOST_WORDS = 64 };

int main(int argc, char **argv) {
    static char command[] = "compile";
    char *words[MOST_WORDS] = {argv[0], command};
    sw_error err = {SW_OK, ""};
    sw_options options;
    if (argc >= MOST_WORDS) return 2;
    for (int i = 1; i < argc; i++) words[i + 1] = argv[i];
    sw_code code = sw_options_parse(&options, argc + 1, words, &err);
    if (code == SW_OK && options.verbose) sw_log_set_level(SW_LOG_VERBOSE);
    if (code == SW_OK && sw_cli_prepare(&options, &err) == SW_OK) return 0;
    sw_log(SW_LOG_ERROR, "%s", err.message);
    return 1;
}
