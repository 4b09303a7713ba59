// Allocators that an image keeps to itself: no symbol of theirs is exported and no call of theirs
// passes a slot. mimalloc is linked that way into many Rust modules.
#pragma once

#include "callsites/elf_image.h"
#include "callsites/image_table.h"
#include "counter/page_ranges.h"

namespace oom_guard {

// The name of an allocator that gives itself away in the image's own writable data, or null. Cheap
// enough for the start: mimalloc keeps a table of its options there, whose shape no other data has,
// so that only one of the strings that it points to is read. The caller holds the image.
const char* recognise_hidden_allocator(const ElfImage& image, const ImageRecord& record);

// Like recognise_hidden_allocator(), by the strings in an image's file: "mimalloc", "jemalloc",
// "tcmalloc", or null. Reads megabytes, so only for an image of which the kernel already showed
// that it maps memory in bulk, and on a thread that nobody waits for.
const char* name_hidden_allocator(const char* path);

// Notes for `owner` what the image's allocator had mapped before its slots were written:
// constructors allocate, and the first arena of mimalloc is one of 32 MiB or 1 GiB. Taken is only
// what is certain: an anonymous mapping of the size and at an address that arenas have and nothing
// else has, to which the image's own data points. Returns the bytes noted. The caller holds the
// image.
uint64_t find_earlier_maps(const ElfImage& image, const ImageRecord& record, unsigned owner,
                           PageRanges* ranges);

}  // namespace oom_guard
