/* dump_json.c: a decoder as JSON, one line a tensor or op, so that a diff of two dumps can be read. Each line
 * is a jansson value; the frame around them is printed. Form: graph/json.h. */
#include <errno.h>
#include <string.h>

#include "graph/json.h"

/* 9 significant digits tell any two floats apart. */
#define DUMP_FLAGS (JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY)

json_t *sw_hparams_to_json(const sw_hparams *h) {
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b}", "architecture",
                     h->architecture, "name", h->name, "n_layers", (json_int_t)h->n_layers, "hidden",
                     (json_int_t)h->hidden, "ffn", (json_int_t)h->ffn, "vocab", (json_int_t)h->vocab,
                     "n_heads", (json_int_t)h->n_heads, "n_kv_heads", (json_int_t)h->n_kv_heads, "head_dim",
                     (json_int_t)h->head_dim, "context_max", (json_int_t)h->context_max, "rms_epsilon",
                     (double)h->rms_epsilon, "rope_theta", (double)h->rope_theta, "tied_embeddings",
                     h->tied_embeddings);
}

static json_t *integers(const uint32_t *values, uint32_t count) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) json_array_append_new(array, json_integer(values[i]));
    return array;
}

/* jansson's setters take NULL and say so; a line that lacks a part is caught by its dump, see put_line. */
static json_t *tensor_to_json(const sw_tensor *t) {
    json_t *o = json_object();
    bool constant = t->kind == SW_TENSOR_CONSTANT;
    json_object_set_new(o, "name", json_string(t->name));
    if (!constant) json_object_set_new(o, "kind", json_string(sw_tensor_kind_name(t->kind)));
    json_object_set_new(o, "role", json_string(sw_role_name(t->role)));
    json_object_set_new(o, "dtype", json_string(sw_dtype_name(t->dtype)));
    json_object_set_new(o, "dims", integers(t->dims, t->rank));
    if (strcmp(t->range, t->name) != 0) json_object_set_new(o, "range", json_string(t->range));
    if (t->form.four_bit) json_object_set_new(o, "bits", json_integer(4));
    if (t->form.scales != SW_SCALES_ROW) {
        json_object_set_new(o, "scales", json_string(sw_scales_name(t->form.scales)));
        json_object_set_new(o, "block", json_integer(t->form.block));
    }
    if (t->channel_scales != NULL)
        json_object_set_new(o, "per_channel", json_true());
    else if (sw_dtype_quantized(t->dtype) && t->form.scales != SW_SCALES_FLOAT_BLOCK)
        json_object_set_new(
            o, "encoding",
            json_pack("{s:f, s:i}", "scale", (double)t->encoding.scale, "offset", (int)t->encoding.offset));
    return o;
}

static json_t *params_to_json(const sw_graph *graph, const sw_op *op) {
    uint32_t rank = graph->tensors[op->inputs[0]]->rank;
    switch (op->type) {
    case SW_OP_RMS_NORM:
        return json_pack("{s:f}", "epsilon", (double)op->params.rms_norm.epsilon);
    case SW_OP_MATMUL:
        return json_pack("{s:b}", "transpose_in1", op->params.matmul.transpose_in1);
    case SW_OP_SOFTMAX:
        return json_pack("{s:f}", "beta", (double)op->params.softmax.beta);
    case SW_OP_TRANSPOSE:
        return json_pack("{s:o}", "perm", integers(op->params.transpose.perm, rank));
    case SW_OP_CONCAT:
        return json_pack("{s:I}", "axis", (json_int_t)op->params.concat.axis);
    case SW_OP_STRIDED_SLICE:
        return json_pack("{s:o, s:o}", "begin", integers(op->params.strided_slice.begin, rank), "end",
                         integers(op->params.strided_slice.end, rank));
    default:
        return NULL;
    }
}

static json_t *names(const sw_graph *graph, const uint32_t *tensors, uint32_t count) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, json_string(graph->tensors[tensors[i]]->name));
    return array;
}

static json_t *op_to_json(const sw_graph *graph, const sw_op *op) {
    json_t *o = json_object();
    json_object_set_new(o, "type", json_string(sw_op_get_info(op->type)->name));
    json_object_set_new(o, "name", json_string(op->name));
    json_object_set_new(o, "inputs", names(graph, op->inputs, op->n_inputs));
    json_object_set_new(o, "outputs", names(graph, op->outputs, op->n_outputs));
    json_t *params = params_to_json(graph, op);
    if (params != NULL) json_object_set_new(o, "params", params);
    if (op->channels.end != 0)
        json_object_set_new(o, "channels", integers((uint32_t[]){op->channels.begin, op->channels.end}, 2));
    return o;
}

/* before + value + after; takes the value. */
static bool put_line(FILE *stream, const char *before, json_t *value, const char *after) {
    bool ok = value != NULL && fputs(before, stream) >= 0 && json_dumpf(value, stream, DUMP_FLAGS) == 0 &&
              fputs(after, stream) >= 0;
    json_decref(value);
    return ok;
}

static bool put_graph(FILE *stream, const sw_graph *graph, bool last) {
    bool ok = put_line(stream, "  {\"name\": ", json_string(graph->name), ",\n") &&
              fprintf(stream, "   \"ar_len\": %u,\n   \"tensors\": [\n", graph->ar_len) >= 0;
    for (uint32_t i = 0; ok && i < graph->n_tensors; i++) {
        const sw_tensor *t = graph->tensors[i];
        json_t *line = t->kind == SW_TENSOR_CONSTANT ? json_string(t->name) : tensor_to_json(t);
        ok = put_line(stream, "    ", line, i + 1 < graph->n_tensors ? ",\n" : "\n");
    }
    ok = ok && fputs("   ],\n   \"ops\": [\n", stream) >= 0;
    for (uint32_t i = 0; ok && i < graph->n_ops; i++)
        ok = put_line(stream, "    ", op_to_json(graph, &graph->ops[i]), i + 1 < graph->n_ops ? ",\n" : "\n");
    return ok && fputs(last ? "   ]}\n" : "   ]},\n", stream) >= 0;
}

sw_code sw_decoder_write_json(const sw_decoder *decoder, FILE *stream, sw_error *err) {
    errno = 0;
    bool ok = fprintf(stream, "{\"format\": \"spillway-graph\",\n \"version\": %d,\n",
                      SW_GRAPH_JSON_VERSION) >= 0 &&
              put_line(stream, " \"hparams\": ", sw_hparams_to_json(&decoder->hparams), ",\n") &&
              fprintf(stream, " \"context_len\": %u,\n \"shards\": %u,\n", decoder->context_len,
                      decoder->n_shards) >= 0 &&
              put_line(stream, " \"embedding\": ", json_string(decoder->embedding->name), ",\n") &&
              fputs(" \"constants\": [\n", stream) >= 0;
    for (uint32_t i = 0; ok && i < decoder->n_constants; i++)
        ok = put_line(stream, "  ", tensor_to_json(decoder->constants[i]),
                      i + 1 < decoder->n_constants ? ",\n" : "\n");
    ok = ok && fputs(" ],\n \"graphs\": [\n", stream) >= 0;
    for (uint32_t i = 0; ok && i < decoder->n_graphs; i++)
        ok = put_graph(stream, decoder->graphs[i], i + 1 == decoder->n_graphs);
    ok = ok && fputs(" ]}\n", stream) >= 0 && fflush(stream) == 0;
    if (ok) return SW_OK;
    return SW_FAIL(err, SW_IO, "can't write the graph: %s",
                   errno != 0 ? strerror(errno) : "a name is not UTF-8 or a number not finite");
}
