/* session.h: a decoder on a device, with its KV cache: token ids in, logits out.
 *
 * One cache for each K and V, [layer][K, V][kv_head][rows][head_dim], in the graphs' KV type. A graph of AR
 * length n reads it in place, as a dense tensor of C - n rows a head, C = context length; after a call the
 * rows of its new entries that are not padding are written behind the filled ones. So all graphs read what
 * any of them wrote. Where the device has memory of its own, all buffers are in it. A decoder with a sink has
 * its first positions filled from the start: prompts that begin with the sink's tokens don't repeat them,
 * others go behind them.
 *
 * Shards run one after another; what one hands out is what the next gets, in one buffer.
 *
 * A session belongs to one thread at a time. */
#ifndef SW_RUNTIME_SESSION_H
#define SW_RUNTIME_SESSION_H

#include "device/device.h"
#include "graph/decoder.h"

typedef struct sw_session sw_session;

/* Loads every graph of the decoder on the device; both are borrowed. Errors: the device's, SW_NO_MEMORY. */
sw_code sw_session_create(sw_session **out, const sw_decoder *decoder, sw_device *device,
                          sw_error *err) SW_MUST_CHECK;
void sw_session_destroy(sw_session *session); /* NULL is allowed */

uint32_t sw_session_filled(const sw_session *session); /* positions in the KV cache, the sink's included */
void sw_session_reset(sw_session *session);            /* empties the KV cache, but for the decoder's sink */
bool sw_session_is_fresh(const sw_session *session);   /* nothing fed since then */

/* How many of the first ids a fresh session holds already, since they are the sink's; never the last one, as
 * its logits are wanted. 0 where something was fed before. */
size_t sw_session_known(const sw_session *session, const int32_t *ids, size_t n_ids);

/* Appends ids to the context and computes the logits [vocab] behind the last one; those that a head with
 * candidates doesn't hand out are -inf. A run of tokens goes
 * through the graph of the largest AR length that still fits, its last chunk padded on the right; single
 * tokens and what is left near the context's end through the smallest. Ids that the session knows
 * (sw_session_known) aren't fed again. label NULL: no progress bar. Errors:
 * SW_INVALID_ARGUMENT (no ids, an id out of range, more than the context has room for: nothing is fed); the
 * device's, then the session holds the chunks before. */
sw_code sw_session_feed(sw_session *session, const int32_t *ids, size_t n_ids, float *logits,
                        const char *label, sw_error *err) SW_MUST_CHECK;

/* As feed, with the logits of every one of the ids: [n_ids, vocab]; all are fed, behind the sink. Every graph
 * used must have head ALL; n_ids is at most the largest AR length. */
sw_code sw_session_feed_all(sw_session *session, const int32_t *ids, size_t n_ids, float *logits,
                            sw_error *err) SW_MUST_CHECK;

/* For comparing devices: called by the device after each op of each call, see device.h. NULL ends it. */
void sw_session_observe(sw_session *session, sw_observer *observer, void *context);

#endif
