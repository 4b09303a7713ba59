{
  "variables": {
    # A gypi file would be another place to look; the CMake build lists the same files.
    "engine_sources": [
      "native/allocators/glibc.cc",
      "native/allocators/hidden.cc",
      "native/allocators/jemalloc.cc",
      "native/allocators/pages.cc",
      "native/allocators/registry.cc",
      "native/allocators/residency.cc",
      "native/allocators/statistics.cc",
      "native/allocators/uncounted_loads.cc",
      "native/callsites/elf_image.cc",
      "native/callsites/freed_totals.cc",
      "native/callsites/image_table.cc",
      "native/callsites/map_wrappers.cc",
      "native/callsites/large_allocations.cc",
      "native/callsites/nesting.cc",
      "native/callsites/patcher.cc",
      "native/callsites/provider.cc",
      "native/callsites/slot_writer.cc",
      "native/callsites/wrappers.cc",
      "native/counter/page_ranges.cc",
      "native/counter/thread_number.cc",
      "native/engine/engine.cc",
      "native/watch/heaps.cc",
      "native/os/linux.cc",
      "native/os/linux_mappings.cc",
      "native/watch/rescanner.cc",
      "native/watch/reservations.cc",
      "native/watch/sampler.cc",
      "native/watch/watchdog.cc"
    ]
  },
  "targets": [
    {
      "target_name": "oom_guard",
      "conditions": [
        ["OS=='linux'", {
          "sources": ["native/addon.cc", "<@(engine_sources)"],
          "include_dirs": ["native", "<!(node -p \"require('node-addon-api').include_dir\")"],
          "defines": [
            "NAPI_VERSION=8",
            "NAPI_DISABLE_CPP_EXCEPTIONS",
            "NODE_ADDON_API_DISABLE_DEPRECATED",
            # While an environment is being ended nothing can be called or thrown; that is no reason to abort.
            "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS",
            "NODE_API_NO_EXTERNAL_BUFFERS_ALLOWED",
            "_GNU_SOURCE"
          ],
          "cflags_cc": [
            "-std=c++17",
            "-O2",
            "-fno-exceptions",
            "-fno-rtti",
            "-fomit-frame-pointer",
            "-fasynchronous-unwind-tables",
            "-fvisibility=hidden",
            "-Wall",
            "-Wextra",
            "-fno-builtin-malloc",
            "-fno-builtin-calloc",
            "-fno-builtin-realloc",
            "-fno-builtin-free"
          ],
          "cflags!": ["-fno-omit-frame-pointer"],
          "cflags_cc!": ["-fexceptions", "-frtti", "-O3", "-fno-omit-frame-pointer"],
          "ldflags": ["-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,relro"]
        }, {
          # Elsewhere the package works without the addon and says so.
          "type": "none"
        }]
      ]
    }
  ]
}
