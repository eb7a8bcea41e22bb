/* binary_info.c: copies the system library's structs into ours.
 *
 *   binary info   version 1, 2: the same but for a pointer at the end; 3: other places, and the SoC
 *   graph info    version 1, 2, 3: each longer than the one before; the array's stride is always V3's
 *   graph blob    the HTP's: records of version 1 (40 bytes) and 2 (72 bytes), one behind the other
 *
 * The structs come from a library that parsed a file. So counts, pointers, names and ranks are looked at
 * before they are used; where a pointer leads can't be checked. */
#include "qnn/binary_info.h"

#include <string.h>

#include "base/bytes.h"
#include "qnn/clock.h"
#include "qnn/error.h"
#include "qnn/log.h"

/* More than any model needs, less than what could exhaust memory. */
enum { MAX_GRAPHS = 1024, MAX_TENSORS = 65536, MAX_NAME_BYTES = 4096, VTCM_LARGEST_MB = 1024 };

typedef struct reader {
    const char *file;
    sw_arena *arena;
    sw_error *err;
} reader;

static sw_code copy_text(const reader *r, const char *text, const char *what, const char **out) {
    size_t length = text != NULL ? strnlen(text, MAX_NAME_BYTES + 1) : 0;
    if (length == 0 || length > MAX_NAME_BYTES)
        return SW_FAIL(r->err, SW_BAD_DATA, "%s: %s is %s", r->file, what,
                       length == 0 ? "missing" : "longer than 4096 bytes");
    bool is_text = sw_utf8_valid(text, length, NULL);
    for (size_t i = 0; i < length; i++)
        is_text = is_text && (unsigned char)text[i] >= 0x20 && text[i] != 0x7f;
    if (!is_text) return SW_FAIL(r->err, SW_BAD_DATA, "%s: %s is no text", r->file, what);
    *out = sw_arena_strndup(r->arena, text, length);
    return *out != NULL ? SW_OK : SW_FAIL(r->err, SW_NO_MEMORY, "%s: out of memory", r->file);
}

static const struct {
    uint32_t qnn;
    const char *name;
    bool known;
    sw_dtype dtype;
} types[] = {
    {QNN_DATATYPE_FLOAT_32, "FLOAT_32", true, SW_F32},
    {QNN_DATATYPE_FLOAT_16, "FLOAT_16", true, SW_F16},
    {QNN_DATATYPE_UFIXED_POINT_8, "UFIXED_POINT_8", true, SW_U8},
    {QNN_DATATYPE_SFIXED_POINT_8, "SFIXED_POINT_8", true, SW_S8},
    {QNN_DATATYPE_UFIXED_POINT_16, "UFIXED_POINT_16", true, SW_U16},
    {QNN_DATATYPE_INT_32, "INT_32", true, SW_I32},
    {8, "INT_8", false, 0},
    {22, "INT_16", false, 0},
    {100, "INT_64", false, 0},
    {264, "UINT_8", false, 0},
    {278, "UINT_16", false, 0},
    {QNN_DATATYPE_UINT_32, "UINT_32", false, 0},
    {356, "UINT_64", false, 0},
    {550, "BFLOAT_16", false, 0},
    {612, "FLOAT_64", false, 0},
    {772, "SFIXED_POINT_4", false, 0},
    {QNN_DATATYPE_SFIXED_POINT_16, "SFIXED_POINT_16", false, 0},
    {QNN_DATATYPE_SFIXED_POINT_32, "SFIXED_POINT_32", false, 0},
    {1028, "UFIXED_POINT_4", false, 0},
    {1074, "UFIXED_POINT_32", false, 0},
    {QNN_DATATYPE_BOOL_8, "BOOL_8", false, 0},
    {1544, "STRING", false, 0},
};

const char *sw_qnn_type_name(uint32_t qnn_type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].qnn == qnn_type) return types[i].name;
    return "unknown";
}

const char *sw_qnn_encoding_name(uint32_t form) {
    static const char *const names[] = {"SCALE_OFFSET",
                                        "AXIS_SCALE_OFFSET",
                                        "BW_SCALE_OFFSET",
                                        "BW_AXIS_SCALE_OFFSET",
                                        "BLOCK",
                                        "BLOCKWISE_EXPANSION",
                                        "VECTOR",
                                        "FLOAT_BLOCK",
                                        "BW_AXIS_SCALE_OFFSET_MAPPED",
                                        "BW_BLOCK_MAPPED",
                                        "BW_BLOCKWISE_EXPANSION_MAPPED",
                                        "BW_FLOAT_BLOCK"};
    return form < sizeof names / sizeof *names ? names[form] : "unknown";
}

