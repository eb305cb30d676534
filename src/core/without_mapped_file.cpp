// In place of mapped_file.cpp on systems without virtual memory: the bytes are read at once.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/mapped_file.h"

namespace rl {

void (*on_lost_page)(const char* name) = nullptr;

Ref<Storage> map_file(int descriptor, int64_t nbytes, bool shared, const std::string& name) {
  check(nbytes > 0, "map_file: cannot map ", nbytes, " bytes");
  check(!shared, "map_file: this system maps no files, so that changes cannot reach ", name,
        ": expected shared=False");
  Ref<Storage> storage = Storage::create(nbytes, Device());
  auto* at = static_cast<char*>(storage->data);
  for (int64_t done = 0; done < nbytes;) {
    ssize_t count = pread(descriptor, at + done, static_cast<size_t>(nbytes - done), done);
    check(count > 0, "map_file: cannot read ", nbytes, " bytes of ", name, ": ",
          count < 0 ? std::strerror(errno) : "it is shorter");
    done += count;
  }
  storage->resizable = false;  // as a mapping
  return storage;
}

}  // namespace rl
