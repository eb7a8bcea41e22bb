/* binary_info.c: copies the system library's structs into ours.
 *
 *   binary info   version 1, 2: the same but for a pointer at the end; 3: other places, and the SoC
 *   graph info    version 1, 2, 3: each longer than the one before; the array's stride is always V3's
 *   graph blob    the HTP's: a record of version 1 (40 bytes), behind it one of version 2 (72 bytes)
 *
 * The structs come from a library that parsed a file. So counts, pointers, names and ranks are looked at
 * before they are used; where a pointer leads can't be checked. */
#include "qnn/binary_info.h"

#include <string.h>

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
    *out = sw_arena_strndup(r->arena, text, length);
    return *out != NULL ? SW_OK : SW_FAIL(r->err, SW_NO_MEMORY, "%s: out of memory", r->file);
}

static const struct {
    uint32_t qnn;
    sw_dtype dtype;
} types[] = {
    {QNN_DATATYPE_FLOAT_32, SW_F32},        {QNN_DATATYPE_FLOAT_16, SW_F16},
    {QNN_DATATYPE_UFIXED_POINT_8, SW_U8},   {QNN_DATATYPE_SFIXED_POINT_8, SW_S8},
    {QNN_DATATYPE_UFIXED_POINT_16, SW_U16}, {QNN_DATATYPE_INT_32, SW_I32},
};

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
        if (types[i].qnn != v->dataType) continue;
        out->known = true;
        out->dtype = types[i].dtype;
    }
    const Qnn_QuantizeParams_t *q = &v->quantizeParams;
    if (q->encodingDefinition == QNN_DEFINED && q->quantizationEncoding == QNN_ENCODING_SCALE_OFFSET) {
        out->has_encoding = true;
        out->encoding = (sw_encoding){q->u.scaleOffset.scale, q->u.scaleOffset.offset};
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

/* Records of other versions are passed over: a newer library may put more behind these. */
static void read_blob(const void *blob, uint32_t size, sw_binary_graph *out) {
    QnnHtpSystemContext_GraphBlobInfo_t v1;
    QnnHtpSystemContext_GraphBlobInfoV2_t v2;
    if (blob == NULL || size < sizeof v1) return;
    memcpy(&v1, blob, sizeof v1);
    if (v1.version != 1) return;
    out->has_blob = true;
    out->spill_fill_bytes = v1.spillFillBufferSize;
    out->vtcm_bytes = v1.vtcmSize;
    if (v1.vtcmSize <= VTCM_LARGEST_MB) out->vtcm_bytes <<= 20; /* as the header has it, in MB */
    out->opt_level = v1.optimizationLevel;
    out->n_hvx_threads = v1.numHvxThreads;
    if (size < sizeof v1 + sizeof v2) return;
    memcpy(&v2, (const char *)blob + sizeof v1, sizeof v2);
    if (v2.version != 2) return;
    out->has_sizes = true;
    out->io_bytes = v2.ioTensorSize;
    out->op_data_bytes = v2.opDataSize;
    out->const_bytes = v2.constSize;
    out->ddr_tensor_bytes = v2.ddrTensorSize;
    out->shared_weights_bytes = v2.sharedWeightsSize;
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
    Qnn_ErrorHandle_t e = system->systemContextCreate(&handle);
    if (e != 0) return sw_qnn_fail(err, e, "%s: making a reader of context binaries", file);
    const QnnSystemContext_BinaryInfo_t *info = NULL;
    e = system->systemContextGetMetaData(handle, data, size, &info);
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
