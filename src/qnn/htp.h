/* htp.h: Qualcomm's HTP: its compiler, its emulator as a device, and the HTP itself. */
#ifndef SW_QNN_HTP_H
#define SW_QNN_HTP_H

#include "device/device.h"
#include "qnn/group.h"
#include "qnn/lower.h"
#include "qnn/perf.h"
#include "qnn/profile.h"
#include "qnn/shared_memory.h"

/* The x86-64 emulator as a device ("htp-emulator"). A load lowers and compiles the graph into a context of
 * its own, without weight sharing and with the SLC allocator off (options->slc_allocator is ignored): the
 * emulator has no cache to allocate. Seconds to minutes; constants' data is only needed until load returns.
 * Can't observe. The library is borrowed for the device's life. */
sw_code sw_htp_device_create(sw_device **out, const sw_qnn_library *library, const sw_soc *soc,
                             const sw_qnn_graph_options *options, sw_error *err) SW_MUST_CHECK;

typedef struct sw_htp_options {
    sw_htp_perf_mode perf;
    bool force_slc_off;
    bool profile;            /* measure every run: sw_htp_device_profiles */
    const sw_rpcmem *rpcmem; /* NULL: libcdsprpc's, where there is one */
} sw_htp_options;

/* The HTP as a device ("htp"): runs graphs that were compiled before, from binaries[n], one a shard in the
 * order of the layers, all of one group (qnn/group.h). binaries and library are borrowed for the device's
 * life. A load takes the graph of that shard and name, and compares its inputs and outputs with the IR's.
 * Should the DSP be restarted during a run, everything is made again as it was at first and the run repeated,
 * once. Can't observe. Errors: those of sw_qnn_open and sw_qnn_group_open. */
sw_code sw_htp_device_load(sw_device **out, const sw_qnn_library *library, const sw_soc *soc,
                           const sw_htp_binary *binaries, uint32_t n, const sw_htp_options *options,
                           sw_error *err) SW_MUST_CHECK;

/* What the device has measured so far, a graph a call. */
typedef void sw_htp_profile_sink(void *context, uint32_t shard, const char *graph, const sw_profile *profile);
void sw_htp_device_profiles(const sw_device *device, sw_htp_profile_sink *sink, void *context);

/* What the compiler was given and said of one graph. */
typedef struct sw_htp_graph_report {
    const char *name; /* the graph's own */
    sw_qnn_ddr ddr;
    int slc_allocate; /* the compiler's own word: 0, 1; -1 where it said nothing */
    bool slc_idle;    /* the SLC allocator is on, but the graph has no copies through DDR to place */
    double finalize_seconds;
} sw_htp_graph_report;

/* Called when a graph has been lowered: QNN has copies of its constants, which aren't read again before the
 * next graph is lowered. For giving pages back while the compiler needs the memory. */
typedef void sw_htp_lowered(void *context);

/* Compiled graphs in a context of the library's, for sw_qnn_context_binary. Not to be moved: the context
 * points to qnn. */
typedef struct sw_htp_compiled {
    sw_qnn qnn;
    sw_qnn_context context;
} sw_htp_compiled;

/* Compiles graphs[n]. options[n], reports[n]; lowered may be NULL. After an error nothing is left open.
 * Errors: SW_INVALID_ARGUMENT, SW_UNSUPPORTED (an op, weight sharing), SW_LIBRARY, SW_NO_MEMORY. */
sw_code sw_htp_compile_graphs(sw_htp_compiled *out, const sw_qnn_library *library, const sw_soc *soc,
                              const sw_graph *const *graphs, const sw_qnn_graph_options *options,
                              uint32_t n_graphs, bool weight_sharing, sw_htp_lowered *lowered,
                              void *lowered_context, sw_htp_graph_report *reports,
                              sw_error *err) SW_MUST_CHECK;

/* Takes a quarter of a second for a small model; a process that ends can leave it. No-op on a freed one. */
void sw_htp_compiled_free(sw_htp_compiled *compiled);

/* All of it: graphs[n] into one context binary. *binary is for free(). Errors: the same. */
sw_code sw_htp_compile(const sw_qnn_library *library, const sw_soc *soc, const sw_graph *const *graphs,
                       const sw_qnn_graph_options *options, uint32_t n_graphs, bool weight_sharing,
                       sw_htp_graph_report *reports, uint8_t **binary, uint64_t *size,
                       sw_error *err) SW_MUST_CHECK;

#endif
