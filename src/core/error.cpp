#include "core/error.h"

namespace rl {

void throw_error(ErrorKind kind, std::initializer_list<MessagePart> parts) {
  std::ostringstream text;
  for (const MessagePart& part : parts) part.write(text, part.value);
  throw Error(kind, text.str());
}

}  // namespace rl
