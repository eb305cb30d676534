#include "program/model.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <unordered_map>

#include "core/thread_state.h"
#include "dispatch/install.h"
#include "ops_shape.h"
#include "program/archive.h"
#include "program/numbers.h"
#include "program/operation.h"

namespace rl::program {
namespace {

constexpr int version = 1;
constexpr size_t max_slots = size_t(1) << 24;
constexpr int max_depth = 100;  // of graphs inside each other

// An argument of an instruction: a constant, the value in a slot, or a list that holds some.
struct Argument {
  int slot = -1;
  Value constant;
  std::vector<Argument> items;
  bool is_list = false;  // with slots in it

  const Value* resolve(const std::vector<Value>& slots, Value& scratch) const {
    if (slot >= 0) return &slots[slot];
    if (!is_list) return &constant;
    ValueList list;
    list.reserve(items.size());
    for (const Argument& item : items) {
      Value inner;
      list.push_back(*item.resolve(slots, inner));
    }
    scratch = Value(std::move(list));
    return &scratch;
  }
};

struct Graph;

struct Instruction {
  enum Kind {
    Call,
    Number,
    Size,
    Item,
    Literal,
    Assert,
    Cond,
    WhileLoop,
    Scan,
    Shape,
    Dim,
    Truth,
    DTypeOf,
    DeviceOf,
    Length,
    ToInt,
    ToFloat
  };
  Kind kind = Call;
  const Operation* operation = nullptr;
  NumberFunction number = nullptr;
  std::vector<int> parameters;      // of a call: the parameter of each argument
  std::vector<Argument> arguments;  // in order
  std::vector<std::unique_ptr<Graph>> graphs;
  int output = -1;
  std::vector<int> last_uses;  // slots that nothing needs afterwards
};

struct Graph {
  int slots = 0;
  std::vector<int> inputs;
  std::vector<Instruction> instructions;
  std::vector<Argument> outputs;
};

[[noreturn]] void damaged(const std::string& what) {
  fail(ErrorKind::Value, "model: the file is damaged: ", what);
}

DType dtype_named(const std::string& name) {
  for (int i = 0; i < dtype_count; ++i)
    if (name == dtype_infos[i].name) return static_cast<DType>(i);
  damaged("dtype '" + name + "'");
}

double float_named(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::nan("");
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) damaged("the number '" + text + "'");
  return value;
}

// Reads the graphs of a document, each once.
class Reader {
 public:
  Reader(const JsonList& graphs) : graphs_(graphs), used_(graphs.size()) {}

  std::unique_ptr<Graph> graph(int64_t place) {
    if (place < 0 || place >= static_cast<int64_t>(graphs_.size()) || used_[place])
      damaged("graph " + std::to_string(place));
    if (depth_ == max_depth) damaged("graphs are nested too deeply");
    used_[place] = true;
    ++depth_;
    const Json& entry = graphs_[place];
    auto made = std::make_unique<Graph>();
    Names names;
    for (const Json& input : entry.at("inputs").list("inputs"))
      made->inputs.push_back(enter(*made, names, input.at("name").text("name")));
    for (const Json& node : entry.at("nodes").list("nodes"))
      made->instructions.push_back(instruction(*made, names, node));
    for (const Json& output : entry.at("outputs").list("outputs"))
      made->outputs.push_back(argument(names, output));
    note_last_uses(*made);
    --depth_;
    return made;
  }

 private:
  using Names = std::unordered_map<std::string, int>;

  static int enter(Graph& graph, Names& names, const std::string& name) {
    if (static_cast<size_t>(graph.slots) >= max_slots) damaged("too many values");
    if (!names.emplace(name, graph.slots).second) damaged("two values have the name " + name);
    return graph.slots++;
  }

