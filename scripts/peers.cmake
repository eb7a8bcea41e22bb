# Included by llama.cpp's project(): what takes part in no measurement is compiled without optimization, which takes
# minutes less.
cmake_language(DEFER CALL set_property TARGET llama-common APPEND PROPERTY COMPILE_OPTIONS -O0)
