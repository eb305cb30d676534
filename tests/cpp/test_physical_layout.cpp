// The physical layout in the tensor layer: who sees plain order, when it is made, and leases.
#include <cstdio>

#include "tensor/copy_elements.h"
#include "tensor/physical_layout.h"

using namespace rl;

namespace {

int failures = 0, copies = 0;

void expect(bool ok, const char* what, int line) {
  if (ok) return;
  std::printf("line %d: %s\n", line, what);
  ++failures;
}
#define EXPECT(condition) expect(static_cast<bool>(condition), #condition, __LINE__)

void copy(const View& from, const View& to) {
  ++copies;
  for (int64_t i = 0; i < from.numel; ++i) {
    int64_t rest = i, source = 0, target = 0;
    for (int64_t d = from.ndim - 1; d >= 0; --d) {
      source += rest % from.sizes[d] * from.strides[d];
      target += rest % from.sizes[d] * to.strides[d];
      rest /= from.sizes[d];
    }
    to.ptr<float>()[target] = from.ptr<float>()[source];
  }
}

// Element i in row-major order is i.
Tensor numbered(IntSpan sizes) {
  Tensor t = empty_channels_last(sizes, {}), plain = empty(sizes, {});
  for (int64_t i = 0; i < plain.numel(); ++i) plain.data<float>()[i] = static_cast<float>(i);
  copy(plain.view(), PhysicalView(t).view());
  copies = 0;
  return t;
}

bool in_sequence(const Tensor& t) {
  for (int64_t i = 0; i < t.numel(); ++i)
    if (t.data<float>()[i] != static_cast<float>(i)) return false;
  return true;
}

void test_plain_where_order_makes_no_difference() {
  for (const Dims& sizes :
       {Dims{2, 3, 1, 1}, Dims{2, 1, 4, 5}, Dims{0, 3, 4, 5}, Dims{3, 4}, Dims()})
    EXPECT(!has_physical_layout(empty_channels_last(sizes, {})));
  for (const Dims& sizes : {Dims{2, 3, 4}, Dims{1, 3, 4, 5}, Dims{2, 3, 1, 4, 5}})
    EXPECT(has_physical_layout(empty_channels_last(sizes, {})));
}

void test_data_is_plain() {
  Tensor t = numbered(Dims{2, 3, 4, 5});
  EXPECT(t.is_contiguous() && has_physical_layout(t));
  EXPECT(PhysicalView(t).is_channels_last() && copies == 0);
  EXPECT(PhysicalView(t).view().ptr<float>()[1] == 20);  // the second channel of the first pixel
  EXPECT(in_sequence(t) && !has_physical_layout(t) && copies == 1);
  EXPECT(!PhysicalView(t).is_channels_last() && copies == 1);
}

void test_handles_share_one_order() {
  Tensor t = numbered(Dims{2, 3, 4, 5}), same = alias(t), row = alias(t, Dims{60}, Dims{1}, 60);
  EXPECT(has_physical_layout(same) && !has_physical_layout(row));
  EXPECT(memory_overlap(t, same) == Overlap::Same && has_physical_layout(t));
  EXPECT(row.data<float>()[0] == 60 && !has_physical_layout(t) && !has_physical_layout(same));
  EXPECT(in_sequence(t) && in_sequence(same) && copies == 1);
  EXPECT(same.data<float>() == t.data<float>() && row.data<float>() == t.data<float>() + 60);
}

void test_overlap_with_a_window() {
  Tensor t = numbered(Dims{2, 3, 4, 5}), row = alias(t, Dims{60}, Dims{1}, 60);
  EXPECT(memory_overlap(t, row) == Overlap::Partial);
  EXPECT(in_sequence(t));
}

void test_held_elements_outlive_the_change() {
  Tensor t = numbered(Dims{2, 3, 4, 5});
  PhysicalView held(t);
  EXPECT(in_sequence(t) && held.view().ptr<float>()[1] == 20);
}

void test_orders_to_and_fro() {
  Tensor t = numbered(Dims{2, 3, 4, 5}), plain = in_order(t, false), again = in_order(plain, true);
  EXPECT(has_physical_layout(t) && !has_physical_layout(plain) && has_physical_layout(again));
  EXPECT(in_order(t, true).is_same(t) && in_order(plain, false).is_same(plain));
  EXPECT(in_sequence(plain) && in_sequence(again) && in_sequence(t));
  EXPECT(has_physical_layout(empty_in_layout_of(numbered(Dims{2, 3, 4}), DType::Int64)));
}

void test_owner_and_leases() {
  BufferOwner owner = BufferOwner::allocate(4096);
  void* data = owner.data();
  EXPECT(!owner.is_leased());
  BufferLease one = owner.lease(), two = one;
  EXPECT(owner.is_leased() && one.data() == data && one.version() == two.version());
  EXPECT(!BufferOwner::take(one) && one);  // there is an owner
  owner = BufferOwner();
  EXPECT(!BufferOwner::take(one) && one);  // there is another lease
  two = BufferLease();
  BufferOwner heir = BufferOwner::take(one);
  EXPECT(heir && heir.data() == data && !one && !heir.is_leased());
  uint64_t before = heir.lease().version();
  heir.note_change();
  EXPECT(heir.lease().version() != before && !heir.lease().provenance());
  BufferLease last = heir.lease();
  heir = BufferOwner();
  *static_cast<int*>(last.data()) = 1;  // the lease keeps the memory
}

void test_changes_in_place_see_leases_and_no_other_handles() {
  Tensor t = numbered(Dims{2, 3, 4, 5}), same = alias(t);
  Ref<ChannelsLastContents> handle = channels_last_contents(t), another = handle;
  const void* data = PhysicalView(t).view().data;
  copy_on_write(t);
  EXPECT(has_physical_layout(t) && PhysicalView(t).view().data == data && copies == 0);
  BufferLease lease = handle->lease();
  copy_on_write(t);
  EXPECT(!has_physical_layout(t) && copies == 1 && lease.data() == data && in_sequence(same));
}

}  // namespace

int main() {
  copy_elements = copy;
  test_plain_where_order_makes_no_difference();
  test_data_is_plain();
  test_handles_share_one_order();
  test_overlap_with_a_window();
  test_held_elements_outlive_the_change();
  test_orders_to_and_fro();
  test_owner_and_leases();
  copies = 0;
  test_changes_in_place_see_leases_and_no_other_handles();
  if (live_tensors() || live_storages() || memory_stats().allocated) {
    std::printf("%ld tensors, %ld storages and %ld bytes are left\n", live_tensors(),
                live_storages(), memory_stats().allocated);
    return 1;
  }
  std::printf(failures ? "%d failures\n" : "passed\n", failures);
  return failures != 0;
}
