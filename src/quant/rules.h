/* rules.h: which names a recipe's rule is for. */
#ifndef SW_QUANT_RULES_H
#define SW_QUANT_RULES_H

#include "quant/quant.h"

/* True where the name is the pattern's: * stands for any run of characters, an empty one too. */
bool sw_pattern_matches(const char *pattern, const char *name);

/* Does the rule hold for what an op of that type makes (SW_OP_COUNT: the host, or a constant)? */
bool sw_activation_rule_matches(const sw_activation_rule *rule, const char *range, sw_op_type made_by);

#endif
