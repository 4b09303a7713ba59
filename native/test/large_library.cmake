# Writes two sources: thousands of functions, and a library that imports them all.
set(count 6000)
set(definitions "")
set(declarations "")
set(table "")
set(calls "")
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(APPEND definitions "int large_function_with_a_name_that_takes_a_moment_to_hash_and_to_compare_${i}(void) { return ${i}; }\n")
  string(APPEND declarations "int large_function_with_a_name_that_takes_a_moment_to_hash_and_to_compare_${i}(void);\n")
  # Half are called and half have their address taken: two kinds of slots. malloc's comes first, so
  # that it can be patched while the loader still writes to the same page.
  if(i LESS 3000)
    string(APPEND calls "  sum += large_function_with_a_name_that_takes_a_moment_to_hash_and_to_compare_${i}();\n")
  else()
    string(APPEND table "  large_function_with_a_name_that_takes_a_moment_to_hash_and_to_compare_${i},\n")
  endif()
endforeach()
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/large_definitions.c CONTENT "${definitions}")
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/large_user.c CONTENT
"#include <stdlib.h>
${declarations}
static int (*const g_table[])(void) = {
${table}};
int large_sum(void) {
  int* sums = malloc(4096);
  int sum = 0;
${calls}  for (unsigned i = 0; i < sizeof(g_table) / sizeof(g_table[0]); ++i) sum += g_table[i]();
  sums[0] = sum & 0xffffff;
  sum = sums[0] | 1;
  free(sums);
  return sum;
}
")
