#include "kernels/cuda/radix.h"

namespace rl::cuda {
namespace {

constexpr const char* header = "kernels/cuda/device/radix.cuh";
constexpr Grid block{radix_digits};

KernelTemplate loads(header), counts(header), offsets(header), scatters(header), stores(header),
    nan_counts(header), begins(header), digit_counts(header), digits(header), tallies(header),
    gathers(header);

uint64_t of(DType t) { return static_cast<uint64_t>(t); }
const char* key_type(int64_t bytes) {
  return bytes == 1 ? "uint8_t" : bytes == 2 ? "uint16_t" : bytes == 4 ? "uint32_t" : "uint64_t";
}
const char* place_type(bool wide) { return key_type(wide ? 8 : 4); }
uint64_t variant_of(DType t, bool wide) { return of(t) * 2 + wide; }
uint64_t variant_of(int64_t bytes, bool wide) { return static_cast<uint64_t>(bytes) * 2 + wide; }

// Of each of `rows` rows of counts, the sums before each; of a sort, if it has a pass for the
// shift.
void sum_counts(const LongLines& given, const RadixBuffers& sort, int shift, bool wide,
                void* rows_of_counts, int64_t rows, int64_t length, void* totals) {
  CUfunction f = offsets.get(wide, given.device, given.op,
                             [&] { return instance("radix_offsets", place_type(wide)); });
  bool narrow = length <= 64;  // a warp takes a row
  Grid grid = blocks_of_rows(narrow ? (rows + 7) / 8 : rows);
  launch_kernel(f, given.device, given.op, grid, narrow ? Grid{32, 8} : block, 0, sort, shift,
                rows_of_counts, rows, length, totals);
}

}  // namespace

RadixSort::RadixSort(const Context& context, const LongLines& given)
    : given_(given), wide_(given.count > 0x7fffffff), bits_(16, given.device) {
  int64_t rows = given_.lines.numel, total = rows * given_.count, bytes = itemsize(given_.dtype);
  int64_t place_bytes = wide_ ? 8 : 4, rows_of_counts = rows * radix_digits;
  RadixLines lines = given_.in_tiles(place_bytes);
  set_zero(context, bits_.get(), 16);
  buffers_.bits = bits_.get<uint64_t>();
  for (int i = 0; i < 2; ++i) {
    keys_[i].emplace(static_cast<size_t>(total * bytes), given_.device);
    buffers_.keys[i] = keys_[i]->get();
    if (i == 0 && bytes == 1) continue;  // the only pass finds places by itself
    places_[i].emplace(static_cast<size_t>(total * place_bytes), given_.device);
    buffers_.places[i] = places_[i]->get();
  }
  Scratch of_tiles(static_cast<size_t>(rows_of_counts * lines.tiles * place_bytes), given_.device);
  Scratch totals(static_cast<size_t>(rows_of_counts * place_bytes), given_.device);
  CUfunction f = loads.get(variant_of(given_.dtype, wide_), given_.device, given_.op,
                           [&] { return instance("radix_load", given_.dtype, place_type(wide_)); });
  launch_kernel(f, given_.device, given_.op, blocks_of_rows(rows * lines.tiles), block, 0,
                given_.lines, lines, buffers_);
  for (int shift = 0; shift < 8 * bytes; shift += 8)
    sort_by(shift, lines, of_tiles.get(), totals.get());
}

// One digit, if keys differ in it.
void RadixSort::sort_by(int shift, RadixLines lines, void* of_tiles, void* totals) {
  int64_t rows = given_.lines.numel, bytes = itemsize(given_.dtype);
  auto get = [&](KernelTemplate& kernel, const char* name) {
    return kernel.get(variant_of(bytes, wide_), given_.device, given_.op,
                      [&] { return instance(name, key_type(bytes), place_type(wide_)); });
  };
  Grid grid = blocks_of_rows(rows * lines.tiles);
  launch_kernel(get(counts, "radix_count"), given_.device, given_.op, grid, block, 0, buffers_,
                rows, lines, shift, of_tiles);
  sum_counts(given_, buffers_, shift, wide_, of_tiles, rows * radix_digits, lines.tiles, totals);
  launch_kernel(get(scatters, "radix_scatter"), given_.device, given_.op, grid, block, 0, buffers_,
                rows, lines, shift, of_tiles, totals);
}

void RadixSort::store(int64_t first, int64_t take, const int64_t* through, const LineTarget& values,
                      const LineTarget& indices) {
  CUfunction f = stores.get(variant_of(given_.dtype, wide_), given_.device, given_.op, [&] {
    return instance("radix_store", given_.dtype, place_type(wide_));
  });
  int64_t tile = 4 * radix_digits;
  Grid grid = blocks_of_rows(given_.lines.numel * ((take + tile - 1) / tile));
  launch_kernel(f, given_.device, given_.op, grid, block, 0, buffers_, given_.lines,
                given_.in_tiles(), first, take, through, values.lines, values.step, indices.lines,
                indices.step);
}

RadixSelect::RadixSelect(const Context& context, const LongLines& given, SelectKind kind,
                         int64_t rank, SelectTaken taken)
    : given_(given),
      taken_(taken),
      states_(static_cast<size_t>(given.lines.numel) * sizeof(SelectState), given.device),
      tallies_(static_cast<size_t>(given.lines.numel * 2 * given.in_tiles().tiles) * 8,
               given.device) {
  find(context, kind, rank);
  int64_t rows = given_.lines.numel;
  RadixLines lines = given_.in_tiles();
  Scratch totals(static_cast<size_t>(rows) * 2 * 8, given_.device);
  CUfunction f = tallies.get(of(given_.dtype), given_.device, given_.op,
                             [&] { return instance("select_tally", given_.dtype); });
  launch_kernel(f, given_.device, given_.op, blocks_of_rows(rows * lines.tiles), block, 0,
                given_.lines, lines, states_.get(), taken_.any_order, tallies_.get());
  sum_counts(given_, RadixBuffers{}, 0, true, tallies_.get(), rows * 2, lines.tiles, totals.get());
}

// The key of the rank in each line, digit by digit.
void RadixSelect::find(const Context& context, SelectKind kind, int64_t rank) {
  int device = given_.device;
  const char* op = given_.op;
  int64_t rows = given_.lines.numel, count = given_.count, bytes = itemsize(given_.dtype);
  RadixLines lines = given_.in_tiles();
  Scratch found(static_cast<size_t>(rows) * radix_digits * 8, device);
  set_zero(context, states_.get(), static_cast<size_t>(rows) * sizeof(SelectState));
  set_zero(context, found.get(), static_cast<size_t>(rows) * radix_digits * 8);
  CUfunction f;
  if (kind != SelectRank && is_floating(given_.dtype)) {
    f = nan_counts.get(of(given_.dtype), device, op,
                       [&] { return instance("count_nans", given_.dtype); });
    launch_kernel(f, device, op, blocks_of_rows(rows * lines.tiles), block, 0, given_.lines, lines,
                  states_.get());
  }
  f = begins.get(0, device, op, [&] { return instance("select_begin", 0); });
  launch_elements(f, device, op, rows, states_.get(), rows, count, rank, static_cast<int>(kind));
  int64_t parts = std::min<int64_t>(
      (count + 4095) / 4096, std::max<int64_t>(8 * properties(device).multiprocessors / rows, 1));
  CUfunction counting = digit_counts.get(of(given_.dtype), device, op,
                                         [&] { return instance("select_count", given_.dtype); });
  CUfunction choosing = digits.get(0, device, op, [&] { return instance("select_digit", 0); });
  for (int shift = 8 * static_cast<int>(bytes) - 8; shift >= 0; shift -= 8) {
    launch_kernel(counting, device, op, blocks_of_rows(rows * parts), block, 0, given_.lines, lines,
                  parts, shift, states_.get(), found.get());
    launch_kernel(choosing, device, op, blocks_of_rows(rows), block, 0, states_.get(), rows, shift,
                  taken_.only, found.get());
  }
}

void RadixSelect::store(const LineTarget& values, const LineTarget& indices) {
  RadixLines lines = given_.in_tiles();
  CUfunction f = gathers.get(of(given_.dtype), given_.device, given_.op,
                             [&] { return instance("select_gather", given_.dtype); });
  launch_kernel(f, given_.device, given_.op, blocks_of_rows(given_.lines.numel * lines.tiles),
                block, 0, given_.lines, lines, states_.get(), tallies_.get(), taken_, values.lines,
                values.step, indices.lines, indices.step);
}

}  // namespace rl::cuda
