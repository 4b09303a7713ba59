# Every known way to fail. What each provokes stands at the head of its source; docs/counting.md lists
# them. Labels: fast, preload (with another provider of malloc), fuzz.

set(SANITIZER_OPTIONS "")
if(OOM_GUARD_SANITIZE)
  set(SANITIZER_OPTIONS ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0
    TSAN_OPTIONS=halt_on_error=1:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/tsan.supp
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1)
endif()
set(NO_CACHES "glibc.malloc.tcache_count=0")

# failure_library(<name> <source> [OPTIONS compile options...] [LINK link options and libraries...]):
# lib<name>.so, beside the test programs.
function(failure_library name source)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "OPTIONS;LINK")
  add_library(${name} SHARED ${source})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
  target_compile_options(${name} PRIVATE -Wall -fno-builtin ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
endfunction()

# failure_program(<name> [libraries it loads...]): <name>.cc, linked with the engine.
function(failure_program name)
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE oom_guard_engine ${CMAKE_DL_LIBS} pthread)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_compile_options(${name} PRIVATE -Wall -Wextra -fno-builtin)
  if(ARGN)
    add_dependencies(${name} ${ARGN})
  endif()
endfunction()

# failure_test(<test> <program> <label> [environment...] [ARGS arguments...])
function(failure_test test program label)
  cmake_parse_arguments(PARSE_ARGV 3 ARG "" "" "ARGS")
  if(program IN_LIST NOT_SANITIZED)
    return()
  endif()
  add_test(NAME ${test} COMMAND ${program} ${ARG_ARGS})
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS "${label}"
    ENVIRONMENT "${ARG_UNPARSED_ARGUMENTS};${SANITIZER_OPTIONS}")
endfunction()

set(EXPECT_GLIBC "OOM_GUARD_EXPECT=glibc")
set(NOT_SANITIZED "")
if(OOM_GUARD_SANITIZE)
  # The sanitizer's runtime provides malloc then, and allocates inside its own strdup and getline,
  # past all slots; it answers for weak symbols, calls dlopen in the name of others, and leaves its
  # own locks locked in a child of fork.
  set(EXPECT_GLIBC "")
  set(NOT_SANITIZED originals_under_provider counted_once ten_thousand_short_threads
    weak_undefined_symbol runpath_still_works fork_vfork_exec_storm fork_while_rescanning)
  if(OOM_GUARD_SANITIZE STREQUAL thread)
    # Its runtime lies in the program, whose own calls of malloc pass no slot: what is left are the
    # libraries' calls. And it takes half a minute over a thousand libraries, for a single thread.
    list(APPEND NOT_SANITIZED address_taken_import zero_failed_shrinking jemalloc_without_hooks
      two_copies too_many_images frees_around_thread_end)
  endif()
endif()

failure_library(lazy_user user_library.c LINK -Wl,-z,lazy)
failure_library(bound_user user_library.c LINK -Wl,-z,now -Wl,-z,relro)
failure_library(other_user user_library.c LINK -Wl,-z,lazy)

# Programs that run under every provider.
set(UNDER_PROVIDERS originals_under_provider counted_once zero_failed_shrinking
  ten_thousand_short_threads frees_around_thread_end)
foreach(program ${UNDER_PROVIDERS})
  failure_program(${program})
  failure_test(${program} ${program} fast ${EXPECT_GLIBC} "GLIBC_TUNABLES=${NO_CACHES}")
endforeach()

target_compile_options(counted_once PRIVATE -fsized-deallocation)

foreach(program load_unload_while_patching reload_same_address)
  failure_program(${program} lazy_user bound_user other_user)
  failure_test(${program} ${program} fast "GLIBC_TUNABLES=${NO_CACHES}")
endforeach()
foreach(program address_taken_import exit_while_allocating snapshots_while_allocating)
  failure_program(${program})
  failure_test(${program} ${program} fast)
