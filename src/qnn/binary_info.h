/* binary_info.h: what a QNN context binary says of itself, read with Qualcomm's system library. */
#ifndef SW_QNN_BINARY_INFO_H
#define SW_QNN_BINARY_INFO_H

#include "base/arena.h"
#include "graph/ir.h"
#include "qnn/load.h"

typedef struct sw_binary_tensor {
    const char *name;
    uint32_t id; /* what a call knows it by */
    uint32_t rank, dims[QNN_MAX_RANK];
    uint32_t qnn_type;    /* Qnn_DataType_t */
    bool known;           /* dtype is its counterpart in the IR */
    sw_dtype dtype;       /* only where known */
    bool has_encoding;    /* of one scale and offset; of others only the form: */
    sw_encoding encoding; /* only where has_encoding */
    bool other_encoding;
    uint32_t encoding_form; /* Qnn_QuantizationEncoding_t, only where other_encoding */
} sw_binary_tensor;

/* QNN's own names without their prefix: "UFIXED_POINT_16", "AXIS_SCALE_OFFSET"; "unknown" for a number that
 * this build doesn't know. Static. */
const char *sw_qnn_type_name(uint32_t qnn_type);
const char *sw_qnn_encoding_name(uint32_t encoding_form);

typedef struct sw_binary_graph {
    const char *name;
    sw_binary_tensor *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    /* From the HTP's blob; zero where the binary has none. Sizes in bytes. */
    bool has_blob, has_sizes; /* its record of version 1; of version 2: the last five below */
    uint32_t unknown_blob;    /* version of a record that this build doesn't know, which ends the reading */
    uint64_t spill_fill_bytes, vtcm_bytes;
    uint32_t opt_level; /* as it was set; 0: not set */
    uint64_t n_hvx_threads;
    uint64_t io_bytes, op_data_bytes, const_bytes, ddr_tensor_bytes;
    uint64_t shared_weights_bytes; /* the whole block that the graphs share, told by each: don't add up */
} sw_binary_graph;

typedef struct sw_binary_info {
    uint32_t version; /* of the struct that the system library gave */
    const char *build_id;
    Qnn_Version_t core_api, backend_api, blob_version;
    uint64_t blob_bytes;
    uint32_t soc_model, htp_arch; /* 0: the binary doesn't say (versions 1 and 2) */
    sw_binary_graph *graphs;
    uint32_t n_graphs;
} sw_binary_info;

/* All texts and arrays are in the arena. file is for messages. Check the binary's hash before: the library
 * doesn't. Errors: SW_BAD_DATA (not a context binary, or a count, name, rank or dimension that can't be; a
 * version of the structs that is unknown), SW_NO_MEMORY. */
sw_code sw_binary_info_read(const sw_qnn_library *library, const char *file, const void *data, uint64_t size,
                            sw_arena *arena, sw_binary_info *out, sw_error *err) SW_MUST_CHECK;

/* The same from the library's struct; for the above and for tests. */
sw_code sw_binary_info_parse(const char *file, const QnnSystemContext_BinaryInfo_t *info, sw_arena *arena,
                             sw_binary_info *out, sw_error *err) SW_MUST_CHECK;

/* Where the library comes from, when it is needed. */
typedef sw_code sw_binary_info_opener(void *context, const sw_qnn_library **out, sw_error *err);

/* As sw_binary_info_read in a process of its own, as Qualcomm's reader crashes on some damaged files: its
 * death becomes an error (SW_BAD_DATA). The library is opened there, so that none of it is in this process;
 * call it while this process has one thread. It gets a minute, and memory in proportion to the file.
 * Errors: also those of the opener, SW_IO. */
sw_code sw_binary_info_read_apart(sw_binary_info_opener *open, void *context, const char *file,
                                  const void *data, uint64_t size, sw_arena *arena, sw_binary_info *out,
                                  sw_error *err) SW_MUST_CHECK;

#endif
