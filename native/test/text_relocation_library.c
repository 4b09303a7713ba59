/* An import in read-only memory: the loader lifts the protection for as long as it takes to write
 * it. */
__asm__(
    ".section .rodata\n"
    ".balign 8\n"
    "read_only_import: .quad posix_memalign\n"
    ".text\n");
