#include "kernels/cpu/onednn.h"

namespace rl::kernels {
namespace {

void require(dnnl_status_t status, const char* what) {
  check(status == dnnl_success, "oneDNN: ", what, " failed with status ", static_cast<int>(status));
}

dnnl_data_type_t onednn_dtype(DType t) { return t == DType::BFloat16 ? dnnl_bf16 : dnnl_f32; }

// A CPU stream holds no state: threads may share it.
dnnl_stream_t stream() {
  static dnnl_stream_t instance = [] {
    dnnl_stream_t s = nullptr;
    require(dnnl_stream_create(&s, onednn_engine(), dnnl_stream_default_flags),
            "dnnl_stream_create");
    return s;
  }();
  return instance;
}

Dnnl<dnnl_memory_t> memory_of(const_dnnl_memory_desc_t desc) {
  dnnl_memory_t memory = nullptr;
  require(dnnl_memory_create(&memory, desc, onednn_engine(), DNNL_MEMORY_NONE),
          "dnnl_memory_create");
  return Dnnl<dnnl_memory_t>(memory);
}

}  // namespace

dnnl_engine_t onednn_engine() {
  static dnnl_engine_t instance = [] {
    dnnl_engine_t e = nullptr;
    require(dnnl_engine_create(&e, dnnl_cpu, 0), "dnnl_engine_create");
    return e;
  }();
  return instance;
}

ForkMutex& plan_making() {
  static auto* mutex = new ForkMutex(ForkRank::PlanMaking);
  return *mutex;
}

DnnlDesc dnnl_desc(IntSpan sizes, IntSpan strides, DType dtype) {
  dnnl_memory_desc_t desc = nullptr;
  require(dnnl_memory_desc_create_with_strides(&desc, static_cast<int>(sizes.size()), sizes.data(),
                                               onednn_dtype(dtype), strides.data()),
          "dnnl_memory_desc_create_with_strides");
  return DnnlDesc(desc);
}

DnnlDesc dnnl_desc_any(IntSpan sizes, DType dtype) {
  dnnl_memory_desc_t desc = nullptr;
  require(dnnl_memory_desc_create_with_tag(&desc, static_cast<int>(sizes.size()), sizes.data(),
                                           onednn_dtype(dtype), dnnl_format_tag_any),
          "dnnl_memory_desc_create_with_tag");
  return DnnlDesc(desc);
}

const_dnnl_primitive_attr_t dnnl_user_scratchpad() {
  static dnnl_primitive_attr_t instance = [] {
    dnnl_primitive_attr_t attr = nullptr;
    require(dnnl_primitive_attr_create(&attr), "dnnl_primitive_attr_create");
    require(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
            "scratchpad mode");
    return attr;
  }();
  return instance;
}

Port::Port(DnnlDesc given, const_dnnl_memory_desc_t wanted, Direction direction)
    : direction_(direction) {
  if (!wanted) return;
  own_ = memory_of(wanted);
  bytes_ = static_cast<int64_t>(dnnl_memory_desc_get_size(wanted));
  if (dnnl_memory_desc_equal(given.get(), wanted)) return;
  given_ = memory_of(given.get());
  const_dnnl_memory_desc_t from = direction == In ? given.get() : wanted,
                           to = direction == In ? wanted : given.get();
  dnnl_primitive_desc_t desc = nullptr;
  require(dnnl_reorder_primitive_desc_create(&desc, from, onednn_engine(), to, onednn_engine(),
                                             nullptr),
          "reorder");
  DnnlPrimitiveDesc owner(desc);
  dnnl_primitive_t primitive = nullptr;
  require(dnnl_primitive_create(&primitive, desc), "reorder");
  reorder_.reset(primitive);
}

void Port::transfer(void* given_side, void* primitive_side) {
  dnnl_memory_set_data_handle(given_.get(), given_side);
  dnnl_memory_set_data_handle(own_.get(), primitive_side);
  dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, direction_ == In ? given_.get() : own_.get()},
                             {DNNL_ARG_TO, direction_ == In ? own_.get() : given_.get()}};
  require(dnnl_primitive_execute(reorder_.get(), stream(), 2, args), "reorder");
}

Primitive::Primitive(const DnnlPrimitiveDesc& desc) {
  dnnl_primitive_t primitive = nullptr;
  require(dnnl_primitive_create(&primitive, desc.get()), "dnnl_primitive_create");
  primitive_.reset(primitive);
  const_dnnl_memory_desc_t scratchpad = queried(desc, dnnl_query_scratchpad_md);
  scratchpad_bytes_ = static_cast<int64_t>(dnnl_memory_desc_get_size(scratchpad));
  if (scratchpad_bytes_) scratchpad_ = memory_of(scratchpad);
}

void Primitive::run(const dnnl_exec_arg_t* args, int count) {
  constexpr int most = 8;
  check(count < most, "oneDNN: too many arguments");
  dnnl_exec_arg_t all[most];
  for (int i = 0; i < count; ++i) all[i] = args[i];
  Workspace scratchpad(scratchpad_bytes_);
  if (scratchpad_bytes_) {
    dnnl_memory_set_data_handle(scratchpad_.get(), scratchpad.data());
    all[count++] = {DNNL_ARG_SCRATCHPAD, scratchpad_.get()};
  }
  require(dnnl_primitive_execute(primitive_.get(), stream(), count, all), "dnnl_primitive_execute");
}

}  // namespace rl::kernels
