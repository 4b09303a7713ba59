/* Allocates and exports nothing, so that its newer hash table is empty. */
#include <stdlib.h>

__attribute__((destructor)) static void allocate(void) {
  void* volatile block = malloc(100);
  free(block);
}
