// How much of the recorded ranges is there: what of an allocator's memory the kernel charges for.
#pragma once

#include "counter/page_ranges.h"

namespace oom_guard {

// Resident bytes of each owner's ranges, by mincore: which pages of anonymous private memory are
// there. `scratch` has room for kCapacity. Some 20 microseconds for what is small, 200 for a
// gigabyte of address space, whether it is resident or not. False when a part of some range is not
// mapped (any more).
bool read_resident_bytes(const PageRanges& ranges, PageRanges::Range* scratch,
                         uint64_t (&bytes)[PageRanges::kMaxOwners]);

// Takes out of the ranges what is not mapped: somebody unmapped it without passing the image's
// slots. A millisecond. False when there was nothing of the kind; otherwise it is to be called once
// more the next time.
bool drop_unmapped(PageRanges* ranges, PageRanges::Range* scratch);

// Whether mincore tells the truth here: some sandboxes answer that everything is resident, others
// refuse.
bool residency_is_readable();

}  // namespace oom_guard
