// The library that the one below was linked with defines valloc; the one found at run time does
// not.
int weak_definitions_version(void);
int weak_definitions_version(void) {
  return 1;
}
#ifdef WITH_VALLOC
#include <stddef.h>
void* valloc(size_t size);
void* valloc(size_t size) {
  return size == 0 ? NULL : NULL;
}
#endif
