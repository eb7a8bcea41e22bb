/* main.c: the program; all it does is in src/cli. */
#include "cli/cli.h"

int main(int argc, char **argv) {
    return sw_cli_main(argc, argv);
}
