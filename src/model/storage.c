/* storage.c: how values stand in files: the types that are read, and by name those that aren't. Numbers and
 * names are GGUF's; source: ggml's include/ggml.h. */
#include "model/gguf_file.h"

const sw_storage_info sw_storage_infos[SW_STORE_COUNT] = {
#define STORAGE_INFO(id, name, gguf_type, values, bytes) [id] = {name, gguf_type, values, bytes},
    SW_STORAGES(STORAGE_INFO)
#undef STORAGE_INFO
};

/* Types that exist, or did, but aren't in SW_STORAGES. */
static const struct {
    uint32_t number;
    const char *name;
    bool removed;
} other_types[] = {
    {4, "Q4_2", true},        {5, "Q4_3", true},        {9, "Q8_1", false},       {10, "Q2_K", false},
    {11, "Q3_K", false},      {12, "Q4_K", false},      {13, "Q5_K", false},      {14, "Q6_K", false},
    {15, "Q8_K", false},      {16, "IQ2_XXS", false},   {17, "IQ2_XS", false},    {18, "IQ3_XXS", false},
    {19, "IQ1_S", false},     {20, "IQ4_NL", false},    {21, "IQ3_S", false},     {22, "IQ2_S", false},
    {23, "IQ4_XS", false},    {24, "I8", false},        {25, "I16", false},       {26, "I32", false},
    {27, "I64", false},       {28, "F64", false},       {29, "IQ1_M", false},     {31, "Q4_0_4_4", true},
    {32, "Q4_0_4_8", true},   {33, "Q4_0_8_8", true},   {34, "TQ1_0", false},     {35, "TQ2_0", false},
    {36, "IQ4_NL_4_4", true}, {37, "IQ4_NL_4_8", true}, {38, "IQ4_NL_8_8", true}, {39, "MXFP4", false},
    {40, "NVFP4", false},     {41, "Q1_0", false},      {42, "Q2_0", false},
};

bool sw_storage_from_gguf(uint32_t type, sw_storage *out) {
    for (unsigned i = 0; i < SW_STORE_COUNT; i++) {
        if (sw_storage_infos[i].gguf_type != type) continue;
        *out = (sw_storage)i;
        return true;
    }
    return false;
}

const char *sw_gguf_other_type(uint32_t type, bool *removed) {
    for (size_t i = 0; i < sizeof other_types / sizeof *other_types; i++) {
        if (other_types[i].number != type) continue;
        *removed = other_types[i].removed;
        return other_types[i].name;
    }
    return NULL;
}

const char *sw_storage_list(void) {
#define STORAGE_NAME(id, name, gguf_type, values, bytes) ", " name
    static const char list[] = SW_STORAGES(STORAGE_NAME);
#undef STORAGE_NAME
    return list + 2; /* behind the first comma */
}
