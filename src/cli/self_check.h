/* self_check.h: do a decoder's graphs look at their input at all? For faults that no comparison of types or
 * checksums shows: graphs that answer every prompt alike. */
#ifndef SW_CLI_SELF_CHECK_H
#define SW_CLI_SELF_CHECK_H

#include "device/device.h"
#include "graph/decoder.h"

/* Are these logits [vocab] finite numbers that differ from each other? candidates: as many are, and the
 * others -inf; 0: all. A few candidates may have one value. SW_BAD_DATA with the token, or the value that all
 * have; `behind` says of what, for the sentence: "behind 32 tokens". */
sw_code sw_check_logits(const float *logits, size_t vocab, uint32_t candidates, const char *behind,
                        sw_error *err) SW_MUST_CHECK;

/* Feeds two runs of tokens that differ everywhere, through the graph of the largest AR length, then one token
 * more, the same for both. All logits must be as above; the runs' must differ, and those behind the common
 * token too, since the KV cache before it does. Errors: SW_BAD_DATA; the device's; SW_NO_MEMORY. */
sw_code sw_self_check(const sw_decoder *decoder, sw_device *device, sw_error *err) SW_MUST_CHECK;

#endif
