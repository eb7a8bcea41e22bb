/* The structs of a context binary, made by hand: versions, counts, names, ranks, blobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "qnn/binary_info.h"

/* One graph with an input and an output; each test breaks one thing of it. */
static uint32_t x_dims[9], y_dims[2];
static Qnn_Tensor_t x, y;
static struct {
    QnnHtpSystemContext_GraphBlobInfo_t v1;
    QnnHtpSystemContext_GraphBlobInfoV2_t v2;
} blob;
static uint32_t metadata[2];
static QnnSystemContext_GraphInfo_t graphs[2];
static QnnSystemContext_BinaryInfo_t info;
static sw_arena arena;
static sw_binary_info out;
static sw_error err;

static int reset(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 9; i++) x_dims[i] = i + 1;
    y_dims[0] = 1, y_dims[1] = 49152;
    x = (Qnn_Tensor_t){.version = QNN_TENSOR_V1};
    x.v2.name = "x";
    x.v2.dataType = QNN_DATATYPE_UFIXED_POINT_16;
    x.v2.quantizeParams =
        (Qnn_QuantizeParams_t){QNN_DEFINED, QNN_ENCODING_SCALE_OFFSET, {.scaleOffset = {0.5f, -7}}};
    x.v2.rank = 4;
    x.v2.dimensions = x_dims;
    y = (Qnn_Tensor_t){.version = QNN_TENSOR_V2};
    y.v2.name = "y";
    y.v2.dataType = 100; /* i64: not one of ours */
    y.v2.quantizeParams = (Qnn_QuantizeParams_t){QNN_UNDEFINED, QNN_UNDEFINED, {.bytes = {0}}};
    y.v2.rank = 2;
    y.v2.dimensions = y_dims;
    blob.v1 = (QnnHtpSystemContext_GraphBlobInfo_t){.version = 1,
                                                    .spillFillBufferSize = 5000000000u,
                                                    .vtcmSize = 8388608,
                                                    .optimizationLevel = 3,
                                                    .numHvxThreads = 4};
    blob.v2 = (QnnHtpSystemContext_GraphBlobInfoV2_t){.version = 2,
                                                      .ioTensorSize = 11,
                                                      .opDataSize = 12,
                                                      .constSize = 13,
                                                      .ddrTensorSize = 14,
                                                      .sharedWeightsSize = 15};
    metadata[0] = 1, metadata[1] = 79;
    for (int i = 0; i < 2; i++) {
        graphs[i] = (QnnSystemContext_GraphInfo_t){.version = 3};
        graphs[i].v3.graphName = i == 0 ? "prefill_forward" : "kv_forward";
        graphs[i].v3.numGraphInputs = graphs[i].v3.numGraphOutputs = 1;
        graphs[i].v3.graphInputs = &x;
        graphs[i].v3.graphOutputs = &y;
        graphs[i].v3.graphBlobInfo = &blob;
        graphs[i].v3.graphBlobInfoSize = sizeof blob;
    }
    info = (QnnSystemContext_BinaryInfo_t){.version = 3};
    info.u.v3.buildId = "v2.51.0";
    info.u.v3.coreApiVersion = (Qnn_Version_t){2, 40, 0};
    info.u.v3.numGraphs = 2;
    info.u.v3.graphs = graphs;
    info.u.v3.contextMetadata = metadata;
    info.u.v3.contextMetadataSize = sizeof metadata;
    info.u.v3.socModel = 69;
    return 0;
}

static int drop(void **state) {
    (void)state;
    sw_arena_free(&arena);
    return 0;
}

static sw_code parse(void) {
    err.message[0] = '\0';
    return sw_binary_info_parse("a.bin", &info, &arena, &out, &err);
}

static void refuse(const char *text) {
    assert_int_equal(parse(), SW_BAD_DATA);
    assert_ptr_equal(strstr(err.message, "a.bin: "), err.message);
    if (strstr(err.message, text) == NULL) fail_msg("\"%s\" not in \"%s\"", text, err.message);
}

