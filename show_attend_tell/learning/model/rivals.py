"""The paper's rivals: decoders without attention, with the same interface and training loop.

Their input is the mean of the annotation vectors. Two are from table 1: NIC, which gets the picture
once (Vinyals et al. 2014), and the log-bilinear model, which has no recurrence but a window of
words (Kiros et al. 2014a). The third, this paper's decoder with uniform attention, is
`attention.EvenAttention`.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from show_attend_tell.learning.model.attention import Memory
from show_attend_tell.learning.model.decoder import (
    CaptionDecoder,
    Decoder,
    DecoderOutput,
    Dropout,
    State,
    identity,
    previous_words,
)
from show_attend_tell.learning.recipe import ModelSection

WINDOW = 5  # words that the log-bilinear model predicts from
OPEN = 3.0  # bias of NIC's forget gates at first: they keep 0.95 of the picture from word to word


def make_decoder(recipe: ModelSection, depth: int, words: int) -> CaptionDecoder:
    """The decoder that a recipe names, with random weights."""
    kinds: dict[str, type[CaptionDecoder]] = {"nic": Nic, "log-bilinear": LogBilinear}
    return kinds.get(recipe.attention, Decoder)(recipe, depth, words)


class NoAttention(CaptionDecoder):
    """The base of both: uniform attention weights, and gates of zero."""

    def __init__(self, recipe: ModelSection, depth: int, words: int) -> None:
        super().__init__()
        width = recipe.annotation_width or depth
        self.narrow = nn.Linear(depth, width) if recipe.annotation_width else nn.Identity()
        self.norm = nn.LayerNorm(width) if recipe.annotation_norm == "layer" else nn.Identity()
        self.picture = nn.Linear(width, recipe.word)
        self.embedding = nn.Embedding(words + 1, recipe.word)  # row K: no word yet
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = recipe.dropout
        self.words = words

    def look(self, memory: Memory, state: State) -> tuple[Tensor, Tensor]:
        """Uniform weights: (rows, L); gates of zero: (rows,)."""
        L = memory.annotations.shape[1]
        return state.h.new_full((len(state.h), L), 1 / L), state.h.new_zeros(len(state.h))

    def _picture(self, annotations: Tensor) -> tuple[Memory, Tensor]:
        """The memory, and the picture as one vector: (pictures, m)."""
        a = self.norm(self.narrow(annotations))
        return Memory(annotations, annotations, annotations), self.picture(a.mean(dim=1))

    def _output(self, readout: Tensor, annotations: Tensor) -> DecoderOutput:
        batch, steps, _ = readout.shape
        L = annotations.shape[1]
        even = readout.new_full((batch, steps, L), 1 / L)
        return DecoderOutput(readout, even, even, readout.new_zeros(batch, steps))


class Nic(NoAttention):
    """The picture is the LSTM's first input, and its only one besides the words.

    The readout is that of equation 7 without its context, so that the two models differ in how
    the picture enters and in nothing else. Pictures are standardised over a
    mini-batch: otherwise what they share outweighs what distinguishes them, and the LSTM ignores
    them for a thousand steps and more. They get no dropout, and the forget gates start open, so
    that the picture is kept before the LSTM has learned to keep it (docs/log.md).
    """

    def __init__(self, recipe: ModelSection, depth: int, words: int) -> None:
        super().__init__(recipe, depth, words)
        self.standardise = nn.BatchNorm1d(recipe.word)
        self.lstm = nn.LSTM(recipe.word, recipe.hidden, batch_first=True)
        _, forget, _, _ = self.lstm.get_parameter("bias_ih_l0").data.chunk(4)
        nn.init.constant_(forget, OPEN)
        self.readout_state = nn.Linear(recipe.hidden, recipe.word)
        self.output = nn.Linear(recipe.word, words)
        self.squash = torch.tanh if recipe.readout == "tanh" else identity

    def softmax_layer(self) -> tuple[Tensor, Tensor]:
        """L_o (K, m), and its bias (K)."""
        return self.output.weight, self.output.bias

    def start(
        self, annotations: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Memory, State]:
        """Feed the picture. annotations: (pictures, L, D)."""
        memory, picture = self._picture(annotations)
        _, (h, c) = self.lstm(self._standardised(picture).unsqueeze(1))
        return memory, State(h[0], c[0])

    def advance(
        self, memory: Memory, state: State, weights: Tensor, gate: Tensor, words: Tensor
    ) -> tuple[State, Tensor]:
        """One step: the next state, and logits (rows, K)."""
        x = self.embedding(words)
        before = tuple(part.unsqueeze(0) for part in state)
        _, (h, c) = self.lstm(x.unsqueeze(1), before)
        readout = self._readout(x, h[0], Dropout(0.0, None))
        return State(h[0], c[0]), nn.functional.linear(readout, *self.softmax_layer())

    def forward(
        self,
        annotations: Tensor,
        captions: Tensor,
        generator: torch.Generator | None = None,
        choose: Callable[[Tensor], Tensor] = identity,
    ) -> DecoderOutput:
        """Teacher forcing; `choose` is not used."""
        _, state = self.start(annotations, generator)
        of_each = len(captions) // len(annotations)
        before = tuple(part.repeat_interleave(of_each, dim=0).unsqueeze(0) for part in state)
        x = self.embedding(previous_words(captions, self.words))  # (B, T, m)
        hs, _ = self.lstm(x, before)
        readout = self._readout(x, hs, Dropout(self.dropout, generator))
        return self._output(readout, annotations)

    def _standardised(self, picture: Tensor) -> Tensor:
        norm = self.standardise
        return nn.functional.batch_norm(
            picture,
            norm.running_mean,
            norm.running_var,
            norm.weight,
            norm.bias,
            training=norm.training and len(picture) > 1,  # a single picture has no variance
        )

    def _readout(self, x: Tensor, h: Tensor, keep: Dropout) -> Tensor:
        return keep(self.squash(x + self.readout_state(keep(h))))


class LogBilinear(NoAttention):
    """The next word's vector, predicted linearly from those of the last n words and the picture.

        r̂ = Σ_i C_i r_(w_i) + C_x x,   p(w) = softmax(r̂ · r_w + b_w)

    It is additive in the picture, and words have the same vectors going in and coming out. Its
    state h holds the vectors of the last n words, c the picture's share, which never changes.
    """

    def __init__(self, recipe: ModelSection, depth: int, words: int) -> None:
        super().__init__(recipe, depth, words)
        self.context = nn.Linear(WINDOW * recipe.word, recipe.word, bias=False)  # C_1..C_n
        self.bias = nn.Parameter(torch.zeros(words))

    def softmax_layer(self) -> tuple[Tensor, Tensor]:
        """The embeddings of all words but "no word yet", and a bias: (K, m), (K)."""
        return self.embedding.weight[:-1], self.bias

    def start(
        self, annotations: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Memory, State]:
        """A window of "no word yet". annotations: (pictures, L, D)."""
        memory, picture = self._picture(annotations)
        none = torch.full((len(annotations), WINDOW), self.words)
        return memory, State(self.embedding(none).flatten(1), picture)

    def advance(
        self, memory: Memory, state: State, weights: Tensor, gate: Tensor, words: Tensor
    ) -> tuple[State, Tensor]:
        """One step: the window moves on by a word; logits (rows, K)."""
        x = self.embedding(words)
        window = torch.cat([state.h[:, x.shape[1] :], x], dim=1)
        predicted = self.context(window) + state.c
        return State(window, state.c), nn.functional.linear(predicted, *self.softmax_layer())

    def forward(
        self,
        annotations: Tensor,
        captions: Tensor,
        generator: torch.Generator | None = None,
        choose: Callable[[Tensor], Tensor] = identity,
    ) -> DecoderOutput:
        """Teacher forcing; `choose` is not used."""
        _, state = self.start(annotations)
        before = previous_words(captions, self.words)
        none = before[:, :1].expand(-1, WINDOW - 1)  # before the first word there is none
        windows = torch.cat([none, before], dim=1).unfold(1, WINDOW, 1)  # (B, T, n)
        picture = state.c.repeat_interleave(len(captions) // len(annotations), dim=0)
        predicted = self.context(self.embedding(windows).flatten(2)) + picture.unsqueeze(1)
        return self._output(Dropout(self.dropout, generator)(predicted), annotations)
