"""Recurrent layers, over all time steps at once."""
from ops.schema import kernel

_X = ("is what the input gives to the gates, biases included; hidden{more} (N, H) {is_} the first "
      "state{s}, and weight ({gates} H, H) is that of the "
      "hidden state. With batch_sizes, x is (R, {gates} H), the data of a packed sequence. reverse "
      "runs from the last step to the first; outputs stay in "
      "the order of x.")
_TAIL = "batch_sizes: list[int], reverse: bool"
kernel(f"rnn_layer(x: Tensor, hidden: Tensor, weight: Tensor, relu: bool, {_TAIL})",
       names=("nn.functional._rnn_layer",), node="{steps_name(batch_sizes.size())}Backward0",
       doc=f"One RNN layer in one direction. x (L, N, H) "
           f"{_X.format(more='', is_='is', s='', gates=1)} Returns the hidden states of all steps, "
           f"(L, N, H).",
       samples=("x(3, 2, 4), x(2, 4), x(4, 4), False, [], False",
                "x(5, 3), x(2, 3), x(3, 3), True, [2, 2, 1], True"),
       grad={"x, hidden, weight": "rnn_gradients(grad, hidden, weight, out, relu, batch_sizes, "
                                  "reverse)"})
kernel(f"lstm_layer(x: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, {_TAIL}) -> "
       f"tuple[output, cells, gates]",
       names=("nn.functional._lstm_layer",), absent=True,
       node="{lstm_name(batch_sizes.size())}Backward0",
       doc=f"One LSTM layer in one direction. x (L, N, 4 H) "
           f"{_X.format(more=' and cell', is_='are', s='s', gates=4)} The gates are i, f, g, o. "
           f"Returns the hidden "
           "states and the cells of all steps, (L, N, H), and the gates (L, N, 4 H) for the "
           "gradient.",
       samples=("x(3, 2, 8), x(2, 2), x(2, 2), x(8, 2), [], False",
                "x(2, 1, 12), x(1, 3), x(1, 3), x(12, 3), [], True",
                "x(6, 8), x(3, 2), x(3, 2), x(8, 2), [3, 2, 1], False"),
       grad={"x, hidden, cell, weight": "lstm_gradients(grad_output, grad_cells, grad_gates, "
                                        "hidden, cell, weight, output, cells, gates, batch_sizes, "
                                        "reverse)"})
kernel(f"gru_layer(x: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, {_TAIL}) -> "
       f"tuple[output, gates]",
       names=("nn.functional._gru_layer",), absent=True,
       node="{gru_name(batch_sizes.size())}Backward0",
       doc=f"One GRU layer in one direction. x (L, N, 3 H) "
           f"{_X.format(more='', is_='is', s='', gates=3)} bias (3 H) is that of the hidden state, "
           f"and the gates are "
           "r, z, n. Returns the hidden states of all steps, (L, N, H), and for the gradient (L, "
           "N, 4 H): the gates, and what the hidden state gave to n.",
       samples=("x(3, 2, 6), x(2, 2), x(6, 2), x(6), [], False",
                "x(2, 1, 9), x(1, 3), x(9, 3), None, [], True",
                "x(6, 6), x(3, 2), x(6, 2), x(6), [3, 2, 1], True"),
       grad={"x, hidden, weight, bias": "gru_gradients(grad_output, grad_gates, hidden, weight, "
                                        "bias, output, gates, batch_sizes, reverse)"})
kernel(f"recurrent_layer(input: Tensor, hidden: Tensor, cell: Tensor | None, w_ih: Tensor, "
       f"w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, mode: str, {_TAIL}) -> "
       f"tuple[output, cells, gates]",
       names=("nn.functional._recurrent_layer",), absent=True,
       node="{layer_name(mode, batch_sizes.size())}Backward0",
       doc="One layer in one direction with the product of its input: mode is 'RNN_TANH', "
           "'RNN_RELU', 'LSTM' or 'GRU'. input (L, N, in), or with batch_sizes (R, in); the "
           "weights are (G H, in) and (G H, H), the biases (G H). Sums of 16-bit floats are "
           "float32. Returns the hidden states of all steps, and, in "
           "float32 at least, the cells of an LSTM and the gates as lstm_layer and gru_layer have "
           "them; empty tensors in their places in other modes.",
       samples=("x(3, 2, 4), x(2, 2), x(2, 2), x(8, 4), x(8, 2), x(8), x(8), 'LSTM', [], False",
                "x(5, 2), x(2, 3), None, x(9, 2), x(9, 3), x(9), x(9), 'GRU', [2, 2, 1], True",
                "x(2, 2, 1), x(2, 3), None, x(3, 1), x(3, 3), None, None, 'RNN_TANH', [], False"),
       grad={"input, hidden, cell, w_ih, w_hh, b_ih, b_hh":
             "recurrent_gradients(grad_output, grad_cells, grad_gates, input, hidden, cell, w_ih, "
             "w_hh, b_ih, b_hh, output, cells, gates, mode, batch_sizes, reverse, wants(input), "
             "wants(w_ih), wants(w_hh), wants(b_ih) or wants(b_hh))"})
