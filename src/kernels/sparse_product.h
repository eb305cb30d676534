// The product of two matrices in compressed rows: which of their elements meet, and where.
#pragma once
#include <cstdint>
#include <vector>

namespace rl::kernels {

// Row i has the elements [starts[i], starts[i + 1]), each in a column.
struct CompressedRows {
  const int64_t *starts, *columns;
  int64_t rows;

  // Where each of `height` rows begins among n elements that are sorted by their rows, and the end.
  static void find_starts(const int64_t* rows, int64_t n, int64_t height, int64_t* starts);
  // A matrix of `count` elements and `width` columns times a vector, float32 or float64.
  template <class T>
  void multiply(const T* values, int64_t count, const T* vector, int64_t width, T* product) const;
};

class SparseProduct {
 public:
  // The columns of `a` are rows of `b`, whose columns are below `width`.
  SparseProduct(CompressedRows a, CompressedRows b, int64_t width);

  int64_t count() const { return count_; }  // of products of two elements
  // Returns the columns of the product, ascending in each row, and where its rows start. Product i
  // is of elements left[i] and right[i], and is added to element places[i].
  std::vector<int64_t> find(int64_t* starts, int64_t* left, int64_t* right, int64_t* places) const;
  // The same of float32 or float64 values, which are multiplied and added up in `values`.
  template <class T>
  std::vector<int64_t> multiply(int64_t* starts, const T* a, const T* b,
                                std::vector<T>& values) const;

 private:
  template <class BeginRow, class Each>
  std::vector<int64_t> run(int64_t* starts, BeginRow begin_row, Each each) const;

  CompressedRows a_, b_;
  int64_t width_, count_ = 0;
};

}  // namespace rl::kernels