  Instruction instruction(Graph& graph, Names& names, const Json& node) {
    Instruction made;
    const std::string& op = node.at("op").text("op");
    std::vector<std::string> by_name;
    for (const Json& value : node.at("args").list("args")) {
      const JsonObject* object = value.get<JsonObject>();
      if (object && object->size() == 1 && (*object)[0].first == "graph")
        made.graphs.push_back(graph_of((*object)[0].second));
      else made.arguments.push_back(argument(names, value));
    }
    const size_t positional = made.arguments.size();
    for (const auto& [key, value] : node.at("kwargs").object("kwargs")) {
      made.arguments.push_back(argument(names, value));
      by_name.push_back(key);
    }
    made.output = enter(graph, names, node.at("name").text("name"));
    if (op.empty() || op[0] != '.') {
      call(made, op, positional, by_name);
      return made;
    }
    struct Special {
      const char* name;
      Instruction::Kind kind;
      size_t arguments, graphs;
    };
    static constexpr Special specials[] = {
        {".sym_size", Instruction::Size, 2, 0},
        {".item", Instruction::Item, 1, 0},
        {".tensor", Instruction::Literal, 2, 0},
        {".cond", Instruction::Cond, 2, 2},
        {"._assert_scalar", Instruction::Assert, 2, 0},
        {".scan", Instruction::Scan, 4, 1},
        {".while_loop", Instruction::WhileLoop, 2, 2},
        {".shape", Instruction::Shape, 1, 0},
        {".dim", Instruction::Dim, 1, 0},
        {".truth", Instruction::Truth, 1, 0},
        {".dtype_of", Instruction::DTypeOf, 1, 0},
        {".device_of", Instruction::DeviceOf, 1, 0},
        {".length", Instruction::Length, 1, 0},
        {".to_int", Instruction::ToInt, 1, 0},
        {".to_float", Instruction::ToFloat, 1, 0},
    };
    for (const Special& s : specials) {
      if (op != s.name) continue;
      made.kind = s.kind;
      if (made.arguments.size() != s.arguments || made.graphs.size() != s.graphs)
        damaged(op + " with other arguments");
      return made;
    }
    made.kind = Instruction::Number;
    made.number = find_number_function(op.substr(1), made.arguments.size());
    check_implemented(made.number, "model: the operation '", op, "' is not known here");
    return made;
  }

  static void call(Instruction& made, const std::string& op, size_t positional,
                   const std::vector<std::string>& by_name) {
    made.operation = find_operation(op);
    check_implemented(made.operation, "model: the operation '", op, "' is not in this library");
    const int count = made.operation->count;
    if (positional > static_cast<size_t>(count)) damaged(op + " with too many arguments");
    std::vector<bool> given(count);
    for (size_t i = 0; i < made.arguments.size(); ++i) {
      const bool is_named = i >= positional;
      const int place =
          is_named ? made.operation->find_parameter(by_name[i - positional]) : static_cast<int>(i);
      if (place < 0 || given[place]) damaged(op + " with another argument");
      given[place] = true;
      made.parameters.push_back(place);
    }
    for (int i = 0; i < count; ++i)
      if (!given[i] && !made.operation->parameters[i].has_default)
        damaged(op + " without its argument " + made.operation->parameters[i].name);
  }

  std::unique_ptr<Graph> graph_of(const Json& place) { return graph(place.integer("graph")); }

  static Argument argument(const Names& names, const Json& json) {
    Argument made;
    if (const auto* list = json.get<JsonList>()) {
      bool constant = true;
      for (const Json& item : *list) {
        made.items.push_back(argument(names, item));
        constant = constant && made.items.back().slot < 0 && !made.items.back().is_list;
      }
      if (constant) {
        ValueList values;
        for (Argument& item : made.items) values.push_back(std::move(item.constant));
        made.items.clear();
        made.constant = Value(std::move(values));
      } else {
        made.is_list = true;
      }
      return made;
    }
    if (const auto* object = json.get<JsonObject>()) {
      if (object->size() != 1) damaged("a value");
      const auto& [kind, what] = (*object)[0];
      if (kind == "node") {
        auto found = names.find(what.text("node"));
        if (found == names.end()) damaged("the value " + what.text("node") + " is not known yet");
        made.slot = found->second;
      } else {
        made.constant = constant(kind, what);
      }
      return made;
    }
    if (const bool* b = json.get<bool>()) made.constant = Value(*b);
    else if (const int64_t* i = json.get<int64_t>()) made.constant = Value(*i);
    else if (const double* d = json.get<double>()) made.constant = Value(*d);
    else if (const std::string* s = json.get<std::string>()) made.constant = Value(*s);
    return made;
  }

