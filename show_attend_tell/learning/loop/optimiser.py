"""The optimiser with its learning rates, and a moving average of the weights."""

import torch
from torch import Tensor

from show_attend_tell.learning.model.decoder import CaptionDecoder
from show_attend_tell.learning.recipe import TrainingSection
from show_attend_tell.learning.run import is_fine_tuned


def make_optimiser(decoder: CaptionDecoder, training: TrainingSection) -> torch.optim.Optimizer:
    """The recipe's optimiser, with a learning rate of its own for the encoder's stages."""
    named = list(decoder.named_parameters())
    groups = [
        {"params": parameters, "lr": rate, "first_lr": rate}
        for parameters, rate in (
            ([x for name, x in named if not is_fine_tuned(name)], training.learning_rate),
            ([x for name, x in named if is_fine_tuned(name)], training.fine_tuned_rate),
        )
        if parameters
    ]
    if training.optimiser == "adam":
        return torch.optim.Adam(groups, fused=True)
    # The authors' constants (Graves 2013): decay 0.95, momentum 0.9, centred, and their 1e-4 under
    # the root, which is 1e-2 beside it.
    return torch.optim.RMSprop(groups, alpha=0.95, eps=1e-2, momentum=0.9, centered=True)


def set_learning_rate(
    optimiser: torch.optim.Optimizer, training: TrainingSection, epoch: int
) -> None:
    """Set the learning rates of an epoch, counted from 0."""
    exponent = max(0, epoch + 1 - training.decay_after)
    for group in optimiser.param_groups:
        group["lr"] = group["first_lr"] * training.decay**exponent


class WeightAverage:
    """A moving average of a decoder's weights; of no tensors where `decay` is 0."""

    def __init__(self, decoder: CaptionDecoder, decay: float) -> None:
        self.decay = decay
        self.tensors: dict[str, Tensor] = {}
        if decay:
            state = decoder.state_dict()
            self.tensors = {name: tensor.detach().clone() for name, tensor in state.items()}

    @torch.no_grad()
    def update(self, decoder: CaptionDecoder, step: int) -> None:
        """Take in the weights after a step, counted from 0."""
        if not self.tensors:
            return
        # A young average forgets fast, so that the first weights do not hold it back.
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, tensor in decoder.state_dict().items():
            if tensor.is_floating_point():
                self.tensors[name].lerp_(tensor, 1 - decay)
