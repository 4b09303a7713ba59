// Opens a library that only its own RUNPATH, $ORIGIN/inner, leads to.
#include <dlfcn.h>

void* runpath_open(void);
void* runpath_open(void) {
  // No tail call: the loader takes the return address for the caller.
  void* volatile handle = dlopen("libfound_by_runpath.so", RTLD_NOW);
  return handle;
}
