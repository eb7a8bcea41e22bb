/* words.h: text for the device's shell. */
#ifndef SW_DEPLOY_WORDS_H
#define SW_DEPLOY_WORDS_H

#include "base/arena.h"

/* One word for a POSIX shell that means exactly this text. adb joins the words of `adb shell` with spaces and
 * the device's shell parses the line again, so each word that isn't plain must be quoted for there. In the
 * arena; NULL without memory. */
char *sw_shell_word(sw_arena *arena, const char *text);

#endif