static void version_3_is_read_whole(void **state) {
    (void)state;
    assert_int_equal(parse(), SW_OK);
    assert_int_equal(out.version, 3);
    assert_string_equal(out.build_id, "v2.51.0");
    assert_int_equal(out.core_api.minor, 40);
    assert_int_equal(out.soc_model, 69);
    assert_int_equal(out.htp_arch, 79);
    assert_int_equal(out.n_graphs, 2);
    const sw_binary_graph *g = &out.graphs[1];
    assert_string_equal(g->name, "kv_forward");
    assert_string_equal(g->inputs[0].name, "x");
    assert_int_equal(g->inputs[0].rank, 4);
    assert_int_equal(g->inputs[0].dims[3], 4);
    assert_true(g->inputs[0].known && g->inputs[0].dtype == SW_U16);
    assert_true(g->inputs[0].has_encoding && g->inputs[0].encoding.scale == 0.5f);
    assert_int_equal(g->inputs[0].encoding.offset, -7);
    assert_false(g->outputs[0].known || g->outputs[0].has_encoding);
    assert_int_equal(g->outputs[0].qnn_type, 100);
    assert_true(g->has_blob && g->has_sizes);
    assert_true(g->spill_fill_bytes == 5000000000u); /* 64 bits */
    assert_int_equal(g->vtcm_bytes, 8 << 20);
    assert_int_equal(g->opt_level, 3);
    assert_int_equal(g->io_bytes, 11);
    assert_int_equal(g->const_bytes, 13);
    assert_int_equal(g->shared_weights_bytes, 15);
    assert_ptr_not_equal(out.build_id, info.u.v3.buildId); /* copied: the library frees its own */
}

static void older_versions_are_read(void **state) {
    (void)state;
    for (uint32_t version = 1; version <= 2; version++) {
        reset(NULL);
        info = (QnnSystemContext_BinaryInfo_t){.version = version};
        info.u.v1.buildId = "v2.25";
        info.u.v1.contextBlobVersion = (Qnn_Version_t){3, 1, 2};
        info.u.v1.numGraphs = 1;
        info.u.v1.graphs = graphs;
        graphs[0].version = version; /* its blob fields aren't there: not looked at */
        graphs[0].v3.graphBlobInfo = (void *)1;
        assert_int_equal(parse(), SW_OK);
        assert_string_equal(out.graphs[0].name, "prefill_forward");
        assert_int_equal(out.blob_version.minor, 1);
        assert_int_equal(out.soc_model, 0);
        assert_false(out.graphs[0].has_blob);
    }
}

static void unknown_versions_are_refused(void **state) {
    (void)state;
    static const uint32_t versions[] = {0, 4, 99, 0x7fffffff};
    for (size_t i = 0; i < 4; i++) {
        info.version = versions[i];
        char text[80];
        snprintf(text, sizeof text, "binary info version %u, this build reads 1-3", versions[i]);
        refuse(text);
    }
    info.version = 3;
    graphs[1].version = 4;
    refuse("graph info version 4, this build reads 1-3");
    reset(NULL);
    y.version = 3;
    refuse("graph prefill_forward: tensor of version 3, this build reads 1-2");
}

static void counts_and_names_are_checked(void **state) {
    (void)state;
    info.u.v3.numGraphs = 0;
    refuse("0 graphs, wanted 1 to 1024");
    info.u.v3.numGraphs = UINT32_MAX;
    refuse("4294967295 graphs");
    reset(NULL);
    info.u.v3.graphs = NULL;
    refuse("2 graphs and no list of them");
    reset(NULL);
    info.u.v3.buildId = NULL;
    refuse("the build id is missing");
    reset(NULL);
    graphs[0].v3.graphName = NULL;
    refuse("a graph's name is missing");
    graphs[0].v3.graphName = "";
    refuse("a graph's name is missing");
    static char long_name[5000];
    memset(long_name, 'n', sizeof long_name - 1);
    graphs[0].v3.graphName = long_name;
    refuse("longer than 4096 bytes");
    reset(NULL);
    graphs[0].v3.numGraphInputs = UINT32_MAX;
    refuse("graph prefill_forward has 4294967295 inputs");
    graphs[0].v3.numGraphInputs = 0;
    refuse("graph prefill_forward has 0 inputs");
    reset(NULL);
    graphs[1].v3.graphOutputs = NULL;
    refuse("graph kv_forward has 1 outputs and no list of them");
    reset(NULL);
    y.v2.name = NULL;
    refuse("a tensor's name is missing");
}

