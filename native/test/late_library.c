/* What late_addon.cc loads. */
#include <stdlib.h>

__attribute__((visibility("default"))) void* late_allocate(size_t bytes) {
  return malloc(bytes);
}
