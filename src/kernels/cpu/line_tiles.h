// The lines along one dim of views, handed to loops in tiles.
#pragma once
#include <initializer_list>

#include "kernels/cpu/scan_rows.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {

// The elements [begin, begin + n) of `lines` neighbouring lines in each of `blocks` blocks. Loops
// read operand k from from[k] and write it to to[k].
struct LineTile {
  static constexpr int most_operands = 3;
  int64_t begin, n, lines, blocks;
  TileOperand from[most_operands], to[most_operands];
  void* carry;  // 16 bytes a line that last from one tile of these lines to the next; null if the
                // tile has all of their elements
};

// What loops see as one operand: the view it is read from and the one it is written to, either may
// be null, and the dtype that the loops compute with.
struct LineOperand {
  const View *from, *to;
  DType element;
};

// Lines are cut into pieces, unless they are to be whole. Turned pieces are copies of n rows of
// `lines` elements, so that vectors go across the lines, however these lie in memory.
enum class LineShape { pieces, whole, turned };

// Operands are handed on where they lie if their elements have the dtype of the loops and these are
// fast there, else through a copy that many short lines share: a copy of each took 10 times as long
// as its scan.
class LineTiles {
 public:
  // The first operand is written. With `reverse` lines run from their last element to the first.
  LineTiles(std::initializer_list<LineOperand> operands, int64_t dim, LineShape shape,
            bool reverse = false);

  // f(tile), in threads; the tiles of a line one after the other.
  template <class F>
  void run(const F& f) const {
    run_any({&f, [](const void* context, const LineTile& tile) {
               (*static_cast<const F*>(context))(tile);
             }});
  }

 private:
  // A function of any type: a copy of the code around each took 15 KB.
  struct TileLoop {
    const void* context;
    void (*call)(const void*, const LineTile&);
  };
  struct Scratch;

  bool is_direct(int view, DType element) const;
  void run_any(TileLoop f) const;
  void run_lines(char* const* start, int64_t m, TileLoop f) const;
  void run_tile(LineTile tile, char* const* p, const Scratch& scratch, TileLoop f) const;
  TileOperand in_view(int view, char* const* p) const;
  TileOperand in_copy(char* data, const LineTile& shape, int64_t size) const;
  void load(const LineTile& shape, int from, char* const* p, DType element, const TileOperand& to,
            const Scratch& scratch) const;
  void store(const LineTile& shape, int to, char* const* p, DType element, const TileOperand& from,
             const Scratch& scratch) const;

  // Operand k is written to view 2 k and read from view 2 k + 1.
  static constexpr int view_count = 2 * LineTile::most_operands;
  static constexpr int to_view(int operand) { return 2 * operand; }
  static constexpr int from_view(int operand) { return 2 * operand + 1; }

  // Of an operand: a conversion of rows of 65536 int32 took twice as long by 16 KB.
  static constexpr int64_t copied_bytes = 8 << 10;
  static constexpr int64_t direct_elements = 1 << 20;  // between looks for an interruption
  static constexpr int64_t whole_elements = 16 << 10;  // stay in L2, as loops may come again
  static constexpr int64_t most_lines = 512, least_turned = 16;
  // Neighbours of a line of n elements that are worth a loop across them.
  static constexpr int64_t least_across(int64_t n) { return n < 4 ? 12 : 8; }
  static constexpr int64_t widest_element = 16, carry_bytes = 16;

  StridedIterator<view_count> lines_;
  int count_ = 0;
  DType element_[LineTile::most_operands], dtype_[view_count];
  bool used_[view_count] = {}, direct_[view_count];
  // Neighbours that are not split: they fill vectors together, or lie beside each other where they
  // are copied from. Of rows of 512 that lie across, one at a time took 2.5 times as long.
  int64_t least_lines_;
  int64_t n_, step_[view_count], copied_elements_ = copied_bytes;
  bool whole_, turned_, across_, copied_ = false;
};

}  // namespace rl::kernels
