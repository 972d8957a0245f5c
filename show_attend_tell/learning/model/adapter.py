"""A PyTorch decoder as a `CaptioningModel`: dev scores come from the search that captions."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from show_attend_tell.captioning.model import Arrays, Floats, Integers
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.learning.model.attention import Places
from show_attend_tell.learning.model.decoder import State, Teachable


class TorchModel:
    """A thin adapter: NumPy arrays in and out, no copies on a CPU."""

    end_word = Vocabulary.END
    unknown_word = Vocabulary.UNKNOWN

    def __init__(self, decoder: Teachable) -> None:
        self.decoder = decoder
        self.start_word = self.vocabulary_size = decoder.words

    @torch.inference_mode()
    def start(self, features: Floats) -> tuple[Arrays, Arrays]:
        """Memory: annotations and grown keys; state: h and c."""
        places, state = self.decoder.start(self.decoder.see(torch.from_numpy(features)))
        return _arrays(places.annotations, places.exp_keys), _arrays(*state)

    @torch.inference_mode()
    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        """Alpha and gate."""
        alpha, gate = self.decoder.look(_places(memory), _state(state))
        return alpha.numpy(), gate.numpy()

    @torch.inference_mode()
    def advance(
        self,
        memory: Arrays,
        state: Arrays,
        weights: Floats,
        gate: Floats,
        words: Integers,
        best: int,
    ) -> tuple[Arrays, Floats, Integers]:
        """The next state, and the best words with their log-probabilities."""
        places, before = _places(memory), _state(state)
        tensors = [torch.from_numpy(x) for x in (weights, gate, words)]
        after, logits = self.decoder.advance(places, before, *tensors)
        log_probs, ids = torch.topk(logits, best, dim=1)
        log_probs -= torch.logsumexp(logits, dim=1, keepdim=True)
        return _arrays(*after), log_probs.numpy(), ids.numpy()


def _arrays(*tensors: Tensor) -> tuple[npt.NDArray[Any], ...]:
    return tuple(tensor.numpy() for tensor in tensors)


def _places(memory: Arrays) -> Places:
    annotations, exp_keys = (torch.from_numpy(np.ascontiguousarray(part)) for part in memory)
    return Places(annotations, exp_keys, exp_keys)  # the keys themselves only carry a gradient


def _state(state: Arrays) -> State:
    return State(*(torch.from_numpy(part) for part in state))
