"""The table of kernels that a backend fills, the CPU's, and the functions that launch them.

Each header of src/kernels has a struct and headers of its own: a new kernel compiles its callers
again, not those of all kernels.
"""

import re

from ops.kernels import KERNELS, NOT_ON_CPU


def _family(header):
    return "".join(part.capitalize() for part in header.split("_")) + "Kernels"


def texts():
    found = {
        "kernels/table.h": _write_table(),
        "kernels/cpu_table.cpp": _write_cpu_table(),
    }
    for header, names in KERNELS.items():
        found[f"kernels/table_{header}.h"] = _write_family(header, names.split())
        found[f"launch_{header}.h"] = _write_launch(header, names.split())
    return found


def launch_includes(text):
    """What a file includes that launches kernels."""
    launched = set(re.findall(r"\blaunch::(\w+)", text))
    return [
        f'#include "launch_{header}.h"'
        for header, names in KERNELS.items()
        if launched & set(names.split())
    ]


def _write_family(header, names):
    lines = [
        f"// Made by gen/kernels.py from ops/kernels.py: a pointer to each kernel of {header}.h.",
        "#pragma once",
        '#include "kernels/context.h"',
        f'#include "kernels/{header}.h"',
        "",
        "namespace rl::kernels {",
        "",
        f"struct {_family(header)} {{",
        *(f"  Kernel<decltype(kernels::{name})> {name} = nullptr;" for name in names),
        f"  static const {_family(header)}* of_device[device_types];  // null: no backend",
        "};",
        "",
        "}  // namespace rl::kernels",
        "",
    ]
    return "\n".join(lines)


def _write_table():
    lines = [
        "// Made by gen/kernels.py from ops/kernels.py: the kernels of a backend.",
        "#pragma once",
        *(f'#include "kernels/table_{header}.h"' for header in KERNELS),
        "",
        "namespace rl::kernels {",
        "",
        "struct KernelTable : " + ",\n                     ".join(map(_family, KERNELS)) + " {};",
        "",
        "// Calls visitor.visit<Slot, slot>(name) for each slot of KernelTable.",
        "template <class Visitor> void for_each_kernel(const Visitor& visitor) {",
        *(
            f"  visitor.template visit<decltype(&KernelTable::{name}), &KernelTable::{name}>"
            f'("{name}");'
            for names in KERNELS.values()
            for name in names.split()
        ),
        "}",
        "",
        "}  // namespace rl::kernels",
        "",
    ]
    return "\n".join(lines)


def _write_cpu_table():
    lines = [
        "// Made by gen/kernels.py from ops/kernels.py: the kernels of the CPU, and those of each",
        "// device.",
        '#include "kernels/backend.h"',
        "",
        "namespace rl::kernels {",
        "",
        "const KernelTable cpu_kernels{",
    ]
    for names in KERNELS.values():
        calls = (
            "nullptr" if name in NOT_ON_CPU else f"WithoutContext<{name}>::call"
            for name in names.split()
        )
        lines += ["    {", *(f"        {call}," for call in calls)]
        lines.append("    },")
    lines += ["};", ""]
    lines += [
        f"const {family}* {family}::of_device[device_types] = {{&cpu_kernels}};"
        for family in map(_family, KERNELS)
    ]
    lines += [
        "",
        "void set_kernels(DeviceType type, const KernelTable& kernels) {",
        "  int device = static_cast<int>(type);",
        *(f"  {_family(header)}::of_device[device] = &kernels;" for header in KERNELS),
        "}",
        "",
        "}  // namespace rl::kernels",
        "",
    ]
    return "\n".join(lines)


def _write_launch(header, names):
    slot = f"&kernels::{_family(header)}::{{0}}"
    lines = [
        "// Made by gen/kernels.py from ops/kernels.py: functions that call the kernels of",
        f"// {header}.h on the device of their arguments.",
        "#pragma once",
        '#include "dispatch/launcher.h"',
        f'#include "kernels/table_{header}.h"',
        "",
        "namespace rl::launch {",
        "",
        *(
            'inline constexpr Launcher<decltype({0}), {0}> {1}{{"{1}"}};'.format(
                slot.format(name), name
            )
            for name in names
        ),
        "",
        "}  // namespace rl::launch",
        "",
    ]
    return "\n".join(lines)
