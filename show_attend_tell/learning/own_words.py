"""Scheduled sampling (Bengio et al. 2015) in two passes: some words before are the model's own.

When it tells, a model goes on from its own words; when it is taught, from those of people. Here it
is taught on a mixture. Its own words are its likeliest ones after the words of people, so that one
quick pass finds all of them and a second is taught as ever.
"""

import torch
from torch import Tensor

from show_attend_tell.learning.decoder import PADDING, Teachable


@torch.no_grad()
def with_own_words(
    decoder: Teachable, annotations: Tensor, captions: Tensor, share: float, dice: torch.Generator
) -> Tensor:
    """Captions with a share of their words replaced by what the decoder would have told there.

    `Teachable.teach` tells each word from those before it and never asks what it ought to be, so it
    can be given these, and its lesson be judged by the true captions.

    Parameters
    ----------
    annotations, captions
        (pictures, L, D) and (batch, steps), as `Teachable.teach` takes them.
    share
        Of the words, drawn one by one.

    Returns
    -------
    (batch, steps).
    """
    readout = decoder.teach(annotations, captions).readout
    own = torch.nn.functional.linear(readout, *decoder.softmax_layer()).argmax(2)  # (B, T)
    is_own = torch.rand(captions.shape, generator=dice) < share
    return torch.where(is_own & (captions != PADDING), own, captions)
