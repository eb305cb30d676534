#include "program/numbers.h"

#include <cmath>

namespace rl::program {
namespace {

[[noreturn]] void refuse(const char* what, const Value& a, const Value& b) {
  fail(ErrorKind::Type, what, ": not for ", a.type_name(), " and ", b.type_name());
}

bool is_integer(const Value& v) { return v.get<int64_t>() || v.get<bool>(); }

template <class OfIntegers, class OfReals>
Value arithmetic(const char* what, const Value& a, const Value& b, OfIntegers&& integers,
                 OfReals&& reals) {
  if (is_integer(a) && is_integer(b)) {
    int64_t result;
    check(!integers(a.integer(what), b.integer(what), &result), what, ": a number of over 64 bits");
    return Value(result);
  }
  return Value(static_cast<double>(reals(a.real(what), b.real(what))));
}

Value add(const Value* const* v) {
  if (const ValueList* a = v[0]->get<ValueList>()) {
    ValueList both = *a;
    const ValueList& b = v[1]->list("add");
    both.insert(both.end(), b.begin(), b.end());
    return Value(std::move(both));
  }
  return arithmetic(
      "add", *v[0], *v[1],
      [](int64_t a, int64_t b, int64_t* r) { return __builtin_add_overflow(a, b, r); },
      [](double a, double b) { return a + b; });
}
Value sub(const Value* const* v) {
  return arithmetic(
      "sub", *v[0], *v[1],
      [](int64_t a, int64_t b, int64_t* r) { return __builtin_sub_overflow(a, b, r); },
      [](double a, double b) { return a - b; });
}
constexpr size_t most_items = size_t(1) << 24;

Value repeated(const ValueList& items, int64_t times) {
  ValueList result;
  if (items.empty() || times <= 0) return Value(std::move(result));
  check_value(static_cast<size_t>(times) <= most_items / items.size(), "mul: ", items.size(),
              " items, ", times, " times, are more than ", most_items);
  result.reserve(items.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) result.insert(result.end(), items.begin(), items.end());
  return Value(std::move(result));
}

Value mul(const Value* const* v) {
  if (const ValueList* items = v[0]->get<ValueList>())
    return repeated(*items, v[1]->integer("mul"));
  return arithmetic(
      "mul", *v[0], *v[1],
      [](int64_t a, int64_t b, int64_t* r) { return __builtin_mul_overflow(a, b, r); },
      [](double a, double b) { return a * b; });
}

void check_divisor(const char* what, const Value& v) {
  check_value(v.real(what) != 0, what, ": division by zero");
}

// Rounds down, and the remainder has the sign of the divisor.
bool divide(int64_t a, int64_t b, int64_t* quotient, int64_t* remainder) {
  if (b == -1) {
    *remainder = 0;
    return __builtin_sub_overflow(int64_t(0), a, quotient);
  }
  *quotient = a / b;
  *remainder = a % b;
  if (*remainder && (*remainder < 0) != (b < 0)) {
    --*quotient;
    *remainder += b;
  }
  return false;
}
double remainder_of(double a, double b) {
  double r = std::fmod(a, b);
  if (r != 0 && (r < 0) != (b < 0)) r += b;
  return r == 0 ? std::copysign(0.0, b) : r;
}
double quotient_of(double a, double b) {
  const double whole = (a - remainder_of(a, b)) / b;
  const double down = std::floor(whole);
  return whole - down > 0.5 ? down + 1 : down;
}

Value floordiv(const Value* const* v) {
  check_divisor("floordiv", *v[1]);
  return arithmetic(
      "floordiv", *v[0], *v[1],
      [](int64_t a, int64_t b, int64_t* r) {
        int64_t rest;
        return divide(a, b, r, &rest);
      },
      quotient_of);
}
Value mod(const Value* const* v) {
  check_divisor("mod", *v[1]);
  return arithmetic(
      "mod", *v[0], *v[1],
      [](int64_t a, int64_t b, int64_t* r) {
        int64_t quotient;
        divide(a, b, &quotient, r);
        return false;
      },
      remainder_of);
}
Value truediv(const Value* const* v) {
  check_divisor("truediv", *v[1]);
  return Value(v[0]->real("truediv") / v[1]->real("truediv"));
}
Value pow(const Value* const* v) {
  if (!is_integer(*v[0]) || !is_integer(*v[1]) || v[1]->integer("pow") < 0)
    return Value(std::pow(v[0]->real("pow"), v[1]->real("pow")));
  int64_t base = v[0]->integer("pow"), left = v[1]->integer("pow"), result = 1;
  bool over = false;
  for (; left; left >>= 1) {
    if (left & 1) over = __builtin_mul_overflow(result, base, &result) || over;
    if (left > 1) over = __builtin_mul_overflow(base, base, &base) || over;
  }
  check(!over, "pow: a number of over 64 bits");
  return Value(result);
}
Value neg(const Value* const* v) {
  const Value zero(int64_t(0));
  if (v[0]->get<double>()) return Value(-v[0]->real("neg"));
  const Value* operands[] = {&zero, v[0]};
  return sub(operands);
}

template <class Compare> Value compare(const Value* const* v, Compare&& holds) {
  if (is_integer(*v[0]) && is_integer(*v[1]))
    return Value(holds(v[0]->integer("compare"), v[1]->integer("compare")));
  const std::string *a = v[0]->get<std::string>(), *b = v[1]->get<std::string>();
  if (a && b) return Value(holds(*a, *b));
  return Value(holds(v[0]->real("compare"), v[1]->real("compare")));
}
Value eq(const Value* const* v) {
  if (v[0]->is_none() || v[1]->is_none()) return Value(v[0]->is_none() && v[1]->is_none());
  return compare(v, [](const auto& a, const auto& b) { return a == b; });
}
Value ne(const Value* const* v) { return Value(!*eq(v).get<bool>()); }
Value lt(const Value* const* v) {
  return compare(v, [](const auto& a, const auto& b) { return a < b; });
}
Value le(const Value* const* v) {
  return compare(v, [](const auto& a, const auto& b) { return a <= b; });
}
Value gt(const Value* const* v) {
  return compare(v, [](const auto& a, const auto& b) { return a > b; });
}
Value ge(const Value* const* v) {
  return compare(v, [](const auto& a, const auto& b) { return a >= b; });
}

Value getitem(const Value* const* v) {
  const ValueList& list = v[0]->list("getitem");
  const int64_t size = list.size(), given = v[1]->integer("getitem");
  const int64_t i = given < 0 ? given + size : given;
  check_index(i >= 0 && i < size, "getitem: index ", given, " of a list of ", size);
  return list[i];
}
Value logical_and(const Value* const* v) {
  const bool *a = v[0]->get<bool>(), *b = v[1]->get<bool>();
  if (!a || !b) refuse("and", *v[0], *v[1]);
  return Value(*a && *b);
}
Value logical_or(const Value* const* v) {
  const bool *a = v[0]->get<bool>(), *b = v[1]->get<bool>();
  if (!a || !b) refuse("or", *v[0], *v[1]);
  return Value(*a || *b);
}
Value logical_not(const Value* const* v) { return Value(!v[0]->boolean("not")); }

struct Row {
  const char* name;
  size_t operands;
  NumberFunction function;
};
constexpr Row rows[] = {{"add", 2, add},         {"sub", 2, sub},
                        {"mul", 2, mul},         {"floordiv", 2, floordiv},
                        {"truediv", 2, truediv}, {"mod", 2, mod},
                        {"pow", 2, pow},         {"neg", 1, neg},
                        {"eq", 2, eq},           {"ne", 2, ne},
                        {"lt", 2, lt},           {"le", 2, le},
                        {"gt", 2, gt},           {"ge", 2, ge},
                        {"getitem", 2, getitem}, {"and", 2, logical_and},
                        {"or", 2, logical_or},   {"not", 1, logical_not}};

}  // namespace

NumberFunction find_number_function(const std::string& name, size_t operands) {
  for (const Row& row : rows)
    if (name == row.name && operands == row.operands) return row.function;
  return nullptr;
}

}  // namespace rl::program
