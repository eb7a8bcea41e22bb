/* program.h: a graph that the CPU device has loaded, and how it gets there. Internal to src/cpu.
 *
 *   arena   [steps][per-tensor arrays][what kernels prepared][buffer: native tensors by lifetime][scratch]
 *
 * Inputs, outputs and constants stay where the caller has them, but for the weights of integer products,
 * which are packed into the device's store (cpu/shared.h). */
#ifndef SW_CPU_PROGRAM_H
#define SW_CPU_PROGRAM_H

#include <stdatomic.h>

#include "cpu/kernels.h"
#include "device/device.h"

typedef struct sw_step {
    const sw_kernel *kernel;
    sw_op_call call;   /* pointers are set at each execute */
    uint32_t index;    /* of the op in the graph */
    bool hands_on;     /* its output is its input, in place */
    uint32_t together; /* FullyConnecteds of one input: so many steps of `run`, from this one, are one call */
    const char *label; /* of such a call in a trace: the kernel, and whose products it makes too */
    bool for_observers; /* not run without one, and prepared when the first comes */
} sw_step;

/* What is needed of a step to run it. A decoded token's weights push all else out of the caches, so this is
 * small and lies in its order. */
typedef struct sw_bound {
    void (*run)(const sw_op_call *call);
    uint32_t together; /* so many calls at once; 0: nothing is run */
    bool gathers;
} sw_bound;

struct sw_program {
    sw_arena arena;
    const sw_graph *graph; /* borrowed */
    sw_pool *pool;         /* borrowed */
    sw_shared shared;      /* weights and tables that other graphs of the device may have too */
    sw_step *steps;        /* [n_ops] one an op: what an observer sees */
    bool observable;       /* sw_program_prepare_observed was there */
    sw_step **run;         /* [n_run] what is run without one: cpu/fuse.h */
    uint32_t n_run;
    sw_bound *bound; /* [n_run] how: what the steps come to with the bindings and n_tokens of the last call */
    sw_op_call *calls; /* [n_run] of those, in the order of the run */
    bool is_bound;
    uint32_t n_tokens; /* rows a token that are asked for: all where others could be seen from these */
    bool can_limit;    /* what rows behind a row hold can't reach it, or blocked_counts tells */
    atomic_bool blocked_counts; /* cpu/attention.h */
    void *scratch;              /* as large as the hungriest kernel's need, aligned to 64 */

    /* [n_tensors] */
    uint32_t *last_use;  /* the step after which a native tensor is dead */
    void **storage;      /* where an op writes the tensor: native and output */
    const void **values; /* what can be read now; NULL before and after its life */
};

/* The first kernel that takes the call, or NULL with a sentence on the op, its tensors and what there is. */
const sw_kernel *sw_kernel_find(const sw_op_call *call, sw_error *err);

/* in[], out and op of the graph's op; a part of a constant becomes a constant of its own, in the arena.
 * Checks what reading them relies on: indices, counts, ranks, sizes. Errors: SW_INVALID_ARGUMENT,
 * SW_NO_MEMORY. */
sw_code sw_op_call_init(sw_op_call *call, const sw_graph *graph, const sw_op *op, sw_arena *arena,
                        sw_error *err) SW_MUST_CHECK;

/* Prepares the steps that only an observer's run has. Errors: SW_NO_MEMORY, the kernels'. */
sw_code sw_program_prepare_observed(sw_program *program, sw_error *err) SW_MUST_CHECK;

/* pool and store are borrowed. Errors: SW_INVALID_ARGUMENT (a graph that can't be executed in its order),
 * SW_UNSUPPORTED, SW_NO_MEMORY. */
sw_code sw_program_load(sw_program **out, const sw_graph *graph, sw_pool *pool, sw_shared_store *store,
                        sw_error *err) SW_MUST_CHECK;
void sw_program_unload(sw_program *program); /* NULL is allowed */

#endif
