// Opens a library that only its own RUNPATH, $ORIGIN/inner, leads to.
#include <dlfcn.h>

void* runpath_open(void);
void* runpath_open(void) {
  return dlopen("libfound_by_runpath.so", RTLD_NOW);
}