endforeach()
failure_program(fork_vfork_exec_storm lazy_user)
failure_test(fork_vfork_exec_storm fork_vfork_exec_storm fast)
failure_program(fork_while_rescanning lazy_user)
failure_test(fork_while_rescanning fork_while_rescanning fast)
failure_library(embedded_jemalloc embedded_jemalloc.c OPTIONS -fno-inline -fsemantic-interposition
  LINK -Wl,-z,now)
failure_program(overwritten_slots bound_user embedded_jemalloc)
target_sources(overwritten_slots PRIVATE ../callsites/elf_image.cc)
failure_test(overwritten_slots overwritten_slots fast)
failure_library(exports_nothing_library exports_nothing.c OPTIONS -fvisibility=hidden
  LINK -Wl,--hash-style=both)
set_target_properties(exports_nothing_library PROPERTIES OUTPUT_NAME exports_nothing)
failure_program(freed_totals_are_checked)
target_sources(freed_totals_are_checked PRIVATE ../callsites/freed_totals.cc)
failure_test(freed_totals_are_checked freed_totals_are_checked fast)
failure_program(exports_nothing exports_nothing_library)
failure_test(exports_nothing exports_nothing fast)
failure_library(calls_back calls_back.c)
failure_program(destructors_on_our_thread calls_back)
failure_test(destructors_on_our_thread destructors_on_our_thread fast)
failure_program(refused_threads bound_user)
failure_test(refused_threads refused_threads fast)
failure_program(too_many_images bound_user embedded_jemalloc)
failure_test(too_many_images too_many_images fast)
failure_library(slow_constructor slow_constructor.c)
failure_program(slow_load slow_constructor)
failure_test(slow_load slow_load fast)
failure_program(rescan_meanwhile bound_user)
failure_test(rescan_meanwhile rescan_meanwhile fast)

include(large_library.cmake)
failure_library(large_definitions ${CMAKE_CURRENT_BINARY_DIR}/large_definitions.c)
# One for each thread that loads: what another has loaded is not relocated again.
foreach(copy a b)
  failure_library(large_now_${copy} ${CMAKE_CURRENT_BINARY_DIR}/large_user.c
    LINK large_definitions -Wl,-z,now -Wl,-z,relro)
endforeach()
failure_program(large_now_library large_now_a large_now_b)
failure_test(large_now_library large_now_library fast)

failure_library(weak_definitions weak_definitions.c
  LINK -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/weak_definitions.map)
failure_library(weak_definitions_linked weak_definitions.c OPTIONS -DWITH_VALLOC
  LINK -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/weak_definitions.map)
# Linked with the one, it asks for the other at run time.
set_target_properties(weak_definitions_linked PROPERTIES NO_SONAME ON)
target_link_options(weak_definitions_linked PRIVATE -Wl,-soname,libweak_definitions.so)
failure_library(weak_user weak_user.c LINK weak_definitions_linked -Wl,-z,now)
failure_program(weak_undefined_symbol weak_user weak_definitions)
failure_test(weak_undefined_symbol weak_undefined_symbol fast)

failure_library(inner_user user_library.c)
set_target_properties(inner_user PROPERTIES OUTPUT_NAME found_by_runpath
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/inner)
failure_library(runs_path runpath_outer.c
  LINK ${CMAKE_DL_LIBS} -Wl,--enable-new-dtags "-Wl,-rpath,$ORIGIN/inner")
set_target_properties(runs_path PROPERTIES BUILD_RPATH "\$ORIGIN/inner")
failure_program(runpath_still_works runs_path inner_user)
failure_test(runpath_still_works runpath_still_works fast)

failure_library(jemalloc_hooks_missing jemalloc_without_hooks.c
  OPTIONS -DPREFIX=plain_je_ -DHOOKS_ERROR=ENOENT)
set_target_properties(jemalloc_hooks_missing PROPERTIES OUTPUT_NAME jemalloc_without_hooks)
failure_library(jemalloc_hooks_full jemalloc_without_hooks.c
  OPTIONS -DPREFIX=full_je_ -DHOOKS_ERROR=EAGAIN)
set_target_properties(jemalloc_hooks_full PROPERTIES OUTPUT_NAME jemalloc_hooks_taken)
failure_program(jemalloc_without_hooks jemalloc_hooks_missing jemalloc_hooks_full)
failure_test(jemalloc_without_hooks jemalloc_without_hooks fast)

