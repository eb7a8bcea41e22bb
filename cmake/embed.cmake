# Writes a C file that holds the bytes of another file:
#   cmake -D INPUT=<file> -D OUTPUT=<file.c> -D NAME=<identifier> -P embed.cmake
# The C file defines `const unsigned char NAME[]` and `const size_t NAME_size`.
file(READ ${INPUT} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n"
       bytes "${bytes}")
get_filename_component(file ${INPUT} NAME)
file(WRITE ${OUTPUT} "/* Made of ${file} by cmake/embed.cmake. */\n#include <stddef.h>\n\n"
  "extern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_size;\n"
  "const unsigned char ${NAME}[] = {\n${bytes}};\nconst size_t ${NAME}_size = ${size};\n")
