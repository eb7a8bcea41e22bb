/* page.h: a bundle's report as one HTML file: what sw_describe_bundle knows, drawn. No script, no link, no
 * font: it opens anywhere, without a network.
 *
 * Every figure stands in <data value="142200000" data-path="graphs.0.ddr.read">142.2 MB</data>: the value as
 * `inspect --json --tensors` has it at that path, and the text that is read. */
#ifndef SW_CLI_PAGE_H
#define SW_CLI_PAGE_H

#include "cli/describe.h"

/* Writes the page of the bundle to a file that is replaced as a whole. Errors: those of sw_describe_bundle,
 * SW_IO. */
sw_code sw_page_write(const sw_options *options, sw_bundle *bundle, const char *path,
                      sw_error *err) SW_MUST_CHECK;

/* ---- Parts, in page_<part>.c; each writes a section ---- */

typedef struct sw_page {
    FILE *stream;
    const json_t *data; /* the document */
} sw_page;

typedef enum sw_figure {
    SW_FIGURE_BYTES,   /* 142.2 MB */
    SW_FIGURE_MIB,     /* 8 MB of VTCM, whole MiB */
    SW_FIGURE_COUNT,   /* 1084 */
    SW_FIGURE_NUMBER,  /* 0.00123 */
    SW_FIGURE_DECIMAL, /* 22.1 */
    SW_FIGURE_PERCENT, /* of a share: 34.0 % */
    SW_FIGURE_MILLI    /* thousandths: 0.0012 as 1.2 */
} sw_figure;

/* The value at a path like "graphs.0.ddr.read"; NULL where there is none. */
const json_t *sw_page_find(const sw_page *page, const char *path);
double sw_page_number(const sw_page *page, const char *format, ...) SW_PRINTF(2, 3);      /* 0: none */
const char *sw_page_string(const sw_page *page, const char *format, ...) SW_PRINTF(2, 3); /* "": none */
size_t sw_page_count(const sw_page *page, const char *format, ...) SW_PRINTF(2, 3);       /* of an array */

/* The figure at a path, as above; "unknown" where it is null. */
void sw_page_figure(const sw_page *page, sw_figure figure, const char *format, ...) SW_PRINTF(3, 4);

/* Text with &, <, > and quotes escaped. */
void sw_page_text(const sw_page *page, const char *text);

/* "prefill_forward", with the shard where there are several. */
void sw_page_graph_name(const sw_page *page, size_t graph);

/* A colour's class for what an op is: "linear", "attention", "norm", "movement", "elementwise". */
const char *sw_page_op_class(const char *op_type);

void sw_page_memory(const sw_page *page);
void sw_page_traffic(const sw_page *page);
void sw_page_slc(const sw_page *page);
void sw_page_ops(const sw_page *page);
void sw_page_tuning(const sw_page *page);
void sw_page_layers(const sw_page *page);
void sw_page_parts(const sw_page *page);

#endif