static void ranks_and_dimensions_are_checked(void **state) {
    (void)state;
    x.v2.rank = 0;
    refuse("tensor x: rank 0, wanted 1 to 8");
    x.v2.rank = 9;
    refuse("tensor x: rank 9, wanted 1 to 8");
    x.v2.rank = 8;
    assert_int_equal(parse(), SW_OK);
    x.v2.dimensions = NULL;
    refuse("tensor x: rank 8");
    reset(NULL);
    y_dims[1] = 0;
    refuse("graph prefill_forward, tensor y: dimension 1 is 0");
}

static void blobs_of_other_sizes_and_versions(void **state) {
    (void)state;
    for (uint32_t size = 0; size <= sizeof blob; size++) {
        graphs[0].v3.graphBlobInfoSize = size;
        assert_int_equal(parse(), SW_OK);
        assert_int_equal(out.graphs[0].has_blob, size >= 40);
        assert_int_equal(out.graphs[0].has_sizes, size >= 112);
    }
    blob.v1.vtcmSize = 8; /* as the header says it: MB */
    blob.v2.version = 3;
    assert_int_equal(parse(), SW_OK);
    assert_int_equal(out.graphs[1].vtcm_bytes, 8 << 20);
    assert_false(out.graphs[1].has_sizes);
    assert_int_equal(out.graphs[1].unknown_blob, 3);
    blob.v1.version = 99;
    assert_int_equal(parse(), SW_OK);
    assert_false(out.graphs[1].has_blob);
    assert_int_equal(out.graphs[1].unknown_blob, 99);
    blob.v2.version = 2; /* alone, as the only record */
    graphs[1].v3.graphBlobInfo = &blob.v2;
    graphs[1].v3.graphBlobInfoSize = sizeof blob.v2;
    assert_int_equal(parse(), SW_OK);
    assert_true(out.graphs[1].has_sizes && !out.graphs[1].has_blob && out.graphs[1].unknown_blob == 0);
    assert_int_equal(out.graphs[1].const_bytes, 13);
    graphs[0].v3.graphBlobInfo = NULL;
    info.u.v3.contextMetadataSize = 7;
    assert_int_equal(parse(), SW_OK);
    assert_int_equal(out.htp_arch, 0);
}

/* Of others' binaries: types that the IR hasn't, encodings of many scales, names that are no text. */
static void what_others_have(void **state) {
    (void)state;
    y.v2.quantizeParams = (Qnn_QuantizeParams_t){QNN_DEFINED, QNN_ENCODING_AXIS_SCALE_OFFSET, {.bytes = {0}}};
    assert_int_equal(parse(), SW_OK);
    assert_true(out.graphs[0].outputs[0].other_encoding && !out.graphs[0].outputs[0].has_encoding);
    assert_string_equal(sw_qnn_encoding_name(out.graphs[0].outputs[0].encoding_form), "AXIS_SCALE_OFFSET");
    assert_string_equal(sw_qnn_type_name(out.graphs[0].outputs[0].qnn_type), "INT_64");
    assert_string_equal(sw_qnn_type_name(1028), "UFIXED_POINT_4");
    assert_string_equal(sw_qnn_type_name(12345), "unknown");
    assert_string_equal(sw_qnn_encoding_name(12), "unknown");
    static const char *const no_text[] = {"a\nb", "\033[2J", "\xff", "\x7f"};
    for (size_t i = 0; i < 4; i++) {
        x.v2.name = no_text[i];
        refuse("a tensor's name is no text");
    }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, reset, drop)
    const struct CMUnitTest tests[] = {TEST(version_3_is_read_whole),
                                       TEST(older_versions_are_read),
                                       TEST(unknown_versions_are_refused),
                                       TEST(counts_and_names_are_checked),
                                       TEST(ranks_and_dimensions_are_checked),
                                       TEST(blobs_of_other_sizes_and_versions),
                                       TEST(what_others_have)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
