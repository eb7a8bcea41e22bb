/* htp.h: Qualcomm's HTP: its compiler, and its emulator as a device. */
#ifndef SW_QNN_HTP_H
#define SW_QNN_HTP_H

#include "device/device.h"
#include "qnn/lower.h"

/* The x86-64 emulator as a device ("htp-emulator"). A load lowers and compiles the graph into a context of
 * its own, without weight sharing and with the SLC allocator off (options->slc_allocator is ignored): the
 * emulator has no cache to allocate. Seconds to minutes; constants' data is only needed until load returns.
 * Can't observe. The library is borrowed for the device's life. */
sw_code sw_htp_device_create(sw_device **out, const sw_qnn_library *library, const sw_soc *soc,
                             const sw_qnn_graph_options *options, sw_error *err) SW_MUST_CHECK;

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

/* Compiles graphs[n] into one context binary. options[n], reports[n]. *binary is for free(). lowered may be
 * NULL. Errors: SW_INVALID_ARGUMENT, SW_UNSUPPORTED (an op, weight sharing), SW_LIBRARY, SW_NO_MEMORY. */
sw_code sw_htp_compile(const sw_qnn_library *library, const sw_soc *soc, const sw_graph *const *graphs,
                       const sw_qnn_graph_options *options, uint32_t n_graphs, bool weight_sharing,
                       sw_htp_lowered *lowered, void *lowered_context, sw_htp_graph_report *reports,
                       uint8_t **binary, uint64_t *size, sw_error *err) SW_MUST_CHECK;

#endif