static sw_code read_tensor(const reader *r, const char *graph, const Qnn_Tensor_t *t, sw_binary_tensor *out) {
    if (t->version != QNN_TENSOR_V1 && t->version != QNN_TENSOR_V2)
        return SW_FAIL(r->err, SW_BAD_DATA, "%s: graph %s: tensor of version %u, this build reads 1-2",
                       r->file, graph, t->version);
    const Qnn_TensorV2_t *v = &t->v2; /* V1 is a prefix of it */
    SW_TRY(copy_text(r, v->name, "a tensor's name", &out->name));
    if (v->rank == 0 || v->rank > QNN_MAX_RANK || v->dimensions == NULL)
        return SW_FAIL(r->err, SW_BAD_DATA, "%s: graph %s, tensor %s: rank %u, wanted 1 to %d", r->file,
                       graph, out->name, v->rank, QNN_MAX_RANK);
    out->id = v->id;
    out->rank = v->rank;
    for (uint32_t i = 0; i < v->rank; i++) {
        if (v->dimensions[i] == 0)
            return SW_FAIL(r->err, SW_BAD_DATA, "%s: graph %s, tensor %s: dimension %u is 0", r->file, graph,
                           out->name, i);
        out->dims[i] = v->dimensions[i];
    }
    out->qnn_type = v->dataType;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].qnn != v->dataType || !types[i].known) continue;
        out->known = true;
        out->dtype = types[i].dtype;
    }
    const Qnn_QuantizeParams_t *q = &v->quantizeParams;
    if (q->encodingDefinition == QNN_DEFINED && q->quantizationEncoding == QNN_ENCODING_SCALE_OFFSET) {
        out->has_encoding = true;
        out->encoding = (sw_encoding){q->u.scaleOffset.scale, q->u.scaleOffset.offset};
    } else if (q->encodingDefinition == QNN_DEFINED && q->quantizationEncoding != QNN_UNDEFINED) {
        out->other_encoding = true;
        out->encoding_form = q->quantizationEncoding;
    }
    return SW_OK;
}

static sw_code read_tensors(const reader *r, const char *graph, const char *what, const Qnn_Tensor_t *list,
                            uint32_t count, sw_binary_tensor **out) {
    if (count == 0 || count > MAX_TENSORS || list == NULL)
        return SW_FAIL(r->err, SW_BAD_DATA, "%s: graph %s has %u %s%s, wanted 1 to %d", r->file, graph, count,
                       what, list == NULL ? " and no list of them" : "", MAX_TENSORS);
    *out = sw_arena_array(r->arena, count, sizeof **out);
    if (*out == NULL) return SW_FAIL(r->err, SW_NO_MEMORY, "%s: out of memory", r->file);
    for (uint32_t i = 0; i < count; i++) SW_TRY(read_tensor(r, graph, &list[i], &(*out)[i]));
    return SW_OK;
}

/* Records follow each other, each with its version in front. */
static void read_blob(const void *blob, uint32_t size, sw_binary_graph *out) {
    QnnHtpSystemContext_GraphBlobInfo_t v1;
    QnnHtpSystemContext_GraphBlobInfoV2_t v2;
    for (uint32_t at = 0, version; blob != NULL && size - at >= sizeof version;) {
        const char *record = (const char *)blob + at;
        memcpy(&version, record, sizeof version);
        if (version == 1 && size - at >= sizeof v1) {
            memcpy(&v1, record, sizeof v1);
            out->has_blob = true;
            out->spill_fill_bytes = v1.spillFillBufferSize;
            out->vtcm_bytes = v1.vtcmSize;
            if (v1.vtcmSize <= VTCM_LARGEST_MB) out->vtcm_bytes <<= 20; /* as the header has it, in MB */
            out->opt_level = v1.optimizationLevel;
            out->n_hvx_threads = v1.numHvxThreads;
            at += sizeof v1;
        } else if (version == 2 && size - at >= sizeof v2) {
            memcpy(&v2, record, sizeof v2);
            out->has_sizes = true;
            out->io_bytes = v2.ioTensorSize;
            out->op_data_bytes = v2.opDataSize;
            out->const_bytes = v2.constSize;
            out->ddr_tensor_bytes = v2.ddrTensorSize;
            out->shared_weights_bytes = v2.sharedWeightsSize;
            at += sizeof v2;
        } else {
            if (version != 1 && version != 2) out->unknown_blob = version;
            return; /* or it is cut: what is whole stands */
        }
    }
}

