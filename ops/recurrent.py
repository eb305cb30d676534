"""Recurrent layers, over all time steps at once."""
from ops.schema import kernel

_WHERE = "reverse runs from the last step to the first; outputs stay in the order of x."
kernel("lstm_layer(x: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, reverse: bool) -> tuple[output, cells, gates]",
       names=("nn.functional._lstm_layer",),
       doc="One LSTM layer in one direction. x (L, N, 4 H) is what the input gives to the gates i, f, g, o, biases included; hidden and "
           f"cell (N, H) are the first states, weight (4 H, H) that of the hidden state. {_WHERE} Returns the hidden states and the "
           "cells of all steps, (L, N, H), and the gates (L, N, 4 H) for the gradient.",
       samples=("x(3, 2, 8), x(2, 2), x(2, 2), x(8, 2), False", "x(2, 1, 12), x(1, 3), x(1, 3), x(12, 3), True"),
       grad={"x, hidden, cell, weight": "lstm_gradients(grad_output, grad_cells, grad_gates, hidden, cell, weight, output, cells, gates, reverse)"})
kernel("gru_layer(x: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, reverse: bool) -> tuple[output, gates]",
       names=("nn.functional._gru_layer",),
       doc="One GRU layer in one direction. x (L, N, 3 H) is what the input gives to the gates r, z, n, its biases included; hidden (N, H) "
           f"is the first state, weight (3 H, H) and bias (3 H) are those of the hidden state. {_WHERE} Returns the hidden states of all "
           "steps, (L, N, H), and for the gradient (L, N, 4 H): the gates, and what the hidden state gave to n.",
       samples=("x(3, 2, 6), x(2, 2), x(6, 2), x(6), False", "x(2, 1, 9), x(1, 3), x(9, 3), None, True"),
       grad={"x, hidden, weight, bias": "gru_gradients(grad_output, grad_gates, hidden, weight, bias, output, gates, reverse)"})
