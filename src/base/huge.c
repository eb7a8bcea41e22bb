/* huge.c: a mapping that is a huge page too large, cut to the aligned part. */
#include "base/huge.h"

#include <stdint.h>
#include <sys/mman.h>

static size_t rounded(size_t bytes) {
    return (bytes + SW_HUGE_PAGE - 1) / SW_HUGE_PAGE * SW_HUGE_PAGE;
}

void *sw_huge_alloc(size_t bytes) {
    if (bytes == 0 || bytes > SIZE_MAX / 2) return NULL;
    const size_t size = rounded(bytes);
    char *map = mmap(NULL, size + SW_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    const size_t before = (SW_HUGE_PAGE - (uintptr_t)map % SW_HUGE_PAGE) % SW_HUGE_PAGE;
    if (before > 0) munmap(map, before);
    munmap(map + before + size, SW_HUGE_PAGE - before); /* never empty: before < a huge page */
#if defined(MADV_HUGEPAGE)
    (void)madvise(map + before, size, MADV_HUGEPAGE); /* a wish */
#endif
    return map + before;
}

void sw_huge_free(void *memory, size_t bytes) {
    if (memory != NULL) munmap(memory, rounded(bytes));
}
