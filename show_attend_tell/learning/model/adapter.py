"""A PyTorch decoder as a `CaptioningModel`: dev scores come from the search that captions."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from show_attend_tell.captioning.model import Arrays, Floats, Integers
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.learning.model.attention import Memory
from show_attend_tell.learning.model.decoder import CaptionDecoder, State


class TorchModel:
    """A thin adapter: NumPy arrays in and out, no copies on a CPU."""

    end_word = Vocabulary.END
    unknown_word = Vocabulary.UNKNOWN

    def __init__(self, decoder: CaptionDecoder) -> None:
        self.decoder = decoder
        self.start_word = self.vocabulary_size = decoder.words

    @torch.inference_mode()
    def start(self, features: Floats) -> tuple[Arrays, Arrays]:
        """Memory: annotations and E(keys); state: h and c."""
        memory, state = self.decoder.start(self.decoder.encode(torch.from_numpy(features)))
        return _arrays(memory.annotations, memory.exp_keys), _arrays(*state)

    @torch.inference_mode()
    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        """Alpha and gate."""
        alpha, gate = self.decoder.look(_memory(memory), _state(state))
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
        annotated, before = _memory(memory), _state(state)
        tensors = [torch.from_numpy(x) for x in (weights, gate, words)]
        after, logits = self.decoder.advance(annotated, before, *tensors)
        log_probs, ids = torch.topk(logits, best, dim=1)
        log_probs -= torch.logsumexp(logits, dim=1, keepdim=True)
        return _arrays(*after), log_probs.numpy(), ids.numpy()


def _arrays(*tensors: Tensor) -> tuple[npt.NDArray[Any], ...]:
    return tuple(tensor.numpy() for tensor in tensors)


def _memory(memory: Arrays) -> Memory:
    annotations, exp_keys = (torch.from_numpy(np.ascontiguousarray(part)) for part in memory)
    return Memory(annotations, exp_keys, exp_keys)  # the keys themselves only carry a gradient


def _state(state: Arrays) -> State:
    return State(*(torch.from_numpy(part) for part in state))
