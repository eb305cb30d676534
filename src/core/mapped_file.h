// Storages on the bytes of files, read as they are touched.
#pragma once
#include <string>

#include "core/storage.h"

namespace rl {

// A storage on the first bytes of an open file, which may be closed afterwards. Changes of the
// bytes go to the file if the mapping is `shared`, else they stay in this process. The file must be
// that long. `name` is for messages.
//
// A page that somebody cuts off the file later cannot be read any more: the system sends SIGBUS to
// who touches it. The page is replaced by one of zeros then, and `on_lost_page` is told.
Ref<Storage> map_file(int descriptor, int64_t nbytes, bool shared, const std::string& name);

// Called within a signal handler, and so restricted to what may be done there. Set by bind.
extern void (*on_lost_page)(const char* name);

}  // namespace rl
