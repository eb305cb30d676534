// In whose memory lazy expressions are computed, and what they do not see.
#include <cstdio>

#include "dispatch/install.h"
#include "dispatch/lazy_expression.h"
#include "tensor/copy_elements.h"

using namespace rl;

namespace {

int failures = 0;

void expect(bool ok, const char* what, int line) {
  if (ok) return;
  std::printf("line %d: %s\n", line, what);
  ++failures;
}
#define EXPECT(condition) expect(static_cast<bool>(condition), #condition, __LINE__)

// In physical layout; element i in row-major order is i.
Tensor numbered(IntSpan sizes) {
  Tensor t = empty_channels_last(sizes, {}), plain = empty(sizes, {});
  for (int64_t i = 0; i < plain.numel(); ++i) plain.data<float>()[i] = static_cast<float>(i);
  copy_elements(plain.view(), PhysicalView(t).view());
  return t;
}

// 2 x + 1, not computed yet.
Tensor lazy_of(const Tensor& x) { return make_lazy_affine(x, {2, 2, 2}, {1, 1, 1}); }
bool is_computed(const Tensor& t) { return !lazy_expression(t); }
bool is_double(const Tensor& t) {
  for (int64_t i = 0; i < t.numel(); ++i)
    if (t.data<float>()[i] != static_cast<float>(2 * i + 1)) return false;
  return true;
}

void test_lazy_results_take_memory_that_nobody_reads() {
  Tensor x = numbered(Dims{2, 3, 4, 5});
  const void* memory = PhysicalView(x).view().data;
  Tensor y = lazy_of(x), second = alias(y);
  EXPECT(!is_computed(y));
  x = Tensor();
  EXPECT(PhysicalView(y).view().data == memory && is_computed(y) && is_computed(second));
  EXPECT(is_double(y));
}

void test_lazy_results_leave_memory_that_others_read() {
  Tensor x = numbered(Dims{2, 3, 4, 5});
  const void* memory = PhysicalView(x).view().data;
  Tensor y = lazy_of(x), z = lazy_of(x);
  EXPECT(PhysicalView(y).view().data != memory);  // x itself
  x = Tensor();
  std::optional<LazyExpression> copy = lazy_expression(z);
  EXPECT(PhysicalView(z).view().data != memory);  // the copy
  EXPECT(copy->formula().operands[0].data == memory);
  EXPECT(is_double(y) && is_double(z));
  EXPECT(copy->take_operand().data() == memory);
}

void test_lazy_results_do_not_see_changes_of_operands() {
  Tensor x = numbered(Dims{2, 3, 4, 5}), y = lazy_of(x);
  copy_on_write(x);
  x.data<float>()[0] = 100;
  EXPECT(is_double(y));
  Tensor z = lazy_of(numbered(Dims{2, 3, 4, 5}));
  copy_on_write(z);  // computed, in its own memory
  EXPECT(is_computed(z) && has_physical_layout(z) && is_double(z));
}

void test_the_last_reader_takes_the_expression() {
  Tensor x = numbered(Dims{2, 3, 4, 5}), y = lazy_of(x), other = numbered(Dims{2, 3, 4, 5});
  const void* memory = PhysicalView(x).view().data;
  x = Tensor();
  std::optional<LazyExpression> taken = take_expression(y, channels_last_contents(other)->lease());
  EXPECT(taken && taken->formula().operands[0].data == memory);
  EXPECT(is_computed(y) && PhysicalView(y).view().data == memory);
  EXPECT(!take_expression(y, channels_last_contents(other)->lease()));
}

void test_elements_are_computed_again_from_what_is_read_anyway() {
  Tensor x = numbered(Dims{2, 3, 4, 5}), y = lazy_of(x);
  const float* from = PhysicalView(x).view().ptr<float>();
  PhysicalView computed(y);
  LazyExpression reader(kernels::affine_strip());
  reader.add_operand(*channels_last_contents(y));
  EXPECT(reader.formula().operands[0].data == computed.view().data);
  LazyExpression unchanged = reader;
  unchanged.rematerialize(channels_last_contents(y)->lease());
  EXPECT(unchanged.formula().operands[0].data == computed.view().data);
  reader.rematerialize(channels_last_contents(x)->lease());
  EXPECT(!reader.formula().operands[0].data && reader.formula().stream() == from);
  reader = unchanged;
  copy_on_write(x);  // another version
  reader.rematerialize(channels_last_contents(x)->lease());
  EXPECT(reader.formula().operands[0].data == computed.view().data);
}

}  // namespace

int main() {
  install_ops();
  test_lazy_results_take_memory_that_nobody_reads();
  test_lazy_results_leave_memory_that_others_read();
  test_lazy_results_do_not_see_changes_of_operands();
  test_the_last_reader_takes_the_expression();
  test_elements_are_computed_again_from_what_is_read_anyway();
  if (live_tensors() || live_storages() || memory_stats().allocated) {
    std::printf("%ld tensors, %ld storages and %ld bytes are left\n", live_tensors(),
                live_storages(), memory_stats().allocated);
    return 1;
  }
  std::printf(failures ? "%d failures\n" : "passed\n", failures);
  return failures != 0;
}
