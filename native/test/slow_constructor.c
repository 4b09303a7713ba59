/* A library whose constructor takes its time. */
#include <time.h>

__attribute__((constructor)) static void take_time(void) {
  struct timespec seconds = {3, 0};
  nanosleep(&seconds, NULL);
}
