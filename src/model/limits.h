/* limits.h: the greatest hyperparameters that any reader of a model accepts. Products of two of them fit 64
 * bits with room for a count of layers, so that sizes need no further checks. */
#ifndef SW_MODEL_LIMITS_H
#define SW_MODEL_LIMITS_H

enum {
    SW_MODEL_MAX_LAYERS = 1024,
    SW_MODEL_MAX_WIDTH = 65536, /* hidden */
    SW_MODEL_MAX_FFN = 262144,
    SW_MODEL_MAX_HEADS = 1024,
    SW_MODEL_MAX_HEAD_DIM = 1024,
    SW_MODEL_MAX_CONTEXT = 1 << 24,
    SW_MODEL_MAX_VOCAB = 1 << 24,
};

#endif