# Copies of the engine, with a function that only this test needs.
foreach(copy a b c)
  failure_library(engine_copy_${copy} two_copies_probe.cc
    LINK -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro)
  target_sources(engine_copy_${copy} PRIVATE $<TARGET_OBJECTS:oom_guard_engine>)
endforeach()
failure_library(two_copies_foreign two_copies_foreign.cc)
add_executable(two_copies two_copies.cc)
target_include_directories(two_copies PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
target_link_libraries(two_copies PRIVATE ${CMAKE_DL_LIBS} pthread)
target_compile_definitions(two_copies PRIVATE _GNU_SOURCE)
target_compile_options(two_copies PRIVATE -Wall -Wextra -fno-builtin)
add_dependencies(two_copies engine_copy_a engine_copy_b engine_copy_c two_copies_foreign)
set(A libengine_copy_a.so)
set(B libengine_copy_b.so)
failure_test(two_copies two_copies fast ARGS ${A} ${B})
failure_test(two_copies_other_order two_copies fast ARGS ${B} ${A})
failure_test(two_copies_after_a_foreign_one two_copies fast ARGS foreign ${A} ${B})
failure_test(two_copies_before_a_foreign_one two_copies fast ARGS ${A} foreign ${B})
failure_test(two_copies_of_which_a_foreign_one_counts two_copies fast ARGS foreign-started ${A} ${B})

if(NOT OOM_GUARD_SANITIZE)
  # Not with a sanitizer: it must be the provider of malloc itself; it wants to be loaded before any
  # preloaded library; it sees neither through the filter nor into another malloc.
  failure_library(bump bump_allocator.c)
  failure_library(deep_bound_user user_library.c LINK -Wl,-z,lazy -Wl,--no-as-needed bump)
  failure_program(deep_bound_with_own_malloc deep_bound_user lazy_user)
  failure_test(deep_bound_with_own_malloc deep_bound_with_own_malloc fast
    "GLIBC_TUNABLES=${NO_CACHES}")

  failure_program(denied_mprotect lazy_user bound_user)
  failure_test(denied_mprotect denied_mprotect fast)

  failure_library(fake_provider fake_provider.c)
  failure_program(provider_calls_itself_through_slots fake_provider)
  failure_test(provider_calls_itself_through_slots provider_calls_itself_through_slots preload
    OOM_GUARD_EXPECT=fake_provider "LD_PRELOAD=$<TARGET_FILE:fake_provider>")
  failure_program(jemalloc_failed_posix_memalign)
  failure_program(jemalloc_hooks_taken)

  # failure_test under a preloaded library, which the loader finds by its name.
  function(preload_test provider library program)
    set(test ${program}_${provider})
    if(ARGN MATCHES "JEMALLOC=([a-z]+)")
      string(APPEND test _by_${CMAKE_MATCH_1})
    endif()
    failure_test(${test} ${program} preload OOM_GUARD_EXPECT=${provider}
      LD_PRELOAD=${library} ${ARGN})
  endfunction()
  set(JEMALLOC libjemalloc.so.2)
  set(BY_HOOKS OOM_GUARD_TEST_JEMALLOC=hooks)
  foreach(program ${UNDER_PROVIDERS} provider_calls_itself_through_slots
      jemalloc_failed_posix_memalign jemalloc_hooks_taken load_unload_while_patching)
    preload_test(jemalloc ${JEMALLOC} ${program})
    preload_test(jemalloc ${JEMALLOC} ${program} ${BY_HOOKS})
  endforeach()
  foreach(program ${UNDER_PROVIDERS})
    preload_test(mimalloc libmimalloc.so.2.0 ${program})
    preload_test(tcmalloc libtcmalloc_minimal.so.4 ${program})
    preload_test(libc_malloc_debug libc_malloc_debug.so.0 ${program}
      "GLIBC_TUNABLES=glibc.malloc.check=3")
  endforeach()
  preload_test(jemalloc ${JEMALLOC} freed_totals_are_checked)
  preload_test(jemalloc ${JEMALLOC} fork_vfork_exec_storm)
  preload_test(jemalloc ${JEMALLOC} exit_while_allocating)
  preload_test(tcmalloc libtcmalloc_minimal.so.4 load_unload_while_patching)
  preload_test(mimalloc libmimalloc.so.2.0 exit_while_allocating)

  # glibc's tunables change how its blocks are made; the size in the header must still be the truth.
  foreach(tunable hugetlb=1 hugetlb=2 perturb=165 mmap_threshold=4096 arena_max=1)
    string(REPLACE "=" "_" suffix ${tunable})
    foreach(program ${UNDER_PROVIDERS})
      failure_test(${program}_${suffix} ${program} fast ${EXPECT_GLIBC}
        "GLIBC_TUNABLES=glibc.malloc.${tunable}:${NO_CACHES}")
    endforeach()
  endforeach()
  foreach(program ${UNDER_PROVIDERS})
    failure_test(${program}_with_thread_caches ${program} fast ${EXPECT_GLIBC})
  endforeach()
endif()

if(NOT OOM_GUARD_SANITIZE)
  # Brings its own sanitizers.
  add_subdirectory(fuzz)
endif()

# Allocators that images keep to themselves.
add_executable(page_ranges_against_model page_ranges_against_model.cc ../counter/page_ranges.cc)
target_include_directories(page_ranges_against_model PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
target_link_libraries(page_ranges_against_model PRIVATE oom_guard_engine pthread)
target_compile_options(page_ranges_against_model PRIVATE -Wall -Wextra ${SANITIZE_FLAGS})
target_link_options(page_ranges_against_model PRIVATE ${SANITIZE_FLAGS})
failure_test(page_ranges_against_model page_ranges_against_model fast)
add_executable(dropped_while_mapping dropped_while_mapping.cc ../allocators/residency.cc
  ../counter/page_ranges.cc ../os/linux.cc ../os/linux_mappings.cc)
target_include_directories(dropped_while_mapping PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
target_compile_definitions(dropped_while_mapping PRIVATE _GNU_SOURCE)
target_link_libraries(dropped_while_mapping PRIVATE oom_guard_engine pthread)
target_compile_options(dropped_while_mapping PRIVATE -Wall -Wextra ${SANITIZE_FLAGS})
target_link_options(dropped_while_mapping PRIVATE ${SANITIZE_FLAGS})
failure_test(dropped_while_mapping dropped_while_mapping fast)
add_executable(reservations_across_threads reservations_across_threads.cc ../watch/reservations.cc
  ../os/linux.cc)
target_include_directories(reservations_across_threads PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
target_compile_definitions(reservations_across_threads PRIVATE _GNU_SOURCE)
target_link_libraries(reservations_across_threads PRIVATE oom_guard_engine pthread)
target_compile_options(reservations_across_threads PRIVATE -Wall -Wextra ${SANITIZE_FLAGS})
target_link_options(reservations_across_threads PRIVATE ${SANITIZE_FLAGS})
failure_test(reservations_across_threads reservations_across_threads fast)
if(NOT OOM_GUARD_SANITIZE)
  # A sanitizer stands in for libc's mmap.
  failure_library(hidden_bump hidden_bump.c LINK -Wl,-z,now -Wl,-z,relro)
  failure_library(hidden_bump_lazy hidden_bump.c LINK -Wl,-z,lazy)
  failure_program(hidden_allocator_by_pages hidden_bump hidden_bump_lazy)
  failure_test(hidden_allocator_by_pages hidden_allocator_by_pages fast ARGS libhidden_bump.so)
  add_dependencies(slow_load hidden_bump)
  failure_test(slow_load_while_sampling slow_load fast ARGS samples)
  set_tests_properties(slow_load slow_load_while_sampling PROPERTIES RUN_SERIAL ON)
  failure_test(hidden_allocator_by_pages_lazily_bound hidden_allocator_by_pages fast
    ARGS libhidden_bump_lazy.so)
endif()