static sw_code read_graph(const reader *r, const QnnSystemContext_GraphInfo_t *info, sw_binary_graph *out) {
    if (info->version < 1 || info->version > 3)
        return SW_FAIL(r->err, SW_BAD_DATA, "%s: graph info version %u, this build reads 1-3", r->file,
                       info->version);
    SW_TRY(copy_text(r, info->v3.graphName, "a graph's name", &out->name));
    out->n_inputs = info->v3.numGraphInputs;
    out->n_outputs = info->v3.numGraphOutputs;
    SW_TRY(read_tensors(r, out->name, "inputs", info->v3.graphInputs, out->n_inputs, &out->inputs));
    SW_TRY(read_tensors(r, out->name, "outputs", info->v3.graphOutputs, out->n_outputs, &out->outputs));
    if (info->version == 3) read_blob(info->v3.graphBlobInfo, info->v3.graphBlobInfoSize, out);
    return SW_OK;
}

sw_code sw_binary_info_parse(const char *file, const QnnSystemContext_BinaryInfo_t *info, sw_arena *arena,
                             sw_binary_info *out, sw_error *err) {
    reader r = {file, arena, err};
    *out = (sw_binary_info){.version = info->version};
    const char *build_id;
    const QnnSystemContext_GraphInfo_t *graphs;
    if (info->version == 1 || info->version == 2) {
        const QnnSystemContext_BinaryInfoV1_t *v = &info->u.v1;
        build_id = v->buildId;
        out->core_api = v->coreApiVersion;
        out->backend_api = v->backendApiVersion;
        out->blob_version = v->contextBlobVersion;
        out->blob_bytes = v->contextBlobSize;
        out->n_graphs = v->numGraphs;
        graphs = v->graphs;
    } else if (info->version == 3) {
        const QnnSystemContext_BinaryInfoV3_t *v = &info->u.v3;
        build_id = v->buildId;
        out->core_api = v->coreApiVersion;
        out->backend_api = v->backendApiVersion;
        out->blob_version = v->contextBlobVersion;
        out->blob_bytes = v->contextBlobSize;
        out->n_graphs = v->numGraphs;
        graphs = v->graphs;
        out->soc_model = v->socModel;
        uint32_t metadata[2];
        if (v->contextMetadata != NULL && v->contextMetadataSize >= sizeof metadata) {
            memcpy(metadata, v->contextMetadata, sizeof metadata);
            if (metadata[0] == 1) out->htp_arch = metadata[1];
        }
    } else {
        return SW_FAIL(err, SW_BAD_DATA, "%s: binary info version %u, this build reads 1-3", file,
                       info->version);
    }
    SW_TRY(copy_text(&r, build_id, "the build id", &out->build_id));
    if (out->n_graphs == 0 || out->n_graphs > MAX_GRAPHS || graphs == NULL)
        return SW_FAIL(err, SW_BAD_DATA, "%s: %u graphs%s, wanted 1 to %d", file, out->n_graphs,
                       graphs == NULL ? " and no list of them" : "", MAX_GRAPHS);
    out->graphs = sw_arena_array(arena, out->n_graphs, sizeof *out->graphs);
    if (out->graphs == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", file);
    for (uint32_t i = 0; i < out->n_graphs; i++) SW_TRY(read_graph(&r, &graphs[i], &out->graphs[i]));
    return SW_OK;
}

sw_code sw_binary_info_read(const sw_qnn_library *library, const char *file, const void *data, uint64_t size,
                            sw_arena *arena, sw_binary_info *out, sw_error *err) {
    const QnnSystem_t *system = &library->system->system;
    Qnn_Handle_t handle = NULL;
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e = SW_QNN_TIMED(system->systemContextCreate(&handle));
    if (e != 0) return sw_qnn_fail(err, e, "%s: making a reader of context binaries", file);
    const QnnSystemContext_BinaryInfo_t *info = NULL;
    e = SW_QNN_TIMED(system->systemContextGetMetaData(handle, data, size, &info));
    sw_code code;
    if (e != 0 || info == NULL) {
        sw_qnn_fail(err, e, "%s: not a readable context binary (%llu bytes)", file, (unsigned long long)size);
        if (err != NULL) err->code = SW_BAD_DATA;
        code = SW_BAD_DATA;
    } else {
        code = sw_binary_info_parse(file, info, arena, out, err);
    }
    system->systemContextFree(handle); /* owns what info points to */
    return code;
}