  static Value constant(const std::string& kind, const Json& what) {
    if (kind == "float") return Value(float_named(what.text("float")));
    if (kind == "complex") {
      const JsonList& parts = what.list("complex");
      if (parts.size() != 2) damaged("a complex number");
      return Value(
          complex128(float_named(parts[0].text("real")), float_named(parts[1].text("imag"))));
    }
    if (kind == "dtype") return Value(dtype_named(what.text("dtype")));
    if (kind == "device") return Value(parse_device(what.text("device")));
    if (kind == "memory_format") {
      const std::string& name = what.text("memory_format");
      if (name == "contiguous_format") return Value(MemoryFormat::Contiguous);
      if (name == "preserve_format") return Value(MemoryFormat::Preserve);
      if (name == "channels_last") return Value(MemoryFormat::ChannelsLast);
      if (name == "channels_last_3d") return Value(MemoryFormat::ChannelsLast3d);
      damaged("memory format " + name);
    }
    if (kind == "layout" && what.text("layout") == "strided") return Value();
    damaged("a value of kind " + kind);
  }

  static void note_uses(const Argument& a, int at, std::vector<int>& last) {
    if (a.slot >= 0) last[a.slot] = at;
    for (const Argument& item : a.items) note_uses(item, at, last);
  }

  // Values are dropped after the instruction that uses them last, inputs and outputs excepted.
  static void note_last_uses(Graph& graph) {
    std::vector<int> last(graph.slots, -1);
    for (size_t i = 0; i < graph.instructions.size(); ++i) {
      Instruction& n = graph.instructions[i];
      last[n.output] = static_cast<int>(i);
      for (const Argument& a : n.arguments) note_uses(a, static_cast<int>(i), last);
    }
    for (const Argument& a : graph.outputs) note_uses(a, -1, last);
    for (int slot : graph.inputs) last[slot] = -1;
    for (int slot = 0; slot < graph.slots; ++slot)
      if (last[slot] >= 0) graph.instructions[last[slot]].last_uses.push_back(slot);
  }

  const JsonList& graphs_;
  std::vector<bool> used_;
  int depth_ = 0;  // of the graph that is read
};

// ---- running

void fill_literal(const Value& value, const Dims& sizes, size_t depth, std::vector<Scalar>& out) {
  if (depth == static_cast<size_t>(sizes.size())) {
    if (const bool* b = value.get<bool>()) return out.emplace_back(*b), void();
    if (const int64_t* i = value.get<int64_t>()) return out.emplace_back(*i), void();
    if (const double* d = value.get<double>()) return out.emplace_back(*d), void();
    if (const complex128* c = value.get<complex128>()) return out.emplace_back(*c), void();
    fail(ErrorKind::Type, "tensor: an element of type ", value.type_name());
  }
  const ValueList& list = value.list("tensor");
  check_value(static_cast<int64_t>(list.size()) == sizes[depth], "tensor: rows differ in length");
  for (const Value& item : list) fill_literal(item, sizes, depth + 1, out);
}

Tensor literal(const Value& data, DType dtype) {
  Dims sizes;
  for (const Value* v = &data; const ValueList* list = v->get<ValueList>(); v = &(*list)[0]) {
    sizes.push_back(list->size());
    if (list->empty()) break;
  }
  std::vector<Scalar> elements;
  fill_literal(data, sizes, 0, elements);
  Tensor t = empty(sizes, {dtype, Device{}});
  if (elements.empty()) return t;
  visit_all("tensor", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = t.data<T>();
    for (size_t i = 0; i < elements.size(); ++i) to[i] = elements[i].to<T>();
  });
  return t;
}

Value item_of(const Tensor& t) {
  check(t.numel() == 1, "item: a tensor of ", t.numel(), " elements");
  const Scalar s = rl::item(t);
  if (s.is_bool()) return Value(s.to<bool>());
  if (s.is_integral()) return Value(s.to<int64_t>());
  if (s.is_floating()) return Value(s.to<double>());
  return Value(s.to<complex128>());
}

ValueList run_graph(const Graph& graph, const ValueList& inputs);

Value run_scan(const Instruction& n, const Value* const* a) {
  ValueList carried = a[0]->list("scan");
  const ValueList &xs = a[1]->list("scan"), &operands = a[2]->list("scan");
  const size_t count = a[3]->integer("scan");
  check_value(!xs.empty() && carried.size() == count, "scan: operands of another number");
  const int64_t length = xs[0].tensor("scan").size(0);
  std::vector<TensorList> rows;
  for (int64_t i = 0; i < length; ++i) {
    ValueList in = carried;
    for (const Value& x : xs) in.emplace_back(ops::select(x.tensor("scan"), 0, i));
    in.insert(in.end(), operands.begin(), operands.end());
    ValueList out = run_graph(*n.graphs[0], in);
    check_value(out.size() >= count, "scan: the graph returns too little");
    rows.resize(out.size() - count);
    for (size_t k = count; k < out.size(); ++k) rows[k - count].push_back(out[k].tensor("scan"));
    out.resize(count);
    carried = std::move(out);
  }
  for (const TensorList& parts : rows) carried.emplace_back(ops::stack(parts, 0));
  return Value(std::move(carried));
}

