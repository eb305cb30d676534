"""Recurrent layers, over all time steps at once."""
from ops.schema import kernel

kernel("recurrent_layer(input: Tensor, hidden: Tensor, cell: Tensor | None, w_ih: Tensor, "
       "w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, mode: str, "
       "batch_sizes: list[int], reverse: bool) -> tuple[output, cells, gates]",
       names=("nn.functional._recurrent_layer",), absent=True,
       node="{layer_name(mode, batch_sizes.size())}Backward0",
       doc="One layer in one direction with the product of its input: mode is 'RNN_TANH', "
           "'RNN_RELU', 'LSTM' or 'GRU'. input (L, N, in), or with batch_sizes (R, in); the "
           "weights are (G H, in) and (G H, H), the biases (G H), and the gates i, f, g, o of an "
           "LSTM and r, z, n of a GRU. reverse runs from the last step to the first; outputs stay "
           "in the order of input. Sums of 16-bit floats are float32. Returns the hidden states of "
           "all steps, (L, N, H), and, in float32 at least, the cells of an LSTM and (L, N, 4 H) "
           "for the gradient: its gates, or those of a GRU and what its hidden state gave to n; "
           "empty tensors in their places in other modes.",
       copied={o: "may_change_states(mode, batch_sizes.size())" for o in ("output", "cells")},
       samples=("x(3, 2, 4), x(2, 2), x(2, 2), x(8, 4), x(8, 2), x(8), x(8), 'LSTM', [], False",
                "x(5, 2), x(2, 3), None, x(9, 2), x(9, 3), x(9), x(9), 'GRU', [2, 2, 1], True",
                "x(2, 2, 1), x(2, 3), None, x(3, 1), x(3, 3), None, None, 'RNN_TANH', [], False"),
       grad={"input, hidden, cell, w_ih, w_hh, b_ih, b_hh":
             "recurrent_gradients(grad_output, grad_cells, grad_gates, input, hidden, cell, w_ih, "
             "w_hh, b_ih, b_hh, output, cells, gates, mode, batch_sizes, reverse, wants(input), "
             "wants(w_ih), wants(w_hh), wants(b_ih) or wants(b_hh))"})
