"""How many floating-point operations a network needs, counting matrix products only.

A product of [n, a] and [a, b] is 2 n a b operations. A network that is trained needs its forward
pass, the gradient of its weights (as much again) and the gradient of its hidden layers (all but
the first layer's share); one that only passes a gradient on to the action needs the forward pass,
the hidden layers' gradient and the action's columns of the first layer. Forward passes that
several losses share count once, and nothing that is thrown away counts.

Where an algorithm differentiates through a gradient: with F the forward pass and F1 its first
layer's share, the derivative of a loss's gradient along a direction takes 6 F - 4 F1: two products
for each of the gradient's, less the two with the derivative of the inputs, which is zero.
"""

from itertools import pairwise


class Operations:
    """The operations of one fully connected network, per row."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int) -> None:
        sizes = (inputs, *hidden, outputs)
        layers = [2 * a * b for a, b in pairwise(sizes)]
        self.forward = sum(layers)
        self.hidden_gradient = sum(layers[1:])
        self.train = 2 * self.forward + self.hidden_gradient
        self.through_gradient = 6 * self.forward - 4 * layers[0]
        self.num_weights = sum(layers) // 2 + sum(hidden) + outputs
        self._first_width = (*hidden, outputs)[0]

    def to_action(self, action_dim: int) -> int:
        """Forward, and a gradient for the action alone."""
        return self.forward + self.hidden_gradient + self.to_inputs(action_dim)

    def to_inputs(self, columns: int) -> int:
        """The gradient of some of the inputs, given that of the first layer."""
        return 2 * columns * self._first_width