Value run_while(const Instruction& n, ValueList carried, const ValueList& operands) {
  while (true) {
    ValueList in = carried;
    in.insert(in.end(), operands.begin(), operands.end());
    const ValueList answer = run_graph(*n.graphs[0], in);
    check_value(answer.size() == 1, "while_loop: the condition returns no single value");
    if (!answer[0].boolean("while_loop")) return Value(std::move(carried));
    carried = run_graph(*n.graphs[1], in);
  }
}

Value run_special(const Instruction& n, const Value* const* a) {
  switch (n.kind) {
    case Instruction::Size: {
      const Tensor& t = a[0]->tensor("sym_size");
      return Value(t.size(a[1]->integer("sym_size")));
    }
    case Instruction::Item: return item_of(a[0]->tensor("item"));
    case Instruction::Literal: {
      const DType* dtype = a[1]->get<DType>();
      check_type(dtype, "tensor: dtype is a ", a[1]->type_name());
      return Value(literal(*a[0], *dtype));
    }
    case Instruction::Assert: {
      const std::string* message = a[1]->get<std::string>();
      check(a[0]->boolean("assert"), "the program was exported for ",
            message ? message->c_str() : "something else");
      return Value();
    }
    case Instruction::Cond: {
      const bool which = a[0]->boolean("cond");
      return Value(run_graph(*n.graphs[which ? 0 : 1], a[1]->list("cond")));
    }
    case Instruction::WhileLoop:
      return run_while(n, a[0]->list("while_loop"), a[1]->list("while_loop"));
    case Instruction::Shape: {
      ValueList sizes;
      for (int64_t size : a[0]->tensor("shape").sizes()) sizes.emplace_back(size);
      return Value(std::move(sizes));
    }
    case Instruction::Dim: return Value(a[0]->tensor("dim").dim());
    case Instruction::Truth: return Value(a[0]->boolean("bool"));
    case Instruction::DTypeOf: return Value(a[0]->tensor("dtype").dtype());
    case Instruction::DeviceOf: return Value(a[0]->tensor("device").device());
    case Instruction::Length: {
      const Tensor* t = a[0]->get<Tensor>();
      if (t) return Value(t->size(0));
      return Value(static_cast<int64_t>(a[0]->list("len").size()));
    }
    case Instruction::ToInt: {
      const Value value = a[0]->is_tensor() ? item_of(*a[0]->get<Tensor>()) : *a[0];
      const double* d = value.get<double>();
      if (!d) return Value(value.integer("int"));
      check_value(std::abs(*d) < 9.2e18, "int: ", *d, " does not fit 64 bits");
      return Value(static_cast<int64_t>(*d));
    }
    case Instruction::ToFloat: {
      const Value value = a[0]->is_tensor() ? item_of(*a[0]->get<Tensor>()) : *a[0];
      return Value(value.real("float"));
    }
    default: return run_scan(n, a);
  }
}

void run_instruction(const Instruction& n, std::vector<Value>& slots) {
  const size_t count = n.arguments.size();
  const Value* found[32];
  Value scratch[32];
  check_value(count <= 32, "model: more than 32 arguments");
  for (size_t i = 0; i < count; ++i) found[i] = n.arguments[i].resolve(slots, scratch[i]);
  Value result;
  if (n.kind == Instruction::Call) {
    const Value* placed[32] = {};
    for (size_t i = 0; i < count; ++i) placed[n.parameters[i]] = found[i];
    result = n.operation->function(Arguments(*n.operation, placed));
  } else if (n.kind == Instruction::Number) {
    result = n.number(found);
  } else {
    result = run_special(n, found);
  }
  slots[n.output] = std::move(result);
  for (int slot : n.last_uses) slots[slot] = Value();
}

