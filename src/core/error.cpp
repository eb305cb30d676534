#include "core/error.h"

#include "core/text_stream.h"

namespace rl {

void throw_error(ErrorKind kind, std::initializer_list<MessagePart> parts) {
  TextStream text;
  for (const MessagePart& part : parts) part.write(text, part.value);
  throw Error(kind, text.str());
}

}  // namespace rl
