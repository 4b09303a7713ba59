/* Calls its host when it is unloaded. */
#include <stdlib.h>

static void (*g_at_end)(void);

__attribute__((visibility("default"))) void call_at_end(void (*at_end)(void)) {
  __atomic_store_n(&g_at_end, at_end, __ATOMIC_RELEASE);
}

__attribute__((destructor)) static void end(void) {
  void* volatile block = malloc(100);
  free(block);
  void (*at_end)(void) = __atomic_load_n(&g_at_end, __ATOMIC_ACQUIRE);
  if (at_end != NULL) at_end();
}