ValueList run_graph(const Graph& graph, const ValueList& inputs) {
  check_value(inputs.size() == graph.inputs.size(), "model: a graph of ", graph.inputs.size(),
              " inputs gets ", inputs.size());
  std::vector<Value> slots(graph.slots);
  for (size_t i = 0; i < inputs.size(); ++i) slots[graph.inputs[i]] = inputs[i];
  for (const Instruction& n : graph.instructions) run_instruction(n, slots);
  ValueList outputs;
  outputs.reserve(graph.outputs.size());
  for (const Argument& a : graph.outputs) {
    Value scratch;
    outputs.push_back(*a.resolve(slots, scratch));
  }
  return outputs;
}

void install_once() {
  static const bool done = (install_ops(), true);
  (void)done;
}

bool same_value(const Value& a, const Value& b) {
  if (a.v.index() != b.v.index()) return false;
  if (const bool* x = a.get<bool>()) return *x == *b.get<bool>();
  if (const int64_t* x = a.get<int64_t>()) return *x == *b.get<int64_t>();
  if (const double* x = a.get<double>()) return *x == *b.get<double>();
  if (const complex128* x = a.get<complex128>()) return *x == *b.get<complex128>();
  if (const std::string* x = a.get<std::string>()) return *x == *b.get<std::string>();
  if (const DType* x = a.get<DType>()) return *x == *b.get<DType>();
  if (const Device* x = a.get<Device>()) return *x == *b.get<Device>();
  return a.is_none();
}

}  // namespace

struct Model::Impl {
  std::vector<InputRule> inputs;
  std::vector<Symbol> symbols;
  std::vector<std::pair<std::string, Tensor>> lifted;
  std::unique_ptr<Graph> graph;

  void read(const Archive& archive);
  SizeRule size(const Json& json) const;
  void check_input(const InputRule& rule, const Value& value,
                   std::vector<std::pair<bool, int64_t>>& known) const;
  void match(const SizeRule& rule, int64_t size, const InputRule& input, const std::string& where,
             std::vector<std::pair<bool, int64_t>>& known) const;
};

SizeRule Model::Impl::size(const Json& json) const {
  SizeRule rule;
  if (const int64_t* n = json.get<int64_t>()) {
    if (*n < 0) damaged("a size");
    rule.fixed = *n;
    return rule;
  }
  const std::string& symbol = json.at("symbol").text("symbol");
  for (size_t i = 0; i < symbols.size(); ++i)
    if (symbols[i].name == symbol) rule.symbol = static_cast<int>(i);
  rule.factor = json.at("factor").integer("factor");
  rule.offset = json.at("offset").integer("offset");
  if (rule.symbol < 0 || rule.factor <= 0) damaged("a size of " + symbol);
  return rule;
}

void Model::Impl::read(const Archive& archive) {
  const Json& document = archive.document;
  if (document.at("format").text("format") != "rushlight.program") damaged("it is no program");
  const int64_t found = document.at("version").integer("version");
  check_value(found >= 1 && found <= version, "model: the file has version ", found,
              " of its format; this library reads up to ", version);
  for (const auto& [name, range] : document.at("symbols").object("symbols")) {
    const Json& most = range.at("max");
    symbols.push_back(
        {name, range.at("min").integer("min"), most.is_null() ? -1 : most.integer("max")});
  }
  const JsonList& graphs = document.at("graphs").list("graphs");
  if (graphs.empty()) damaged("it has no graph");
  Reader reader(graphs);
  graph = reader.graph(0);
  for (const Json& entry : graphs[0].at("inputs").list("inputs")) {
    const std::string& kind = entry.at("kind").text("kind");
    const std::string& name = entry.at("name").text("name");
    if (kind != "input") {
      const std::string& target = entry.at("target").text("target");
      auto tensor = archive.tensors.find(target);
      if (tensor == archive.tensors.end()) damaged("it has no tensor " + target);
      if (!inputs.empty()) damaged("an input stands before parameters");
      lifted.emplace_back(target, tensor->second);
      continue;
    }
    InputRule rule;
    rule.name = name;
    if (const Json* type = entry.find("type")) {
      rule.kind = InputRule::Typed;
      rule.type = type->text("type");
    } else if (const Json* shape = entry.find("shape")) {
      rule.dtype = dtype_named(entry.at("dtype").text("dtype"));
      for (const Json& n : shape->list("shape")) rule.sizes.push_back(size(n));
    } else if (const Json* number = entry.find("size")) {
      rule.kind = InputRule::OfNumber;
      rule.sizes.push_back(size(*number));
    } else {
      rule.kind = InputRule::Fixed;
      const Json& value = entry.at("value");
      if (const bool* b = value.get<bool>()) rule.value = Value(*b);
      else if (const int64_t* i = value.get<int64_t>()) rule.value = Value(*i);
      else if (const double* d = value.get<double>()) rule.value = Value(*d);
      else if (const std::string* s = value.get<std::string>()) rule.value = Value(*s);
    }
    inputs.push_back(std::move(rule));
  }
}

