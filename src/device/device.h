/* device.h: what executes a graph. A device is a small table of functions; it is asked whether it can do an
 * op before it is given one. Devices: src/cpu (reference, float and quantized), src/qnn (Qualcomm's HTP). */
#ifndef SW_DEVICE_DEVICE_H
#define SW_DEVICE_DEVICE_H

#include "graph/ir.h"

/* Where an input is read from or an output is written to: dense row-major values of the tensor's type. */
typedef struct sw_binding {
    void *data;
} sw_binding;

/* Called after each op in order, where a device can (the CPU device). values[t] is tensor t's dense data
 * while it is alive, of its type; constants that are only views have NULL. Borrowed for the call. */
typedef void sw_observer(void *context, const sw_graph *graph, const sw_op *op, const void *const *values);

typedef struct sw_device sw_device;
typedef struct sw_program sw_program; /* a loaded graph; each device's own */

typedef struct sw_device_ops {
    const char *name; /* "cpu", "htp-emulator" */

    /* SW_OK, or SW_UNSUPPORTED with the op, its types and what would be possible. */
    sw_code (*supports)(sw_device *device, const sw_graph *graph, const sw_op *op, sw_error *err);

    /* Makes a graph ready to run. The graph and its constants' data are borrowed until unload. */
    sw_code (*load)(sw_device *device, const sw_graph *graph, sw_program **out, sw_error *err);

    /* inputs[graph->n_inputs], outputs[graph->n_outputs], in the graph's order. One call at a time a program.
     * observer may be NULL; a device that can't observe refuses it with SW_UNSUPPORTED. */
    sw_code (*execute)(sw_program *program, const sw_binding *inputs, const sw_binding *outputs,
                       sw_observer *observer, void *observer_context, sw_error *err);

    /* Optional. Of the graph's rows a token, calls from now on need the first n_tokens (1 to ar_len) only:
     * what outputs hold for the others is undefined, what they hold for these is as ever. Inputs have all
     * rows. An observed call computes all. */
    void (*limit_tokens)(sw_program *program, uint32_t n_tokens);

    void (*unload)(sw_program *program);
    void (*destroy)(sw_device *device);

    /* Optional, both or neither: zeroed memory, aligned to SW_BUFFER_ALIGNMENT, that programs of this device
     * read and write without a copy; NULL where the device has none (then any memory will do). Released
     * before the device is destroyed, after the programs that are bound to it. */
    void *(*allocate)(sw_device *device, size_t size);
    void (*release)(sw_device *device, void *data, size_t size);
} sw_device_ops;

enum { SW_BUFFER_ALIGNMENT = 128 }; /* of each buffer: an HVX vector */

/* Every device's struct starts with this. */
struct sw_device {
    const sw_device_ops *ops;
};

#endif
