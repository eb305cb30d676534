#include "kernels/softmax.h"

#include "kernels/copy.h"
#include "kernels/cpu/softmax_lines.h"

namespace rl::kernels {
namespace {

void forward(const char* name, bool log, const View& input, int64_t dim, const View& out) {
  const int64_t longest_across = !log ? 40 : is_reduced(input.dtype) ? 96 : 56;
  SoftmaxLines<2> lines(name, {&input, &out}, dim, longest_across);
  if (lines.worth_a_copy()) {
    copy(input, out);
    lines = SoftmaxLines<2>(name, {&out, &out}, dim, longest_across);
  }
  lines.run([log](const SoftmaxTile& tile, char* const* p, const int64_t* strides) {
    softmax_forward(log, tile, p[0], strides[0], p[1], strides[1]);
  });
}

void backward(const char* name, bool log, const View& grad, const View& output, int64_t dim,
              const View& grad_input) {
  SoftmaxLines<3>(name, {&grad, &output, &grad_input}, dim, log ? 12 : 8)
      .run([log](const SoftmaxTile& tile, char* const* p, const int64_t* strides) {
        softmax_gradient(log, tile, p[0], strides[0], p[1], strides[1], p[2], strides[2]);
      });
}

}  // namespace

void softmax(const View& input, int64_t dim, const View& out) {
  forward("softmax", false, input, dim, out);
}
void log_softmax(const View& input, int64_t dim, const View& out) {
  forward("log_softmax", true, input, dim, out);
}
void softmax_backward(const View& grad, const View& output, int64_t dim, const View& grad_input) {
  backward("softmax_backward", false, grad, output, dim, grad_input);
}
void log_softmax_backward(const View& grad, const View& output, int64_t dim,
                          const View& grad_input) {
  backward("log_softmax_backward", true, grad, output, dim, grad_input);
}

}  // namespace rl::kernels
