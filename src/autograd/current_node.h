// The node that runs in this thread's innermost backward pass.
#pragma once
#include "autograd/node.h"

namespace rl {
Node* current_node();  // null outside of backward
}