void Model::Impl::match(const SizeRule& rule, int64_t size, const InputRule& input,
                        const std::string& where,
                        std::vector<std::pair<bool, int64_t>>& known) const {
  if (rule.symbol < 0) {
    check_value(size == rule.fixed, "input '", input.name, "': expected size ", rule.fixed, " in ",
                where, ", got ", size);
    return;
  }
  const Symbol& symbol = symbols[rule.symbol];
  check_value((size - rule.offset) % rule.factor == 0, "input '", input.name, "': expected ",
              rule.factor, "*", symbol.name, " + ", rule.offset, " in ", where, ", got ", size);
  const int64_t value = (size - rule.offset) / rule.factor;
  auto& [seen, before] = known[rule.symbol];
  check_value(!seen || before == value, "input '", input.name, "': expected ", symbol.name, " = ",
              before, " in ", where, ", got ", value);
  seen = true;
  before = value;
  check_value(value >= symbol.least && (symbol.most < 0 || value <= symbol.most), "input '",
              input.name, "': ", symbol.name, " = ", value, " is outside of its range");
}

void Model::Impl::check_input(const InputRule& rule, const Value& value,
                              std::vector<std::pair<bool, int64_t>>& known) const {
  if (rule.kind == InputRule::OfNumber) {
    const int64_t* n = value.get<int64_t>();
    check_type(n, "input '", rule.name, "': expected an int, got ", value.type_name());
    return match(rule.sizes[0], *n, rule, "its value", known);
  }
  if (rule.kind == InputRule::Typed) {
    const std::string given = value.type_name();
    const bool is_list = rule.type == "tensors" || rule.type == "list";
    check_type(given == (is_list ? "list" : rule.type), "input '", rule.name, "': expected a ",
               rule.type, ", got ", given);
    return;
  }
  if (rule.kind == InputRule::Fixed) {
    check_value(same_value(rule.value, value), "input '", rule.name,
                "': expected the value that the program was exported for");
    return;
  }
  const Tensor* t = value.get<Tensor>();
  check_type(t && t->defined(), "input '", rule.name, "': expected a Tensor, got ",
             value.type_name());
  check_value(t->dtype() == rule.dtype, "input '", rule.name, "': expected dtype ",
              name(rule.dtype), ", got ", name(t->dtype()));
  check_value(t->dim() == static_cast<int64_t>(rule.sizes.size()), "input '", rule.name,
              "': expected ", rule.sizes.size(), " dims, got ", t->dim());
  for (int64_t d = 0; d < t->dim(); ++d)
    match(rule.sizes[d], t->sizes()[d], rule, "dim " + std::to_string(d), known);
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

Model Model::load(const std::string& path) {
  install_once();
  auto impl = std::make_unique<Impl>();
  impl->read(read_archive(path));
  return Model(std::move(impl));
}

ValueList Model::run(const ValueList& inputs) const {
  check_type(inputs.size() == impl_->inputs.size(), "model: expected ", impl_->inputs.size(),
             " inputs, got ", inputs.size());
  std::vector<std::pair<bool, int64_t>> known(impl_->symbols.size());
  for (size_t i = 0; i < inputs.size(); ++i) impl_->check_input(impl_->inputs[i], inputs[i], known);
  ValueList all;
  all.reserve(impl_->lifted.size() + inputs.size());
  for (const auto& [name, t] : impl_->lifted) all.emplace_back(t);
  all.insert(all.end(), inputs.begin(), inputs.end());
  NoGradGuard guard;
  return run_graph(*impl_->graph, all);
}

TensorList Model::operator()(const TensorList& inputs) const {
  TensorList outputs;
  for (const Value& value : run(ValueList(inputs.begin(), inputs.end())))
    outputs.push_back(value.tensor("model: an output"));
  return outputs;
}

const std::vector<InputRule>& Model::inputs() const { return impl_->inputs; }
size_t Model::output_count() const { return impl_->graph->outputs.size(); }
const std::vector<Symbol>& Model::symbols() const { return impl_->symbols; }
std::vector<std::pair<std::string, Tensor>> Model::tensors() const { return impl_->lifted; }

}  // namespace rl::program
