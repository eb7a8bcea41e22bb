/* verify.c: hashes every part of a bundle, and checks the graphs. */
#include <stdio.h>

#include "cli/cli.h"
#include "graph/verify.h"

sw_code sw_cmd_verify(const sw_options *options, sw_error *err) {
    sw_bundle bundle;
    SW_TRY(sw_bundle_open(&bundle, options->operand, err));
    sw_code code = sw_bundle_verify(&bundle, err);
    if (code == SW_OK) code = sw_decoder_verify(&bundle.decoder, err);
    if (code == SW_OK) printf("%s: %u parts, all as written\n", options->operand, bundle.manifest.n_parts);
    sw_bundle_close(&bundle);
    return code;
}
