// /proc/self/maps, read without allocating.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/os.h"

namespace oom_guard {
namespace os {
namespace {

// One line of /proc/self/maps: "from-to rwxp offset device inode   name".
bool parse_mapping(const char* line, Mapping* out) {
  auto number = [&line](int base) {
    uintptr_t value = 0;
    for (;; ++line) {
      int digit = *line >= '0' && *line <= '9'   ? *line - '0'
                  : *line >= 'a' && *line <= 'f' ? *line - 'a' + 10
                                                 : base;
      if (digit >= base) return value;
      value = value * static_cast<uintptr_t>(base) + static_cast<uintptr_t>(digit);
    }
  };
  auto skip = [&line](char wanted) {
    if (*line != wanted) return false;
    ++line;
    return true;
  };
  out->from = number(16);
  if (!skip('-')) return false;
  out->to = number(16);
  if (!skip(' ') || strlen(line) < 5) return false;
  bool is_private = line[3] == 'p', executable = line[2] == 'x';
  line += 4;
  if (!skip(' ')) return false;
  number(16);
  if (!skip(' ')) return false;
  number(16);
  if (!skip(':')) return false;
  number(16);
  if (!skip(' ')) return false;
  uintptr_t inode = number(10);
  while (*line == ' ') ++line;
  out->anonymous = is_private && !executable && inode == 0 && *line == '\0';
  return true;
}

}  // namespace

void each_mapping(void (*visit)(void* context, const Mapping&), void* context) {
  const int saved = errno;
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char text[16384];
  size_t kept = 0;
  while (file >= 0) {
    ssize_t got = read(file, text + kept, sizeof(text) - 1 - kept);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text[kept + static_cast<size_t>(got)] = '\0';
    char* line = text;
    for (char* end; (end = strchr(line, '\n')) != nullptr; line = end + 1) {
      *end = '\0';
      Mapping mapping;
      if (parse_mapping(line, &mapping)) visit(context, mapping);
    }
    kept = strlen(line);
    if (kept == sizeof(text) - 1) kept = 0;  // longer than any line is
    memmove(text, line, kept);
  }
  if (file >= 0) close(file);
  errno = saved;
}

}  // namespace os
}  // namespace oom_guard
