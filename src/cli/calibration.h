/* calibration.h: the text that calibrates, read and cut: most of it to see ranges on, its end held out to
 * measure with. */
#ifndef SW_CLI_CALIBRATION_H
#define SW_CLI_CALIBRATION_H

#include "cli/checkpoint.h"
#include "quant/quant.h"

typedef struct sw_calibration {
    const char *name; /* the file, or "the built-in calibration text" */
    bool built_in;
    sw_ids text;        /* of all documents, one behind the other */
    size_t n_used;      /* the first so many ids calibrate */
    sw_window *windows; /* [n_windows] over them, none over two documents; in the checkpoint's arena */
    size_t n_windows;
    sw_window *beginnings; /* [n_beginnings] of the documents among these, the first window of each */
    size_t n_beginnings;
    sw_window held_out; /* the ids' end, at most a tenth */
} sw_calibration;

/* The text of --calib_text, or the built-in one. held_out_most: the longest run that can be measured.
 * Warns where it is too little or too uniform to trust. Free in every case.
 * Errors: those of reading; SW_BAD_DATA (not UTF-8, with the first wrong byte; no more than a few tokens; the
 * same few again and again; bytes that the vocabulary mostly has no token for). */
sw_code sw_calibration_read(sw_calibration *calibration, const sw_options *options, sw_checkpoint *checkpoint,
                            size_t held_out_most, sw_error *err) SW_MUST_CHECK;
void sw_calibration_free(sw_calibration *calibration);

#endif
