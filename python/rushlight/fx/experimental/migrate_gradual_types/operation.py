"""Signs of constraints on types."""

op_add, op_sub, op_mul, op_div, op_mod = "+", "-", "*", "/", "%"
op_eq, op_lt, op_gt, op_leq = "=", "<", ">", "\u2264"
op_imp = "=>"
op_matching, op_consistency, op_precision = "\u22b3", "~", "\u2291"
